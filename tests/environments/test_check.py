"""Checking an environment: the zoo, and what a report says."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from artkit.environments import (
    Action,
    Environment,
    EnvironmentFinding,
    EnvironmentReport,
    LikelyCause,
    Promise,
    StepResult,
    ToolCall,
    check_environment,
)
from artkit.episodes import read_groups, write_groups
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.scenarios import Scenario
from artkit.testing import Reply, assert_environment, choice, episode


def load(name: str) -> ModuleType:
    """Import a module beside this one, under a name of which another process finds it by its file."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


zoo_broken, zoo_right = load("zoo_broken"), load("zoo_right")
HERE = [animal for animal in zoo_broken.BROKEN if not animal.options.get("fresh_process")]
ELSEWHERE = [animal for animal in zoo_broken.BROKEN if animal.options.get("fresh_process")]
QUICKLY = {"GlobalRandom", "ListOnTheClass", "CountsResets", "ClockToTheSecond", "NoPrompt", "Variables", "NotAsync"}


def name(thing: Any) -> str:
    return getattr(thing, "name", None) or getattr(thing, "__name__", None) or "partial"


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    for tidy in zoo_broken.KEPT:
        tidy()
    zoo_broken.KEPT.clear()
    zoo_right.SharedDatabase.end()
    zoo_broken.File.path.unlink(missing_ok=True)
    shutil.rmtree(zoo_broken.Folder.path, ignore_errors=True)
    os.environ.pop("ARTKIT_ZOO_TASK", None)


async def stop_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Task(Scenario):
    word: str = "lamp"


SCENARIOS = [Task(id="a"), Task(id="b", word="door")]


class Plain(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        self.scenario = scenario
        return f"Say {scenario.word}."

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True)


async def checked(environment: Any, **options: Any) -> EnvironmentReport:
    return await check_environment(environment, SCENARIOS, **{"fresh_process": False, **options})


def test_the_zoo_is_large_enough() -> None:
    """A check that finds much and cries wolf is no better than one that finds little."""
    assert min(len({animal.name for animal in zoo_broken.BROKEN}), len(zoo_right.RIGHT)) >= 24
    assert {animal.cause for animal in zoo_broken.BROKEN} == set(LikelyCause) - {
        LikelyCause.UNKNOWN,
        LikelyCause.TORCH_RANDOM,
    }
    assert {animal.code for animal in zoo_broken.BROKEN} == set(Promise)


@pytest.mark.parametrize("animal", HERE, ids=name)
async def test_a_broken_promise_is_named_with_its_cause(animal: Any) -> None:
    """A run on such an environment learns from noise, or breaks after hours; and "it differs" helps nobody mend it."""
    report = await check_environment(
        animal.environment, zoo_broken.tasks(), **{"fresh_process": False, **animal.options}
    )
    await stop_tasks()

    assert [(finding.code, finding.cause) for finding in report.findings] == [(animal.code, animal.cause)]
    assert animal.evidence in report.findings[0].evidence


@pytest.mark.parametrize("environment", zoo_right.RIGHT, ids=name)
async def test_there_is_no_false_alarm(environment: Any) -> None:
    """A check that cries wolf gets turned off."""
    report = await check_environment(environment, zoo_right.TASKS, fresh_process=False)

    notes = {note for note in report.notes if not note.startswith("the prompt does not depend")}
    assert (report.findings, report.left_out) == ((), ())
    assert all("nothing that was compared depends on it" in note for note in notes)  # what is kept on purpose


@pytest.mark.torch
async def test_the_global_generator_of_torch_is_watched_where_torch_is_loaded() -> None:
    """A reward model or a simulator may draw from it; artkit itself loads no torch for it."""
    import torch

    class Draws(Plain):
        async def step(self, action: Action) -> StepResult:
            return StepResult(f"{torch.rand(1).item()}")

    class Seeds(Plain):
        async def reset(self, scenario: Task) -> Any:
            torch.manual_seed(3)
            return f"Say {torch.rand(1).item()}."

    torch.manual_seed(5)
    before = torch.get_rng_state().tolist()
    reports = [await checked(Draws), await checked(Seeds)]

    assert [(finding.code, finding.cause) for report in reports for finding in report.findings] == [
        (Promise.REPLAYS, LikelyCause.TORCH_RANDOM),
        (Promise.PROCESS, LikelyCause.TORCH_RANDOM),
    ]
    assert torch.get_rng_state().tolist() == before


async def test_an_episode_of_the_usual_length_is_played_to_its_end() -> None:
    """A fault in the last turn of ten is one too."""

    class Late(Plain):
        turn = 0
        seen: list[str] = []  # noqa: RUF012  # that is what is wrong with it

        async def step(self, action: Action) -> StepResult:
            self.turn += 1
            if self.turn == Environment.max_turns:
                self.seen.append("the end")
                return StepResult(f"{len(self.seen)} times")
            return StepResult("go on")

    [finding] = (await checked(Late)).findings

    assert (finding.code, finding.turn) == (Promise.REPLAYS, Environment.max_turns)


async def test_an_environment_that_gives_out_the_scenarios_own_messages_is_right() -> None:
    """Members of a group share the scenario; the loop copies what it is given."""
    report = await check_environment(zoo_right.OneTurn, zoo_right.PROMPTS, fresh_process=False)

    assert (report.findings, report.notes) == ((), ())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("animal", ELSEWHERE, ids=name)
async def test_what_differs_in_another_process_is_found_there(animal: Any) -> None:
    """A resumed run is another process; the order of a set is another in each."""
    report = await check_environment(animal.environment, zoo_broken.tasks()[:1], max_turns=2, time_limit_s=250)

    assert [(finding.code, finding.cause) for finding in report.findings] == [(animal.code, animal.cause)]


@pytest.mark.timeout(200)
async def test_a_right_environment_is_the_same_in_another_process() -> None:
    """Sets that are shown in order, and generators that the scenario seeds, do not depend on the process."""
    report = await check_environment(zoo_right.SortedSet, zoo_right.TASKS, max_turns=2, time_limit_s=150)

    assert (report.findings, report.notes) == ((), ())


async def test_a_class_that_cannot_be_imported_elsewhere_is_a_note() -> None:
    """In a notebook every class is in __main__."""

    class Local(Plain):
        pass

    report = await checked(Local, fresh_process=True)

    assert report.ok
    [why] = report.left_out
    assert "was not played in a fresh process" in why
    assert "Local is local" in why


@pytest.mark.parametrize("animal", [animal for animal in HERE if animal.name in QUICKLY], ids=name)
async def test_the_short_form_names_the_commonest_faults_too(animal: Any) -> None:
    """It runs before every training, so most faults must be found by it."""
    report = await check_environment(animal.environment, zoo_broken.tasks(), quick=True)

    assert [(finding.code, finding.cause) for finding in report.findings] == [(animal.code, animal.cause)]


@pytest.mark.parametrize("environment", [zoo_right.Echo, zoo_right.Tools, zoo_right.Database], ids=name)
async def test_the_short_form_raises_no_false_alarm(environment: Any) -> None:
    """It stands before every training."""
    report = await check_environment(environment, zoo_right.TASKS, quick=True)

    report.raise_if_broken()
    assert report.ok


@pytest.mark.parametrize("easy_episodes", range(3, 13))
async def test_a_change_that_comes_of_itself_is_not_blamed_on_what_is_tried_meanwhile(easy_episodes: int) -> None:
    """A curriculum that counts episodes changes while generators are being held, and has nothing to do with them."""

    class Curriculum(Plain):
        episodes = 0

        async def reset(self, scenario: Task) -> Any:
            type(self).episodes += 1
            self.is_hard = self.episodes // easy_episodes % 2 == 1
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            return StepResult("hard" if self.is_hard else "easy", done=True)

    # Time enough to find a cause, also where the machine is busy.
    report = await check_environment(Curriculum, SCENARIOS, quick=True, time_limit_s=60)

    assert {finding.cause for finding in report.findings} <= {LikelyCause.RESET_COUNT, LikelyCause.STATE}


async def test_an_environment_that_is_too_slow_for_the_check_is_not_blamed() -> None:
    """Slow is not broken: what was not looked at is said."""

    class Slow(Plain):
        is_closed = False

        async def reset(self, scenario: Task) -> Any:
            self.opened.append(self)
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            await asyncio.sleep(3600)
            return StepResult(done=True)

        async def close(self) -> None:
            self.is_closed = True

        opened: list[Slow] = []  # noqa: RUF012  # the test looks at them

    report = await checked(Slow, time_limit_s=0.5)

    assert report.findings == ()
    assert report.left_out == ("the check ended after its 0.5 s with what it had by then",)
    assert [environment.is_closed for environment in Slow.opened] == [True]


async def test_the_short_form_ends_in_time_where_close_does_not() -> None:
    """Closing is given its time whatever happens; a minute of it before every training is too much."""

    class Hangs(Plain):
        async def close(self) -> None:
            await asyncio.Event().wait()

    async with asyncio.timeout(30):
        report = await check_environment(Hangs, SCENARIOS, quick=True)

    assert report.left_out == ("the check ended after its 2 s with what it had by then",)


async def test_what_an_environment_raises_is_shown_on_one_line() -> None:
    """It may hold what a tool printed: colours, line ends, pages of it."""

    class Raises(Plain):
        async def step(self, action: Action) -> StepResult:
            raise RuntimeError("\x1b[31mno\n" + "x" * 10_000)

    [finding] = (await checked(Raises, max_turns=1)).findings

    assert finding.what.startswith(r"step() raised RuntimeError: \x1b[31mno\nxxx")
    assert len(finding.what) < 600


async def test_what_holds_up_the_event_loop_is_noted() -> None:
    """It breaks no promise, and makes a hundred episodes at a time as slow as one after the other."""

    class Blocks(Plain):
        async def reset(self, scenario: Task) -> Any:
            time.sleep(0.21)  # noqa: ASYNC251  # that is what is wrong with it
            return "Go."

    report = await checked(Blocks, max_scenarios=1, max_turns=1)

    assert report.ok
    assert [note.partition(" for up to")[0] for note in report.notes] == ["reset() held the event loop"]


async def test_an_outcome_that_cannot_be_recorded_is_noted() -> None:
    """A recording keeps its `repr`, with which nothing can be done later."""

    class Odd(Plain):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, outcome={"board": Plain()})

    report = await checked(Odd)

    assert report.ok
    assert report.notes == (
        "the outcome holds Plain, which a recording keeps as text: give JSON data or a pydantic model",
    )


async def test_an_environment_that_pays_after_the_end_is_noted() -> None:
    """No rollout steps past the end; a loop of the user's own may."""

    class GoesOn(Plain):
        turn = 0

        async def step(self, action: Action) -> StepResult:
            self.turn += 1
            return StepResult("more", done=self.turn == 1, reward=1.0)

    report = await checked(GoesOn)

    assert report.ok
    assert [note.partition(":")[0] for note in report.notes] == ["a step after the end said done=False and paid 1.0"]


async def test_a_use_of_the_global_generator_that_shows_nowhere_is_noted() -> None:
    """It is a matter of taste until something depends on it."""

    class Jitters(Plain):
        async def step(self, action: Action) -> StepResult:
            await asyncio.sleep(random.random() / 1e6)
            return StepResult(done=True)

    report = await checked(Jitters)

    assert report.ok
    assert report.notes == (
        "it uses the global generator of `random`, which all episodes share; nothing that was compared depends on it",
    )


async def test_given_actions_lead_to_where_random_ones_do_not() -> None:
    """Behind a password, random replies see nothing."""
    states: list[str] = []

    class Vault(Plain):
        async def step(self, action: Action) -> StepResult:
            if action.text == f"open {self.scenario.word}, it is me":
                states.append(self.scenario.id)
                return StepResult(f"visit {len(states)}")
            return StepResult("no")

    without = await checked(Vault, seed=1)
    with_actions = await checked(Vault, actions=lambda scenario: [f"open {scenario.word}, it is me"])

    assert without.ok
    assert [finding.code for finding in with_actions.findings] == [Promise.REPLAYS]


async def test_recorded_replies_are_played_where_the_scenario_is_the_same(tmp_path: Path) -> None:
    """What a model really did leads deeper than anything random."""
    heard: set[str] = set()

    class Hears(Plain):
        async def step(self, action: Action) -> StepResult:
            heard.add(action.text)
            return StepResult("and?")

    played = episode("Say lamp.", choice("I saw a lamp once"), scenario=SCENARIOS[0])
    write_groups(tmp_path / "r.jsonl", [], [played])

    await checked(Hears, recordings=tmp_path / "r.jsonl", max_turns=2)

    assert "I saw a lamp once" in heard


async def test_a_tool_that_was_never_called_is_noted() -> None:
    """A pattern in its schema is seldom met by chance; that nothing was tried must be said."""

    class Locked(Plain):
        def tools(self) -> Any:
            pattern = {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{9}$"}
            return [zoo_right.tool("unlock", {"type": "object", "properties": {"code": pattern}, "required": ["code"]})]

    report = await checked(Locked)

    assert report.left_out == ("no valid arguments were found for the tool 'unlock': give actions= with calls of it",)


@pytest.mark.parametrize(
    "reply",
    [
        ToolCall("call_7", "look", {"at": "door"}),
        {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "door"}'}}]},
        Action(choice("look").message, "stop"),
        choice("look"),
        choice("look").message,
        Reply("look"),
        Reply(tool_calls=[("look", {"at": "door"})]),
        "look",
    ],
    ids=["call", "message as dict", "action", "choice", "message", "scripted text", "scripted call", "text"],
)
async def test_an_action_is_given_in_any_form(reply: Any) -> None:
    """What is at hand differs: a text, a parsed call, a message of a log."""
    looked: list[bool] = []

    class Looks(Plain):
        async def step(self, action: Action) -> StepResult:
            called = [call.name for call in action.tool_calls if call.arguments == {"at": "door"}]
            looked.append("look" in {action.text, *called})
            return StepResult("a door")

    await checked(Looks, actions=[reply], max_turns=1)

    assert any(looked)


@pytest.mark.parametrize(
    ("environment", "scenarios", "options", "problem"),
    [
        (Plain(), SCENARIOS, {}, "cannot make a fresh environment"),
        (lambda size: Plain(), SCENARIOS, {}, "cannot be made without arguments"),
        (Plain, [], {}, "no scenario"),
        (Plain, SCENARIOS, {"actions": "look"}, "not a sequence of replies"),
        (Plain, SCENARIOS, {"actions": [3]}, "3 is no reply"),
        (Plain, SCENARIOS, {"recordings": 3}, "3 is no recording"),
    ],
    ids=["an instance", "arguments", "no scenario", "a str", "no reply", "no recording"],
)
async def test_what_cannot_be_checked_is_refused(environment: Any, scenarios: Any, options: Any, problem: str) -> None:
    """A check that looked at nothing must not say that all is well."""
    with pytest.raises(ConfigurationError, match=problem):
        await check_environment(environment, scenarios, **options)


async def test_the_process_is_left_as_it_was_found() -> None:
    """The check runs before a training, whose generators somebody seeded."""
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), dict(os.environ), Path.cwd()

    for animal in ("GlobalRandom", "GlobalNumPySeeded", "Variables", "Directory"):
        await checked(getattr(zoo_broken, animal), max_turns=2)

    after = random.getstate(), np.random.get_state()[1].tolist(), dict(os.environ), Path.cwd()
    assert after == before


async def test_a_variable_that_a_library_sets_once_is_no_fault() -> None:
    """Many set something when they are first loaded."""
    os.environ.pop("ARTKIT_ZOO_TASK", None)
    loaded: list[bool] = []

    class Loads(Plain):
        async def reset(self, scenario: Task) -> Any:
            if not loaded:
                loaded.append(True)
                os.environ["ARTKIT_ZOO_TASK"] = "loaded"
            return "Go."

    assert (await checked(Loads)).findings == ()


async def test_what_is_kept_open_for_all_episodes_is_no_leak() -> None:
    """A connection that is opened once serves a whole run."""
    report = await check_environment(zoo_right.SharedDatabase, zoo_right.TASKS, fresh_process=False)

    assert report.findings == ()


async def test_the_same_seed_plays_the_same() -> None:
    """A fault that CI found must be there when one looks for it."""
    said: list[list[str]] = [[], []]

    class Hears(Plain):
        heard: list[str]

        async def step(self, action: Action) -> StepResult:
            self.heard.append(action.text)
            return StepResult("and?")

    for one in said:
        Hears.heard = one
        await checked(Hears, seed=7)

    assert said[0] == said[1]


async def test_calls_are_valid_for_their_schema() -> None:
    """Arguments that no schema allows would blame an environment for what no model is asked to say."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = zoo_right.Tools().tools()[1]["function"]["parameters"]
    called: list[dict[str, Any]] = []

    class Tools(zoo_right.Tools):  # type: ignore[name-defined, misc]  # loaded by its path
        async def step(self, action: Action) -> StepResult:
            called.extend(call.arguments for call in action.tool_calls if call.name == "go")
            return await super().step(action)

    for seed in range(5):
        await check_environment(Tools, zoo_right.TASKS, seed=seed, quick=True)

    assert len(called) > 20
    assert [arguments for arguments in called if not jsonschema.Draft202012Validator(schema).is_valid(arguments)] == []


FINDING = EnvironmentFinding(
    code=Promise.REPLAYS,
    scenario_id="a",
    turn=2,
    what="the reward of turn 2 differs when it is played again",
    expected="1.0",
    got="0.5",
    cause=LikelyCause.GLOBAL_RANDOM,
    evidence="random.random() at desk.py:7 in Desk.step",
)


def test_a_report_reads_as_text() -> None:
    """It is what a person sees in CI."""
    report = EnvironmentReport(environment="Desk", findings=(FINDING,), notes=("it is slow",), scenarios=1, plays=12)

    assert str(report) == (
        "Desk: 1 broken promise (12 episodes of 1 scenario played)\n\n"
        "replays: The same scenario and the same replies give the same episode.\n"
        "  scenario 'a', turn 2: the reward of turn 2 differs when it is played again\n"
        "    expected 1.0\n"
        "    got      0.5\n"
        "  likely cause: the global generator of `random` (random.random() at desk.py:7 in Desk.step)\n"
        "  hint: use self.rng = random.Random(scenario.seed), made in reset()\n\n"
        "notes:\n"
        "  - it is slow"
    )


def test_a_report_raises_its_first_finding() -> None:
    """Before a training, a broken promise stops it."""
    report = EnvironmentReport(environment="Desk", findings=(FINDING, replace(FINDING, turn=3)))

    with pytest.raises(EnvironmentContractError, match=r"^Desk breaks a promise \(replays\)") as caught:
        report.raise_if_broken()

    assert caught.value.hint == "use self.rng = random.Random(scenario.seed), made in reset()"


async def test_values_are_shortened_around_what_differs_and_cannot_steer_a_terminal() -> None:
    """A report of a thousand lines is not read."""
    turns: list[int] = []

    class Long(Plain):
        async def reset(self, scenario: Task) -> Any:
            turns.append(1)
            return "x" * 1000 + f"\x1b[31m{len(turns)}" + "y" * 1000

    [finding] = (await checked(Long)).findings

    assert max(len(finding.expected), len(finding.got)) < 170
    assert "[31m1" in finding.expected
    assert "\x1b" not in finding.expected


async def test_a_users_test_fails_with_the_report() -> None:
    """What pytest shows is then what there is to know."""
    await assert_environment(Plain, SCENARIOS, fresh_process=False)

    with pytest.raises(AssertionError, match="1 broken promise"):
        await assert_environment(zoo_broken.NoPrompt, zoo_broken.tasks(), fresh_process=False)


async def test_the_scenarios_that_were_given_are_not_touched() -> None:
    """An environment that changes its scenario must not spoil the data of the run that checks it."""
    tasks = zoo_broken.tasks()

    await check_environment(zoo_broken.ChangesTheScenario, tasks, quick=True)

    assert tasks == zoo_broken.tasks()


def test_a_recording_that_was_read_is_played_as_well(tmp_path: Path) -> None:
    """Paths and what was loaded from them are the same to a reader."""
    write_groups(tmp_path / "r.jsonl", [], [episode("Say lamp.", choice("I saw it"), scenario=SCENARIOS[0])])
    heard: set[str] = set()

    class Hears(Plain):
        async def step(self, action: Action) -> StepResult:
            heard.add(action.text)
            return await super().step(action)

    with contextlib.closing(asyncio.new_event_loop()) as loop:
        report = loop.run_until_complete(
            check_environment(Hears, SCENARIOS, recordings=read_groups(tmp_path / "r.jsonl"), quick=True)
        )

    assert report.ok
    assert "I saw it" in heard


async def test_what_is_kept_on_the_class_is_noted_where_no_play_differs() -> None:
    """A cache gives one scenario's answers to the next, and every play of either is the same again."""

    class Shop(Plain):
        seen: dict[str, str] = {}  # noqa: RUF012  # that is what is wrong with it

        async def step(self, action: Action) -> StepResult:
            return StepResult(self.seen.setdefault("lamp", self.scenario.id), done=True)

    report = await checked(Shop)

    assert report.ok
    [note] = report.notes
    assert note.partition(" changed while")[0].endswith("Shop.seen")


async def test_a_tool_that_was_called_in_vain_is_left_out() -> None:
    """Behind a refusal nothing was looked at."""

    class Refuses(Plain):
        def tools(self) -> Any:
            return [zoo_right.tool("look")]

        async def step(self, action: Action) -> StepResult:
            return StepResult(zoo_right.answers(action, "no"), metrics={"tool_errors": len(action.tool_calls)})

    report = await checked(Refuses)

    assert report.left_out == ("all calls of the tool 'look' ended in tool_errors: give actions= with right ones",)


async def test_a_prompt_without_the_task_is_noted() -> None:
    """A model cannot know what it is not told."""

    class Same(Plain):
        async def reset(self, scenario: Task) -> Any:
            return [{"role": "system", "content": "Do the task."}]

    notes = (await checked(Same)).notes

    assert [note.partition(",")[0].partition(":")[0] for note in notes] == [
        "the prompt holds no text of the user",
        "the prompt does not depend on the scenario",
    ]


@pytest.mark.parametrize("limit", ["max_scenarios", "max_turns", "call_timeout_s", "time_limit_s"])
async def test_a_limit_that_is_not_positive_is_refused(limit: str) -> None:
    """A check of nothing finds nothing, and would be green."""
    with pytest.raises(ConfigurationError, match=f"{limit}=-1 is not positive"):
        await checked(Plain, **{limit: -1})
