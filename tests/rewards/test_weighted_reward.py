"""A reward of several parts."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import Episode
from artkit.errors import ConfigurationError, JudgeError, OutageError, RewardError
from artkit.rewards import ProgrammaticReward, RewardAdapter, RulerReward, Score, WeightedReward, number_match


class Fixed(RewardAdapter):
    """Answers what it is told to."""

    def __init__(self, *answers: Any, on_error: Any = "drop_member", relative: bool = False) -> None:
        self.answers = answers
        self.on_error = on_error
        self.relative = relative

    async def score(self, group: art.TrajectoryGroup) -> Any:
        if isinstance(self.answers[0], BaseException) and len(self.answers) == 1:
            raise self.answers[0]
        return self.answers


def make_group(size: int) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([Episode(reward=0.125) for _ in range(size)], metadata={"scenario_id": "s"})


async def score(reward: WeightedReward, size: int = 2) -> tuple[list[float | None], art.TrajectoryGroup]:
    """What each member is worth, None for one that left, and the group."""
    group = make_group(size)
    members = list(group.trajectories)
    await reward(group)
    kept = {id(member) for member in group.trajectories}
    return [member.reward if id(member) in kept else None for member in members], group


async def test_the_reward_is_the_weighted_sum_and_each_part_is_logged() -> None:
    """Unweighted, for a weight is changed more often than a check."""
    judge = Fixed(Score(0.5, metrics={"tone": 1}, explanation="fine"), 0.75)
    check = Fixed(True, Score(0.0, explanation="no JSON"))
    rewards, group = await score(WeightedReward({"judge": (judge, 1.0), "check": (check, 0.5)}))

    assert rewards == [1.0, 0.75]
    assert [member.metrics for member in group.trajectories] == [
        {"judge_score": 0.5, "tone": 1, "check_score": 1.0},
        {"judge_score": 0.75, "check_score": 0.0},
    ]
    assert [member.logs for member in group.trajectories] == [
        ["WeightedReward: judge: fine"],
        ["WeightedReward: check: no JSON"],
    ]


async def test_a_negative_weight_is_a_penalty() -> None:
    """Of length, say."""
    rewards, _ = await score(WeightedReward({"check": (Fixed(1, 1), 1), "length": (Fixed(0.5, 0), -0.5)}))

    assert rewards == [0.75, 1.0]


@pytest.mark.parametrize("missing", [None, Score(None, explanation="the judge refused"), math.nan, KeyError("x")])
async def test_a_member_that_one_part_could_not_score_is_unscored(missing) -> None:
    """Its sum would lack a part that its siblings' have."""
    rewards, group = await score(WeightedReward({"a": (Fixed(missing, 1), 1), "b": (Fixed(1, 1), 1)}))

    assert rewards == [None, 2.0]
    assert len(group.exceptions) == 1


async def test_the_cause_keeps_its_type_and_tells_the_part() -> None:
    """What is read is a traceback."""
    _, group = await score(WeightedReward({"a": (Fixed(KeyError("gold"), 1), 1)}))

    assert (group.exceptions[0].type, group.exceptions[0].message) == ("KeyError", "'gold'")
    assert "Fixed: scenario 's', member 0" in group.exceptions[0].traceback


async def test_a_group_may_go_without_a_part_instead() -> None:
    """All its members alike, at the same scale; how often is logged."""
    parts = {"a": (Fixed(None, 1), 3), "b": (Fixed(1, 0.5), -1)}
    rewards, group = await score(WeightedReward(parts, on_unscored="drop_part"))

    assert rewards == [-4.0, -2.0]
    assert [member.metrics for member in group.trajectories] == [
        {"a_dropped": True, "b_dropped": False, "b_score": 1.0},
        {"a_dropped": True, "b_dropped": False, "b_score": 0.5},
    ]


async def test_without_any_complete_part_only_complete_members_are_scored() -> None:
    """There is no part to go without."""
    parts = {"a": (Fixed(None, 1, 1), 1), "b": (Fixed(1, None, 1), 1)}
    rewards, _ = await score(WeightedReward(parts, on_unscored="drop_part"), 3)

    assert rewards == [None, None, 2.0]


async def test_a_part_that_is_told_to_raise_raises() -> None:
    """The error itself, with nothing changed."""
    part = Fixed(KeyError("gold"), on_error="raise")
    group = make_group(2)

    with pytest.raises(KeyError, match="gold"):
        await WeightedReward({"a": (part, 1), "b": (Fixed(1, 1), 1)}, on_error="drop_member")(group)
    assert [member.reward for member in group.trajectories] == [0.125] * 2


async def test_the_strictest_part_decides_what_an_error_leads_to() -> None:
    """Unless it is said."""
    lax, strict = Fixed(1, 1), Fixed(math.nan, 1, on_error="drop_group")
    parts = {"a": (lax, 1), "b": (strict, 1)}

    assert WeightedReward(parts).on_error == "drop_group"
    assert WeightedReward({"a": (lax, 1)}).on_error == "drop_member"
    assert (await score(WeightedReward(parts)))[0] == [None, None]
    with pytest.raises(RewardError, match="reward nan is not finite"):
        await score(WeightedReward(parts, on_error="raise"))


async def test_a_wrong_count_of_a_part_always_raises() -> None:
    """Scores that can't be matched to members must not be."""
    with pytest.raises(RewardError, match=r"Fixed: scenario 's': score.* returned 1 answers for 2 members"):
        await score(WeightedReward({"a": (Fixed(1), 1), "b": (Fixed(1, 1), 1)}))


async def test_an_error_that_scoring_again_cannot_cure_raises() -> None:
    """A judge that refuses us stops the run from inside a sum as well."""
    with pytest.raises(OutageError, match="401"):
        await score(WeightedReward({"a": (Fixed(OutageError("401", "set the key")), 1), "b": (Fixed(1, 1), 1)}))


async def test_two_parts_cannot_set_the_same_metric() -> None:
    """One of them would be lost."""
    one, other = Fixed(Score(1, metrics={"exact": 1})), Fixed(Score(1, metrics={"exact": 0}))
    rewards, group = await score(WeightedReward({"a": (one, 1), "b": (other, 1)}), 1)
    own, causes = await score(WeightedReward({"a": (Fixed(Score(1, metrics={"a_score": 3})), 1)}), 1)

    assert (rewards, own) == ([None], [None])
    assert group.exceptions[0].message.startswith(
        "WeightedReward: scenario 's': part 'b' sets the metric 'exact', which another part sets too"
    )
    assert "part 'a' sets the metric 'a_score'" in causes.exceptions[0].message


async def test_a_metric_of_two_parts_costs_the_whole_group() -> None:
    """Dropping only the members whose values differ would leave a selection of the others to be trained on."""
    one, other = Fixed(*[Score(1, metrics={"exact": 1})] * 2), Fixed(*[Score(1, metrics={"exact": n}) for n in (0, 1)])
    rewards, group = await score(WeightedReward({"a": (one, 1), "b": (other, 1)}))

    assert rewards == [None, None]
    assert len(group.exceptions) == 2


async def test_a_judge_that_failed_is_told_whatever_became_of_the_member() -> None:
    """A part that is dropped, or that another part's failure stands before, is not healthy for all that."""
    broken, fine = Fixed(JudgeError("the judge is out", "ask later")), Fixed(1.0, 0.5)
    rewards, dropped = await score(WeightedReward({"judge": (broken, 1), "check": (fine, 1)}, on_unscored="drop_part"))
    _, behind = await score(WeightedReward({"check": (Fixed(None, None), 1), "judge": (broken, 1)}))

    assert rewards == [2.0, 1.0]
    assert dropped.trajectories[0].logs == ["WeightedReward: judge: the judge is out"]
    assert (dropped.metrics, behind.metrics) == ({"judge_errors": 1}, {"judge_errors": 1})


async def test_a_sum_beyond_all_numbers_is_an_error() -> None:
    """Infinity makes every advantage of its group NaN."""
    rewards, group = await score(WeightedReward({"a": (Fixed(1e308, 1), 10)}))

    assert rewards == [None, 10.0]
    assert group.exceptions[0].message.startswith(
        "WeightedReward: scenario 's', member 0: the weighted sum inf is not finite"
    )


async def test_the_parts_score_at_the_same_time() -> None:
    """A judge takes seconds, and so may a check."""
    barrier = asyncio.Barrier(2)

    async def meet(_: Episode) -> float:
        await barrier.wait()
        return 1.0

    parts = {name: (ProgrammaticReward(meet, timeout_s=30), 1.0) for name in "ab"}

    assert (await score(WeightedReward(parts), 1))[0] == [2.0]


async def test_an_empty_group_is_returned_untouched() -> None:
    """No part is asked about nobody."""
    group = make_group(0)

    assert await WeightedReward({"a": (Fixed(RuntimeError("asked")), 1)})(group) is group
    assert group.exceptions == []


def test_it_is_relative_if_any_part_is() -> None:
    """And then needs two rollouts per group."""
    absolute, relative = (Fixed(1), 1.0), (Fixed(1, relative=True), 1.0)

    assert not WeightedReward({"a": absolute}).relative
    assert WeightedReward({"a": absolute, "b": relative}).relative


def test_it_needs_what_its_parts_need() -> None:
    """Each variable once, for the check before the run."""
    one, other, nested = Fixed(1), Fixed(1), Fixed(1)
    one.required_environment = ("OPENAI_API_KEY",)
    other.required_environment = ("OPENAI_API_KEY", "TOOL_KEY")
    nested.required_environment = ("DEEP_KEY",)
    reward = WeightedReward(
        {"a": (one, 1), "b": (other, 1), "c": (Fixed(1), 1), "d": (WeightedReward({"e": (nested, 1)}), 1)}
    )

    assert reward.required_environment == ("OPENAI_API_KEY", "TOOL_KEY", "DEEP_KEY")


async def test_sums_nest() -> None:
    """A part is any adapter."""
    inner = WeightedReward({"x": (Fixed(1, 0.5), 2)})
    rewards, group = await score(WeightedReward({"inner": (inner, 0.5)}))

    assert rewards == [1.0, 0.5]
    assert group.trajectories[0].metrics == {"x_score": 1.0, "inner_score": 2.0}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: WeightedReward({}), r"parts=\{\} holds no part"),
        (lambda: WeightedReward([(Fixed(1), 1)]), r"parts=\[.*\] is no mapping .*give \{"),
        (lambda: WeightedReward({"": (Fixed(1), 1)}), "the name '' is no text"),
        (lambda: WeightedReward({"a": Fixed(1)}), r"parts\['a'\]=.* is no \(adapter, weight\)"),
        (lambda: WeightedReward({"a": (abs, 1)}), r"parts\['a'\]=.* is no RewardAdapter .*ProgrammaticReward\(fn\)"),
        (lambda: WeightedReward({"a": (Fixed, 1)}), r"parts\['a'\]=Fixed is a class.*give Fixed\("),
        (lambda: WeightedReward({"a": (number_match(), 1)}), r"give ProgrammaticReward\(number_match\("),
        (
            lambda: WeightedReward({"a": (RulerReward(), 1), "b": (RulerReward(), 1)}),
            r"parts 'a' and 'b' both set the metric 'ruler_score' .*name=",
        ),
        (
            lambda: WeightedReward({"a": (WeightedReward({"x": (Fixed(1), 1)}), 1), "x": (Fixed(1), 1)}),
            "parts 'a' and 'x' both set the metric 'x_score'",
        ),
        (lambda: WeightedReward({"x": (WeightedReward({"x": (Fixed(1), 2)}), 1)}), "holds a part 'x' itself"),
        (lambda: WeightedReward({"a": (Fixed(1), 0)}), "the weight 0 is no finite number other than 0"),
        (lambda: WeightedReward({"a": (Fixed(1), math.nan)}), "the weight nan"),
        (lambda: WeightedReward({"a": (Fixed(1), "1")}), "the weight '1'"),
        (lambda: WeightedReward({"a": (Fixed(1), 1)}, on_error="drop"), "on_error='drop' is unknown"),
        (lambda: WeightedReward({"a": (Fixed(1), 1)}, on_unscored="zero"), "on_unscored='zero' is unknown"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_made(make, problem: str) -> None:
    """Not after the first rollouts were paid for."""
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_it_reads_as_it_was_written() -> None:
    """The plan prints it."""
    reward = WeightedReward({"check": (ProgrammaticReward(abs), 0.5)})

    assert repr(reward) == (
        "WeightedReward({'check': (ProgrammaticReward(abs, timeout_s=60.0, on_error='drop_member'), 0.5)}, "
        "on_unscored='drop_member', on_error='drop_member')"
    )


scores = st.one_of(st.none(), st.floats(-10, 10))


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=5), st.sampled_from(["drop_member", "drop_part"]))
async def test_members_of_one_group_are_always_sums_of_the_same_parts(rows: Any, on_unscored: Any) -> None:
    """What makes their difference an advantage."""
    first, second = zip(*rows, strict=True)
    parts = {"a": (Fixed(*first), 1.0), "b": (Fixed(*second), 1.0)}
    rewards, group = await score(WeightedReward(parts, on_unscored=on_unscored), len(rows))
    logged = [{name for name in member.metrics if name.endswith("_score")} for member in group.trajectories]

    assert all(names == logged[0] for names in logged)
    for (one, other), reward in zip(rows, rewards, strict=True):
        if one is not None and other is not None and logged[0] == {"a_score", "b_score"}:
            assert reward == one + other
