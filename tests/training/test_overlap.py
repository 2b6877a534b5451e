"""Rollouts of the next steps while a step trains."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from artkit import DropZeroVariance, Every, OutageError, ScenarioOrder, read_groups
from artkit.bridge import why_no_overlap
from artkit.errors import ConfigurationError
from artkit.testing import DiaryBackend, Reply


class Busy(DiaryBackend):
    """Trains until something has happened, and says what the model had been asked when each training ended."""

    def __init__(self, workshop: Any, until: Callable[[int], bool], **options: Any) -> None:
        super().__init__(workshop.server, **options)
        self._asked, self._until = workshop.answers.asked, until
        self.asked_by_then: list[list[str]] = []

    async def train(self, *arguments: Any, **options: Any) -> Any:
        async with asyncio.timeout(20):
            while not self._until(len(self.asked_by_then)):  # noqa: ASYNC110  # a fact of the server
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)  # and for whatever else would be begun
        self.asked_by_then.append(sorted(set(self._asked)))
        return await super().train(*arguments, **options)


def names(count: int) -> list[str]:
    return [f"{number:02}" for number in range(count)]


def order(workshop: Any, count: int) -> ScenarioOrder:
    return ScenarioOrder(workshop.scenarios(*names(count)), shuffle=False)


@pytest.mark.parametrize("lead", [1, 2])
async def test_the_next_steps_are_played_while_a_step_trains_and_no_further_ones(workshop: Any, lead: int) -> None:
    """What is played too early is trained on too late."""
    count = 5

    def until(trained: int) -> bool:
        return len(set(workshop.answers.asked)) >= min(trained + 1 + lead, count)

    backend = Busy(workshop, until)
    settings = {"groups_per_step": 1, "max_staleness": lead}
    report = await workshop.trainer(train=order(workshop, count), backend=backend, settings=settings).run()

    assert report.reason == "finished: all batches were trained"
    assert workshop.trained_ids() == [[name] for name in names(count)]
    assert backend.asked_by_then == [names(min(trained + 1 + lead, count)) for trained in range(count)]


async def test_groups_say_which_steps_they_are_of_and_the_log_how_old_they_were(workshop: Any) -> None:
    """An importance ratio rests on it, and a run that lags behind is seen by it."""
    backend = Busy(workshop, lambda trained: len(set(workshop.answers.asked)) >= min(trained + 2, 3))
    settings = {"groups_per_step": 1, "max_staleness": 1}
    await workshop.trainer(train=order(workshop, 3), backend=backend, settings=settings).run()

    ages = [(row["train/policy_age_mean"], row["train/policy_age_max"]) for row in workshop.rows("train")]
    recordings = sorted((workshop.model_dir / "artkit" / "recordings").glob("batch-*.jsonl"))
    stamps = [group.metadata["policy_step"] for path in recordings for group in read_groups(path)[0]]
    assert ages == [(0, 0), (1, 1), (1, 1)]
    assert stamps == [0, 0, 1]


async def test_without_staleness_nothing_is_played_before_the_step_before_it_is_trained(workshop: Any) -> None:
    """The default is the loop that everybody reasons about."""
    backend = Busy(workshop, lambda trained: True)
    await workshop.trainer(train=order(workshop, 3), backend=backend, settings={"groups_per_step": 1}).run()

    assert backend.asked_by_then == [names(1), names(2), names(3)]
    assert "train/policy_age_max" not in workshop.rows("train")[0]


async def test_no_more_is_played_than_is_trained(workshop: Any) -> None:
    """The last steps would be paid for and thrown away."""
    settings = {"groups_per_step": 1, "max_staleness": 2, "max_steps": 2}
    report = await workshop.trainer(train=order(workshop, 5), settings=settings).run()

    assert report.reason == "finished: max_steps=2 were trained"
    assert sorted(set(workshop.answers.asked)) == names(2)


async def test_steps_with_nothing_to_learn_from_do_not_count_as_steps(workshop: Any) -> None:
    """The run trains as often as it was told to."""
    workshop.answers.replies = dict.fromkeys(names(5)[:3], "1")
    settings = {"groups_per_step": 1, "max_staleness": 1, "max_steps": 2, "max_empty_steps": 5}
    report = await workshop.trainer(train=order(workshop, 5), settings=settings, filters=DropZeroVariance()).run()

    assert report.reason == "finished: max_steps=2 were trained"
    assert workshop.trained_ids() == [["03"], ["04"]]


async def test_what_was_left_over_counts_as_a_step_older(workshop: Any) -> None:
    """With one step of staleness, surplus leaves no room for rollouts ahead."""
    backend = Busy(workshop, lambda trained: True)
    settings = {"groups_per_step": 1, "max_staleness": 1, "max_extra_groups": 1}
    await workshop.trainer(train=order(workshop, 3), backend=backend, settings=settings).run()

    assert backend.asked_by_then == [names(1), names(2), names(3)]


async def test_a_run_that_died_between_training_and_its_row_goes_on_with_what_was_not_trained(workshop: Any) -> None:
    """What was played ahead was not trained on: no scenario is skipped, and none trained on twice."""
    fail = {"train": [None, RuntimeError("the GPU fell off")]}
    backend = Busy(workshop, lambda trained: len(set(workshop.answers.asked)) >= trained + 2, fail=fail)
    settings = {"groups_per_step": 1, "max_staleness": 1}
    with pytest.raises(RuntimeError, match="the GPU fell off"):
        await workshop.trainer(train=order(workshop, 4), backend=backend, settings=settings).run()
    first = workshop.trained_ids()

    await workshop.trainer(train=order(workshop, 4), settings=settings).run()

    assert first == [["00"], ["01"]]  # the second was refused
    assert workshop.trained_ids() == [["01"], ["02"], ["03"]]


async def test_an_outage_ahead_ends_the_run_after_the_step_that_trains(workshop: Any) -> None:
    """That step was played well, and its training may have taken an hour."""
    refusal = Reply(status=401, error="no such key")
    workshop.answers.replies["01"] = refusal
    backend = Busy(workshop, lambda trained: "01" in workshop.answers.asked)
    settings = {"groups_per_step": 1, "max_staleness": 1}

    with pytest.raises(OutageError, match="no such key"):
        await workshop.trainer(train=order(workshop, 3), backend=backend, settings=settings).run()

    assert workshop.trained_ids() == [["00"]]
    assert [row["training_step"] for row in workshop.rows("train")] == [1]


async def test_what_is_played_ahead_ends_with_the_run(workshop: Any) -> None:
    """Cancelled like any other: with every environment closed, and no task left."""
    workshop.answers.replies["01"] = Reply("1", delay_s=60)
    backend = Busy(workshop, lambda trained: False)
    settings = {"groups_per_step": 1, "max_staleness": 1, "check_environment": False}
    before = asyncio.all_tasks()
    run = asyncio.create_task(workshop.trainer(train=order(workshop, 3), backend=backend, settings=settings).run())
    while "01" not in workshop.answers.asked:  # noqa: ASYNC110  # a fact of the server
        await asyncio.sleep(0.005)
    run.cancel()
    [outcome] = await asyncio.gather(run, return_exceptions=True)

    assert isinstance(outcome, asyncio.CancelledError)
    left = {repr(task) for task in asyncio.all_tasks() - before if "artkit" in repr(task)}
    assert left == set()


async def test_validation_is_of_the_step_it_says_while_the_next_is_played(workshop: Any, held_out: Any) -> None:
    """Its row is the step's, whatever is played beside it."""
    backend = Busy(workshop, lambda trained: True)
    settings = {"groups_per_step": 1, "max_staleness": 1}
    await workshop.trainer(
        train=order(workshop, 3), backend=backend, settings=settings, validation=held_out(schedule=Every(1))
    ).run()

    assert [row["training_step"] for row in workshop.rows("val")] == [1, 2, 3]


async def test_a_backend_on_which_nothing_can_overlap_is_refused_with_the_reason(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rollouts that wait for a server that sleeps would run into their deadlines."""

    class LocalBackend(DiaryBackend):
        """ART's needs torch to be imported, and changes asyncio then; what is looked at is its name."""

    module = ModuleType("art.local.backend")
    module.LocalBackend = LocalBackend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "art.local.backend", module)
    shared, apart = workshop.model(), workshop.model()
    object.__setattr__(apart, "_internal_config", {"trainer_gpu_ids": [0], "inference_gpu_ids": [1]})

    assert "puts its inference to sleep while it trains" in (why_no_overlap(LocalBackend(), shared) or "")
    assert [why_no_overlap(LocalBackend(), apart), why_no_overlap(DiaryBackend(), shared)] == [None, None]
    with pytest.raises(ConfigurationError, match="max_staleness=1 overlaps nothing: ART's LocalBackend"):
        await workshop.trainer(backend=LocalBackend(), settings={"max_staleness": 1}).run()
