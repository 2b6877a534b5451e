"""The reward doctor: does a reward reward what it should?"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.rewards import (
    EnvironmentReward,
    ProgrammaticReward,
    RewardAdapter,
    RewardFigures,
    Score,
    WeightedReward,
    diagnose_reward,
    exact_match,
    reply_text,
    reward_figures,
)
from artkit.rewards.doctor.figures import reply_length
from artkit.scenarios import PromptScenario
from artkit.testing import Reply, choice, episode

if TYPE_CHECKING:
    from artkit.episodes import Episode

LABELS = ("5", "15", "25", "35")


def played(label: str, reply: str, **more: Any) -> Episode:
    scenario = PromptScenario(id=f"sum-{label}", messages="?", label=label)
    return episode("?", choice(reply), scenario=scenario, **more)


def some_episodes() -> list[Episode]:
    """Four scenarios, each with two right replies, a wrong one and a long wrong one."""
    return [played(label, reply) for label in LABELS for reply in (label, label, "7", "it is 7, " * 3)]


def gold() -> list[Episode]:
    return [played(label, label) for label in LABELS]


def length_of(trajectory: art.Trajectory) -> int:
    return len(reply_text(trajectory) or "")


class Judge(RewardAdapter):
    """Ranks the members by `key`, given a member and its place in the order it sees; scores lie in [0, 1]."""

    relative = True

    def __init__(self, key: Callable[[art.Trajectory, int], float]) -> None:
        self.key = key

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        values = [self.key(member, place) for place, member in enumerate(group.trajectories)]
        return [value / (max(values) or 1) for value in values]


def rightness(member: art.Trajectory, place: int) -> float:
    return float(reply_text(member) == member.scenario.label) + 1


async def test_a_sound_reward_has_nothing_wrong_with_it() -> None:
    """The right replies win, and nothing else does."""
    found = await diagnose_reward(ProgrammaticReward(exact_match()), some_episodes(), gold())

    assert found.warnings == ()
    assert (found.gold, found.do_nothing, found.episodes_beside, found.gold_losses) == (1.0, 0.0, 0.5, ())
    assert (found.figures.members, found.figures.groups) == (16, 4)
    assert (found.figures.low, found.figures.high, found.figures.mean) == (0.0, 1.0, 0.5)
    assert found.figures.equal_share == 0.0
    assert (found.order_agreement, dict(found.unscored)) == (None, {})


async def test_the_episodes_stay_as_they_are() -> None:
    """They may be on their way into training."""
    episodes = some_episodes()
    before = copy.deepcopy([each.__dict__ for each in episodes])
    await diagnose_reward(WeightedReward({"exact": (ProgrammaticReward(exact_match()), 1)}), episodes, episodes[:2])

    assert [each.__dict__ for each in episodes] == before


async def test_doing_nothing_must_not_pay() -> None:
    """A penalty that is larger than what can be won teaches silence."""
    found = await diagnose_reward(ProgrammaticReward(lambda each: -length_of(each)), some_episodes(), gold())

    assert found.do_nothing == 0.0
    assert found.warnings[0].startswith("doing nothing scores 0, the episodes -")
    assert found.warnings[1] == ("the known-good episode does not beat doing nothing in 4: sum-5, sum-15, sum-25, …")


async def test_doing_nothing_must_be_scored() -> None:
    """An episode that leaves its group is not punished."""

    def strict(each: Episode) -> float:
        return float(int(reply_text(each).split()[0] == "5"))

    found = await diagnose_reward(ProgrammaticReward(strict), some_episodes())

    assert found.do_nothing is None
    assert found.warnings[0].startswith("doing nothing could not be scored (IndexError: list index out of range): such")


async def test_what_the_environment_pays_for_doing_nothing_is_not_made_up() -> None:
    """The empty reply was not played: it has neither a sum of step rewards nor an outcome."""
    episodes = some_episodes()
    for each in episodes:
        each.environment_reward, each.outcome = rightness(each, 0), {"won": rightness(each, 0)}
    paid = await diagnose_reward(EnvironmentReward(), episodes)
    won = await diagnose_reward(ProgrammaticReward(lambda each: each.outcome["won"]), episodes)

    assert (paid.do_nothing, paid.warnings) == (None, ())
    assert won.warnings[0].endswith("an empty reply that was not played, has no outcome")


async def test_known_good_episodes_find_their_scenario_by_the_prompt_too() -> None:
    """They are often written by hand, and wrong ones must not pass unseen."""

    def asked(label: str, reply: str, **more: Any) -> Episode:
        return episode(f"{label}?", choice(reply), **more)

    episodes = [
        asked(label, reply, scenario=PromptScenario(id=label, messages="?", label=label))
        for label in LABELS
        for reply in (label, "7")
    ]
    found = await diagnose_reward(ProgrammaticReward(exact_match()), episodes, [
        asked("5", "wrong", scenario=PromptScenario(id="another", messages="?", label="5")),
        *(asked(label, "wrong").model_copy(update={"metadata": {"label": label}}) for label in LABELS[1:]),
    ])  # fmt: skip

    assert (found.gold, found.gold_losses) == (0.0, LABELS)


async def test_known_good_episodes_of_no_scenario_are_refused() -> None:
    """Passed over, they would say that all is well."""
    stranger = played("45", "45").model_copy(update={"messages_and_choices": [{"role": "user", "content": "45?"}]})

    with pytest.raises(ConfigurationError, match="1 known-good episodes are of no scenario of the others: sum-45"):
        await diagnose_reward(ProgrammaticReward(exact_match()), some_episodes(), [*gold(), stranger])


async def test_groups_are_taken_apart() -> None:
    """A recording holds groups, and so does a gather."""
    episodes = some_episodes()
    for each in episodes:
        del each.metadata["scenario_id"]
    groups = [art.TrajectoryGroup(episodes[n : n + 4], metadata={"scenario_id": n}) for n in range(0, 16, 4)]
    reward = ProgrammaticReward(exact_match())
    found = await diagnose_reward(reward, groups, groups[:1])

    assert found.figures == (await diagnose_reward(reward, some_episodes())).figures
    assert found.gold_losses == ("0",)
    with pytest.raises(ConfigurationError, match=r"among the episodes is a list .*read_groups returns two lists"):
        await diagnose_reward(reward, (groups, []))


async def test_what_could_not_be_scored_is_counted_by_its_cause() -> None:
    """A grader that fails on some replies."""
    found = await diagnose_reward(ProgrammaticReward(lambda each: int(reply_text(each) or "0")), some_episodes())

    assert sum(found.unscored.values()) == 4
    assert next(iter(found.unscored)).startswith("ValueError: invalid literal for int()")
    assert found.warnings[0] == "4 of 16 episodes could not be scored"


async def test_the_most_frequent_causes_are_shown_with_their_counts() -> None:
    """Each names its scenario and member: told apart by those, every cause would occur once."""

    def unsure(each: Episode) -> Score | float:
        reply = reply_text(each)
        if reply == "7":
            return Score(None, explanation="seven is odd")
        return float("nan") if len(reply) > 5 and each.scenario.label == "5" else 1.0

    found = await diagnose_reward(ProgrammaticReward(unsure), some_episodes()[::-1])

    assert list(found.unscored.values()) == [4, 1]
    assert next(iter(found.unscored)).startswith("RewardError: not scored: seven is odd")
    assert str(found).splitlines()[3:5] == [
        f"{name:<25}  {cause}" for name, cause in zip(("  4 times", "  once"), found.unscored, strict=True)
    ]


async def test_length_that_is_all_that_pays_is_found() -> None:
    """The commonest hack."""
    found = await diagnose_reward(ProgrammaticReward(length_of), some_episodes())

    assert found.figures.length_correlation == pytest.approx(1.0)
    assert "reward and length correlate by +1.00: writing longer replies may be all that is learned" in found.warnings


async def test_a_part_that_decides_alone_is_found() -> None:
    """A weight that looks balanced is not, where one part varies more."""
    parts = {"exact": (ProgrammaticReward(exact_match()), 1), "length": (ProgrammaticReward(length_of), 1)}
    found = await diagnose_reward(WeightedReward(parts), some_episodes())

    assert found.figures.part_shares["length"] > 0.99
    assert sum(found.figures.part_shares.values()) == pytest.approx(1.0)
    assert any(each.startswith("part 'length' makes") for each in found.warnings)


async def test_a_relative_reward_is_asked_in_the_reverse_order_too() -> None:
    """A judge that prefers what it sees first is ranking the order."""
    fair = await diagnose_reward(Judge(rightness), some_episodes(), gold())
    biased = await diagnose_reward(Judge(lambda member, place: place + 1), some_episodes())
    inside = await diagnose_reward(
        WeightedReward({"judge": (Judge(lambda member, place: place + 1), 1.0)}), some_episodes()
    )

    assert (fair.order_agreement, fair.gold_losses, fair.warnings) == (1.0, (), ())
    assert (biased.order_agreement, inside.order_agreement) == (0.0, 0.0)
    assert "with the order reversed, the judge agrees with itself on 0% of pairs" in biased.warnings


async def test_a_reward_that_chooses_the_order_reverses_it_itself() -> None:
    """RULER shuffles what it is given."""

    class Shuffling(Judge):
        def reversed_order(self) -> RewardAdapter:
            return Judge(lambda member, place: 2 - rightness(member, place))

    found = await diagnose_reward(Shuffling(rightness), some_episodes())

    assert found.order_agreement == pytest.approx(1 / 3)  # of six pairs per group, the two of equal members


async def test_the_table_says_it_in_words() -> None:
    """For people; values are for code."""
    found = await diagnose_reward(ProgrammaticReward(exact_match()), some_episodes(), gold())

    assert str(found).splitlines() == [
        "ProgrammaticReward(exact_match(), timeout_s=60.0, on_error='drop_member')",
        "episodes scored            16, in 4 groups of two or more",
        "not scored                 0",
        "range                      0 to 1, mean 0.5",
        "known-good episodes        1",
        "doing nothing              0",
        "groups of equal rewards    0%",
        "correlation with length    -0.55",
        "agreement, order reversed  -",
        "nothing looks wrong",
    ]


async def test_plain_trajectories_are_grouped_by_their_prompt() -> None:
    """They may carry no id."""
    plain = [
        art.Trajectory(messages_and_choices=[{"role": "user", "content": question}, choice(reply)])
        for question in ("a?", "b?")
        for reply in ("1", "2")
    ]
    found = await diagnose_reward(ProgrammaticReward(lambda each: float(reply_text(each) or 0)), plain)

    assert (found.figures.members, found.figures.groups, found.do_nothing) == (4, 2, 0.0)


async def test_an_error_is_raised_when_the_reward_says_so() -> None:
    """As it is."""
    with pytest.raises(ZeroDivisionError):
        await diagnose_reward(ProgrammaticReward(lambda _: 1 / 0, on_error="raise"), some_episodes())


@pytest.mark.parametrize(
    ("reward", "episodes"),
    [
        (exact_match(), [played("5", "5")]),
        (Judge, [played("5", "5")]),
        (abs, [played("5", "5")]),
        (Judge(rightness), []),
    ],
)
async def test_what_cannot_be_examined_is_refused(reward, episodes) -> None:
    """A function is no adapter, and nothing shows nothing."""
    with pytest.raises(ConfigurationError):
        await diagnose_reward(reward, episodes)


# The figures alone, as a training step has them.


def make_group(rewards: list[float], lengths: list[int] | None = None) -> art.TrajectoryGroup:
    lengths = lengths or [1] * len(rewards)
    pairs = zip(rewards, lengths, strict=True)
    return art.TrajectoryGroup([episode("?", choice("x" * length), reward=reward) for reward, length in pairs])


def test_figures_of_nothing_are_none() -> None:
    """A step whose rollouts all failed."""
    empty = RewardFigures(
        members=0, groups=0, low=None, high=None, mean=None, equal_share=None, length_correlation=None
    )

    assert reward_figures([]) == reward_figures([art.TrajectoryGroup([])]) == empty
    assert empty.warnings == ()


def test_figures_by_hand() -> None:
    """Shares are of groups with two or more members; correlation is within groups."""
    found = reward_figures([make_group([1, 1]), make_group([0, 2], [3, 1]), make_group([5], [9]), make_group([])])

    assert found == RewardFigures(
        members=5, groups=2, low=0, high=5, mean=9 / 5, equal_share=0.5, length_correlation=pytest.approx(-1.0)
    )


def test_length_is_all_that_the_model_wrote() -> None:
    """Also in earlier turns and in its calls; what it was told does not count."""
    call = choice(Reply("ab", tool_calls=[("look", "{}")]))
    told = {"role": "tool", "tool_call_id": "1", "content": "told"}
    later = {
        "role": "assistant",
        "content": [{"type": "text", "text": "c"}],
        "tool_calls": [{"function": {"arguments": "[]"}}],
    }

    assert reply_length(episode("?", call, told, later)) == 7


def test_a_task_that_needs_longer_replies_is_no_hack() -> None:
    """Between groups reward and length may go together; within a group they are not to."""
    groups = [make_group([level + 0.0, level + 1.0, level + 0.0, level + 1.0], [level] * 4) for level in range(1, 6)]

    assert reward_figures(groups).length_correlation is None


@pytest.mark.parametrize(
    ("groups", "warning"),
    [
        ([make_group([0, 0])] * 8, "all 16 rewards are 0"),
        ([make_group([0, 0])] * 6 + [make_group([0, 1])] * 2, "75% of the groups have equal rewards"),
        ([make_group([1, 0], [1, 5])] * 8, "reward and length correlate by -1.00: writing shorter replies"),
        ([make_group([0, 0])] * 7, None),
        ([make_group([1, 0])] * 8, None),
    ],
)
def test_a_warning_needs_evidence(groups, warning) -> None:
    """Of fewer than 16 members, chance is enough."""
    warnings = reward_figures(groups).warnings

    assert [each[: len(warning)] for each in warnings] == [warning] if warning else warnings == ()


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=4), max_size=5), st.floats(0.5, 2), st.floats(-1, 1))
def test_figures_are_within_their_bounds(rewards: Any, weight: float, other: float) -> None:
    """And do not depend on the order of the groups."""
    groups = [make_group(each, [1 + number for number in range(len(each))]) for each in rewards]
    for group in groups:
        for member in group.trajectories:
            member.metrics |= {"a_score": member.reward, "b_score": 1.0}
    found = reward_figures(groups, weights={"a": weight, "b": other})

    assert (found.groups, found.low, found.high) == (
        sum(len(each) > 1 for each in rewards),
        min((value for each in rewards for value in each), default=None),
        max((value for each in rewards for value in each), default=None),
    )
    assert found.equal_share is None or 0 <= found.equal_share <= 1
    assert found.length_correlation is None or abs(found.length_correlation) <= 1 + 1e-9
    assert sum(found.part_shares.values()) == pytest.approx(1.0 if found.part_shares else 0.0)
    again = reward_figures(groups[::-1], weights={"b": other, "a": weight})
    assert (again.members, again.groups, again.low, again.high, again.equal_share) == (
        sum(map(len, rewards)),
        found.groups,
        found.low,
        found.high,
        pytest.approx(found.equal_share),
    )
    assert (again.mean, again.length_correlation, dict(again.part_shares)) == (
        pytest.approx(found.mean),
        pytest.approx(found.length_correlation, abs=1e-6),
        pytest.approx(dict(found.part_shares), abs=1e-6),
    )


@given(st.lists(st.lists(st.floats(), max_size=4), max_size=5), st.floats(allow_nan=False, allow_infinity=False))
def test_figures_never_raise(rewards: Any, weight: float) -> None:
    """They are worked out while a run goes on, and a reward of 1e200 is finite."""
    groups = [make_group(each, [1 + number for number in range(len(each))]) for each in rewards]
    for group in groups:
        for member in group.trajectories:
            member.metrics |= {"a_score": member.reward, "b_score": 1e308}
    found = reward_figures(groups, weights={"a": weight, "b": -1.0})

    assert all(0 <= share <= 1 for share in found.part_shares.values())
    assert found.length_correlation is None or abs(found.length_correlation) <= 1 + 1e-9


def test_huge_rewards_have_the_figures_of_small_ones() -> None:
    """Shares and correlations do not depend on the unit."""
    small, huge = ([make_group([unit, 3 * unit], [1, 3]), make_group([unit, 0], [5, 2])] for unit in (1.0, 1e200))

    assert reward_figures(huge).length_correlation == pytest.approx(reward_figures(small).length_correlation)
