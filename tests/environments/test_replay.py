"""Replaying recorded episodes in a fresh environment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import art
import pytest
from pydantic import BaseModel

from artkit.environments import (
    Action,
    Divergence,
    Environment,
    ReplayReport,
    SkippedEpisode,
    StepResult,
    play,
    replay,
)
from artkit.environments.scenario_type import scenario_type_of
from artkit.episodes import Episode, FailureKind, FailureRecord, StopReason, write_groups
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.scenarios import PromptScenario, Scenario
from artkit.testing import Reply, choice, episode


class Sum(Scenario):
    left: int
    right: int


class Verdict(BaseModel):
    said: str
    marks: set[str] = set()


class Adds(Environment[Sum]):
    """Asks for a sum until it is right."""

    max_turns = 5
    bonus = 1.0
    again = "no, try again"
    closed = 0

    def tools(self) -> Any:
        return [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]

    async def reset(self, scenario: Sum) -> Any:
        self.scenario = scenario
        return [
            {"role": "system", "content": "Add."},
            {"role": "user", "content": f"{scenario.left}+{scenario.right}="},
        ]

    async def step(self, action: Action) -> StepResult:
        if action.tool_calls:
            answers = [
                {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "look"}]}
                for call in action.tool_calls
            ]
            return StepResult(answers, metrics={"asked": True})
        is_right = action.text == str(self.scenario.left + self.scenario.right)
        outcome = Verdict(said=action.text, marks=set("edcba")) if is_right else None
        return StepResult(
            () if is_right else self.again,
            done=is_right,
            reward=self.bonus if is_right else -0.1,
            metrics={"tries": 1, "search_s": 0.25},
            outcome=outcome,
        )

    async def close(self) -> None:
        type(self).closed += 1


class Replies:
    def __init__(self, *replies: Reply | str) -> None:
        self.replies = replies

    async def act(self, messages: list[dict[str, Any]], tools: Any, turn: int) -> Any:
        return choice(self.replies[turn])


SUM = Sum(id="2+3", left=2, right=3)
TOOL = Reply(tool_calls=[("add", {"a": 2})])


async def played(*replies: Reply | str, scenario: Sum = SUM, member: int = 0) -> Episode:
    one = Episode(scenario=scenario, member=member, metadata={"scenario_id": scenario.id})
    return await play(Adds(), Replies(*replies), one, max_turns=len(replies))


async def test_the_same_environment_replays(tmp_path: Path) -> None:
    """Then a change of it was none, as far as these episodes go."""
    members = [await played(TOOL, "4", "5"), await played("1", "2", member=1)]
    members[0].metrics |= {"duration_s": 3.2, "score": 0.5}  # what a rollout and a reward add
    write_groups(tmp_path / "r.jsonl", [art.TrajectoryGroup(members)], [await played("5", member=2)])
    before = Adds.closed

    report = await replay(tmp_path / "r.jsonl", Adds)

    assert report == ReplayReport(replayed=3)
    assert report.ok
    assert Adds.closed == before + 3


class Prompts(Adds):
    async def reset(self, scenario: Sum) -> Any:
        return await super().reset(scenario) + [{"role": "user", "content": "Please."}]


class Words(Adds):
    again = "wrong"


class Bonus(Adds):
    bonus = 2.0


class Fails(Adds):
    async def step(self, action: Action) -> StepResult:
        if not action.tool_calls:
            raise KeyError("door")
        return await super().step(action)


class NoTools(Adds):
    def tools(self) -> Any:
        return []


class EndsSooner(Adds):
    async def step(self, action: Action) -> StepResult:
        return StepResult((await super().step(action)).messages, done=True)


@pytest.mark.parametrize(
    ("environment", "where", "values"),
    [
        (Prompts, (0, "the messages"), ("'2+3='}]", "Please")),
        (NoTools, (0, "the tools"), ("['add']", "[]")),
        (Words, (2, "the messages"), ("try again", "wrong")),
        (Bonus, (3, "the step rewards"), ("0.9", "1.9")),
        (Fails, (2, "whether it goes on"), ("True", "an error': \"KeyError: 'door'")),
        (EndsSooner, (1, "whether it goes on"), ("True", "False")),
    ],
    ids=["prompt", "tools", "answers", "reward", "error", "end"],
)
async def test_the_first_divergence_is_named(
    tmp_path: Path, environment: Any, where: tuple[int, str], values: tuple[str, str]
) -> None:
    """Where an environment was changed, it says for which old episodes that matters, and from where on."""
    member = await played(TOOL, "4", "5", member=3)
    write_groups(tmp_path / "r.jsonl", [art.TrajectoryGroup([member])])

    [divergence] = (await replay(tmp_path / "r.jsonl", environment)).divergences

    assert (divergence.scenario_id, divergence.member) == ("2+3", 3)
    assert (divergence.turn, divergence.what) == where
    assert values[0] in divergence.expected
    assert values[1] in divergence.got


async def test_an_episode_that_was_cut_short_is_compared_as_far_as_it_goes() -> None:
    """What the environment would have said next, nobody saw."""
    partial = await played("4", "1")
    partial.messages_and_choices = partial.messages_and_choices[:5]  # the answer to the second reply never came
    partial.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")
    partial.stop_reason = StopReason.ERROR

    assert (await replay(partial, Adds)).ok
    [divergence] = (await replay(partial, Words)).divergences
    assert (divergence.turn, divergence.what) == (1, "the messages")


async def test_an_episode_that_went_on_after_a_reply_that_was_cut_off_replays() -> None:
    """Its rollout was told to play on."""
    cut = Reply("4", finish_reason="length")
    one = Episode(scenario=SUM, metadata={"scenario_id": SUM.id})
    await play(Adds(), Replies(cut, "5"), one, stop_when_truncated=False)

    assert await replay(one, Adds) == ReplayReport(replayed=1)


async def test_a_failure_of_the_environment_that_is_still_there_is_no_divergence() -> None:
    """It replays, failure included."""
    partial = await played("4")
    partial.messages_and_choices = partial.messages_and_choices[:3]
    partial.failure = FailureRecord.from_exception(KeyError("door"), FailureKind.ENVIRONMENT)
    partial.stop_reason = StopReason.ERROR

    assert (await replay(partial, Fails)).ok


async def test_an_outcome_that_was_recorded_as_data_is_compared_as_data(tmp_path: Path) -> None:
    """A program without the outcome's class replays as well; the order of a set is no difference."""
    path = tmp_path / "r.jsonl"
    write_groups(path, [art.TrajectoryGroup([await played("5")])])
    path.write_text(path.read_text().replace('"outcome_type"', '"forgotten"'))

    assert (await replay(path, Adds)).ok


async def test_scenario_objects_can_be_given(tmp_path: Path) -> None:
    """Not every scenario class is loaded, nor named by the environment."""

    class Hidden(Sum):  # of a function, so that it cannot be looked up again
        pass

    class Untyped(Environment[Any]):
        async def reset(self, scenario: Any) -> str:
            return f"{type(scenario).__name__} {scenario.left}"

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    hidden = Hidden(id="2+3", left=2, right=3)
    one = Episode(scenario=hidden, metadata={"scenario_id": hidden.id})
    await play(Untyped(), Replies("5"), one)
    write_groups(tmp_path / "r.jsonl", [art.TrajectoryGroup([one])])

    assert not (await replay([tmp_path / "r.jsonl"], Untyped)).ok
    assert await replay([tmp_path / "r.jsonl"], Untyped, scenarios=[hidden]) == ReplayReport(replayed=1)


async def test_what_cannot_be_replayed_is_said() -> None:
    """An episode that was left out must not pass as replayed."""
    other = episode("hi", choice("ho"), scenario=None)
    other.metadata["scenario_id"] = "s"
    wrong = episode("hi", choice("ho"), scenario=None)
    wrong.scenario = {"id": "x"}

    report = await replay([other, wrong], Adds)

    assert (report.replayed, report.divergences) == (0, ())
    assert [(one.scenario_id, one.member, one.why.split(":")[0]) for one in report.skipped] == [
        ("s", 0, "the recording does not hold its scenario"),
        ("", 0, "its scenario is no Sum"),
    ]
    assert not report.ok


async def test_an_instance_is_refused() -> None:
    """One instance would play all episodes."""
    with pytest.raises(ConfigurationError, match="cannot make a fresh environment"):
        await replay([], Adds())  # type: ignore[arg-type]  # that is what is wrong


def test_a_report_reads_as_text() -> None:
    """It is what a person sees in CI."""
    divergence = Divergence(scenario_id="a", member=1, turn=2, what="the messages", expected="['no']", got="['yes']")
    skipped = SkippedEpisode(scenario_id="b", member=0, why="no scenario")

    assert str(ReplayReport(divergences=(divergence,), replayed=2, skipped=(skipped,))) == (
        "2 episodes replayed, 1 diverged, 1 skipped\n"
        "scenario 'a', member 1, turn 2: the messages differ\n"
        "    expected ['no']\n"
        "    got      ['yes']\n"
        "scenario 'b', member 0: skipped: no scenario"
    )


class OtherTool(Adds):
    def tools(self) -> Any:
        add = super().tools()[0]["function"]
        changed = {**add, "description": "Add " + "many " * 100, "parameters": {"type": "object", "required": ["a"]}}
        return [{"type": "function", "function": changed}]


async def test_a_tool_that_differs_is_named_once_for_all_episodes() -> None:
    """A schema is long, and every member of every group meets the change."""
    members = [await played("5", member=number) for number in range(3)]

    report = await replay(members, OtherTool)

    assert [divergence.what for divergence in report.divergences] == ["the tool 'add'"] * 3
    assert (
        str(report).splitlines()[1] == "scenario '2+3', member 0 (and 2 episodes more), turn 0: the tool 'add' differs"
    )
    assert len(str(report).splitlines()) == 4


async def test_a_report_raises_where_not_all_replayed() -> None:
    """As that of a check does: one line in a test or a script."""
    one = await played("5")
    (await replay(one, Adds)).raise_if_broken()

    with pytest.raises(EnvironmentContractError, match=r"1 episode replayed, 1 diverged.*the step rewards differ"):
        (await replay(one, Bonus)).raise_if_broken()
    with pytest.raises(EnvironmentContractError, match=r"1 skipped; scenario '', member 0: skipped"):
        (await replay(episode("hi", choice("ho")), Adds)).raise_if_broken()


class Hangs(Adds):
    where = "reset"

    async def hang(self, where: str) -> None:
        if where == self.where:
            await asyncio.Event().wait()

    async def reset(self, scenario: Sum) -> Any:
        await self.hang("reset")
        return await super().reset(scenario)

    async def step(self, action: Action) -> StepResult:
        await self.hang("step")
        return await super().step(action)

    async def close(self) -> None:
        await self.hang("close")


@pytest.mark.parametrize(("where", "turn"), [("reset", 0), ("step", 1)])
async def test_a_call_that_takes_too_long_is_a_divergence(
    where: str, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One world that hangs must not hold up the report on all the others."""
    monkeypatch.setattr(Hangs, "where", where)

    [divergence] = (await replay(await played("5"), Hangs, call_timeout_s=0.05)).divergences

    assert divergence.turn == turn
    assert f"TimeoutError: {where}() took longer than 0.05 s" in divergence.got


async def test_a_close_that_takes_too_long_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The episode was over."""
    monkeypatch.setattr(Hangs, "where", "close")

    assert (await replay(await played("5"), Hangs, call_timeout_s=0.05)).ok


async def test_no_time_at_all_is_refused() -> None:
    """Nothing would ever replay."""
    with pytest.raises(ConfigurationError, match=r"call_timeout_s=0 is not positive"):
        await replay([], Adds, call_timeout_s=0)


class Bare(Environment[Any]):
    pass


class Through(Adds):
    pass


class Forward(Environment["Sum"]):
    pass


@pytest.mark.parametrize(
    ("environment", "kind"),
    [(Adds, Sum), (Through, Sum), (Forward, Sum), (lambda: Adds(), Sum), (Bare, PromptScenario)],  # noqa: PLW0108  # a factory
    ids=["class", "inherited", "by name", "factory", "unnamed"],
)
def test_the_scenario_class_is_found_from_the_environment(environment: Any, kind: type) -> None:
    """A file of scenarios is read as what the environment plays."""
    assert scenario_type_of(environment) is kind


def test_the_scenario_class_is_found_through_a_generic_base() -> None:
    """A base class of a user's own passes its parameter on."""
    from typing import Generic, TypeVar

    ScenarioT = TypeVar("ScenarioT", bound=Scenario)

    class Base(Environment[ScenarioT], Generic[ScenarioT]):
        pass

    class Own(Base[Sum]):
        pass

    assert (scenario_type_of(Own), scenario_type_of(Base)) == (Sum, PromptScenario)
