"""What goes wrong while rollouts are played ahead: nothing waits for ever, and no scenario is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from artkit import (
    DropZeroVariance,
    Every,
    ProgrammaticReward,
    PromptScenario,
    Rollout,
    ScenarioOrder,
    ScenarioStream,
)
from artkit.testing import DiaryBackend, Reply

AHEAD = {"groups_per_step": 1, "max_staleness": 1}
NAMES = [f"{number:02}" for number in range(9)]


class GoneError(BaseException):
    """As a library raises it that wants nobody to catch it."""


class Waiting(DiaryBackend):
    """Trains no sooner than something has happened."""

    def __init__(self, workshop: Any, until: Callable[[], bool]) -> None:
        super().__init__(workshop.server)
        self._until = until

    async def train(self, *arguments: Any, **options: Any) -> Any:
        await happened(self._until)
        return await super().train(*arguments, **options)


async def happened(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # a fact of the server
            await asyncio.sleep(0.005)


def order(workshop: Any, *names: str) -> ScenarioOrder[Any]:
    return ScenarioOrder(workshop.scenarios(*names), shuffle=False)


class Seekable:
    """An open-ended source that fails, once, before one of its items."""

    def __init__(self, scenarios: list[PromptScenario], error: BaseException, at: int) -> None:
        self._scenarios, self._error, self._at = scenarios, error, at
        self._next, self._has_failed = 0, False

    def seek(self, number: int) -> None:
        self._next = number

    def __aiter__(self) -> AsyncIterator[PromptScenario]:
        return self

    async def __anext__(self) -> PromptScenario:
        if self._next == self._at and not self._has_failed:
            self._has_failed = True
            raise self._error
        if self._next == len(self._scenarios):
            raise StopAsyncIteration
        self._next += 1
        return self._scenarios[self._next - 1]


@pytest.mark.parametrize("error", [OSError("no such shard"), GoneError(), asyncio.CancelledError()], ids=repr)
async def test_a_source_that_fails_ahead_ends_the_run_behind_what_came_of_it(
    workshop: Any, error: BaseException
) -> None:
    """Whatever it raises; started again, the run goes on with what was not trained."""
    source = ScenarioStream(Seekable(workshop.scenarios(*NAMES[:5]), error, at=2))
    settings = {**AHEAD, "max_steps": 5, "check_environment": False}
    run = asyncio.create_task(workshop.trainer(train=source, settings=settings).run())
    await asyncio.wait({run}, timeout=20)
    is_over = run.done()
    run.cancel()
    outcome = (await asyncio.gather(run, return_exceptions=True))[0]
    first = workshop.trained_ids()
    report = await workshop.trainer(train=source, settings=settings).run()

    assert is_over
    assert type(outcome) is type(error)
    assert first == [["00"], ["01"]]
    assert report.reason == "finished: max_steps=5 were trained"
    assert workshop.trained_ids() == [["02"], ["03"], ["04"]]


@pytest.mark.parametrize("lead", [1, 7])
async def test_data_that_ends_early_is_trained_to_its_end(workshop: Any, lead: int) -> None:
    """Also where more steps may be played ahead than there are."""
    settings = {"groups_per_step": 2, "max_staleness": lead, "max_steps": 9}
    source: Iterator[PromptScenario] = iter(workshop.scenarios(*NAMES[:5]))
    report = await workshop.trainer(train=ScenarioStream(source), settings=settings).run()

    assert report.reason == "finished: all batches were trained"
    assert workshop.trained_ids() == [["00", "01"], ["02", "03"], ["04"]]


@pytest.mark.parametrize(("lead", "extra"), [(1, 0), (2, 3), (20, 3)])
async def test_the_batches_are_those_of_a_run_without_overlap(workshop: Any, lead: int, extra: int) -> None:
    """With filters, refills, surplus and the edge of an epoch: none is lost, none twice, and none too old."""
    workshop.answers.replies = dict.fromkeys(NAMES[1::3], "1")
    settings = {"groups_per_step": 2, "num_epochs": 2, "max_extra_groups": extra, "check_environment": False}
    batches = []
    for number, staleness in enumerate((0, lead)):
        await workshop.trainer(
            model=workshop.model(name=f"agent{number}"),
            train=order(workshop, *NAMES),
            filters=DropZeroVariance(),
            settings={**settings, "max_staleness": staleness},
        ).run()
        batches.append(workshop.trained_ids())
    rows = (workshop.model_dir.parent / "agent1" / "history.jsonl").read_text().splitlines()
    ages = [json.loads(row)["train/policy_age_max"] for row in rows]

    assert batches[1] == batches[0]
    assert len(ages) == len(batches[0]) > 5
    assert max(ages) <= lead


async def test_batches_with_nothing_to_learn_from_stop_the_run_as_without_overlap(workshop: Any) -> None:
    """Those ahead of them are not waited for."""
    workshop.answers.replies = dict.fromkeys(NAMES, "1") | {"04": Reply("1", delay_s=60)}
    settings = {**AHEAD, "max_empty_steps": 3}
    async with asyncio.timeout(20):
        report = await workshop.trainer(
            train=order(workshop, *NAMES), filters=DropZeroVariance(), settings=settings
        ).run()

    assert report.reason == "stopped: 3 batches in a row held nothing to learn from"


async def test_a_batch_that_could_not_be_scored_is_no_step_of_the_run(workshop: Any) -> None:
    """Not even where it was given what the one before left over: as many steps are trained as were asked for."""

    def score(episode: Any) -> float:
        if episode.messages()[0]["content"] == "02":
            raise RuntimeError("the service is gone")
        return float(episode.messages()[-1]["content"])

    workshop.answers.replies = {"00": "1"}
    settings = {
        "groups_per_step": 2,
        "max_staleness": 2,
        "max_extra_groups": 3,
        "max_steps": 3,
        "max_failure_rate": 1.0,
        "check_environment": False,
    }
    reports, batches = [], []
    for number, staleness in enumerate((0, 2)):
        trainer = workshop.trainer(
            model=workshop.model(name=f"agent{number}"),
            train=order(workshop, "00", "01", "03", "04", "02", *NAMES[5:]),
            reward=ProgrammaticReward(score),
            filters=DropZeroVariance(),
            settings={**settings, "max_staleness": staleness},
        )
        reports.append((await trainer.run()).reason)
        batches.append(workshop.trained_ids())

    assert reports == ["finished: max_steps=3 were trained"] * 2
    assert batches[1] == batches[0]


async def test_whoever_cancels_a_run_that_is_ending_is_heard(workshop: Any) -> None:
    """What is played ahead takes its time to close; the run must not go on after that as though nothing was said."""
    is_closing, may_close = asyncio.Event(), asyncio.Event()

    class Slow(workshop.Numbers):  # type: ignore[misc]
        async def reset(self, scenario: PromptScenario) -> Any:
            self.name = scenario.id
            return await super().reset(scenario)

        async def close(self) -> None:
            if self.name == "01":
                is_closing.set()
                await may_close.wait()

    workshop.answers.replies["01"] = Reply("1", delay_s=60)
    trainer = workshop.trainer(
        train=order(workshop, *NAMES[:3]),
        rollout=Rollout(Slow),
        backend=Waiting(workshop, lambda: "01" in workshop.answers.asked),
        settings={**AHEAD, "check_environment": False},
        stop_when=lambda progress, history: "enough",
    )
    run = asyncio.create_task(trainer.run())
    await asyncio.wait_for(is_closing.wait(), 20)
    run.cancel()
    await asyncio.sleep(0)
    may_close.set()
    outcome = (await asyncio.gather(run, return_exceptions=True))[0]

    assert isinstance(outcome, asyncio.CancelledError)
    assert workshop.trained_ids() == [["00"]]


async def test_a_run_that_is_cancelled_while_it_validates_plays_nothing_any_more(workshop: Any, held_out: Any) -> None:
    """A validation that hangs is what people press Ctrl-C for."""
    workshop.answers.replies |= dict.fromkeys(["x", "01"], Reply("1", delay_s=60))
    trainer = workshop.trainer(
        train=order(workshop, *NAMES[:3]),
        validation=held_out("x", schedule=Every(1)),
        backend=Waiting(workshop, lambda: "01" in workshop.answers.asked),
        settings={**AHEAD, "check_environment": False},
    )
    before = asyncio.all_tasks()
    run = asyncio.create_task(trainer.run())
    await happened(lambda: "x" in workshop.answers.asked)
    run.cancel()
    outcome = (await asyncio.gather(run, return_exceptions=True))[0]

    assert isinstance(outcome, asyncio.CancelledError)
    assert {repr(task) for task in asyncio.all_tasks() - before if "artkit" in repr(task)} == set()


async def test_a_training_that_fails_ends_what_is_played_ahead(workshop: Any) -> None:
    """It would play on for an hour, for a run that is over."""
    workshop.answers.replies["01"] = Reply("1", delay_s=60)
    trainer = workshop.trainer(
        train=order(workshop, *NAMES[:3]),
        backend=DiaryBackend(workshop.server, fail={"train": [RuntimeError("the GPU fell off")]}),
        settings={**AHEAD, "check_environment": False},
    )
    before = asyncio.all_tasks()
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="the GPU fell off"):
            await trainer.run()

    assert {repr(task) for task in asyncio.all_tasks() - before if "artkit" in repr(task)} == set()


async def test_sigterm_ends_the_run_behind_the_step_that_trains(workshop: Any) -> None:
    """What is played ahead was not asked for any more; the next session plays it."""
    workshop.answers.replies["01"] = Reply("1", delay_s=60)

    class Told(Waiting):
        async def train(self, *arguments: Any, **options: Any) -> Any:
            await happened(self._until)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)  # the event loop is told of it
            return await super().train(*arguments, **options)

    settings = {**AHEAD, "check_environment": False}
    backend = Told(workshop, lambda: "01" in workshop.answers.asked)
    async with asyncio.timeout(20):
        report = await workshop.trainer(train=order(workshop, *NAMES[:3]), backend=backend, settings=settings).run()
    first = workshop.trained_ids()
    workshop.answers.replies.clear()
    await workshop.trainer(train=order(workshop, *NAMES[:3]), settings=settings).run()

    assert report.reason == "stopped: SIGTERM"
    assert first == [["00"]]
    assert workshop.trained_ids() == [["01"], ["02"]]
