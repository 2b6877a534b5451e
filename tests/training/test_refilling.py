"""Groups that filters dropped are replaced, up to a budget, and what is left over waits for the next step."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from artkit import (
    AllRolloutsFailedError,
    DropFailures,
    DropZeroVariance,
    EveryEpoch,
    MinMembers,
    ProgrammaticReward,
    ResumeError,
    RewardError,
    ScenarioOrder,
    Validation,
)
from artkit.episodes import read_groups
from artkit.testing import DiaryBackend, Reply
from artkit.tracking import Warned

NAMES = [f"{number:02}" for number in range(24)]


class DyingError(Exception):
    """Ends a run where a test wants it."""


class Dying(DiaryBackend):
    """Dies at the first training, before or after it."""

    def __init__(self, *arguments: Any, when: str) -> None:
        super().__init__(*arguments)
        self._when = when

    async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
        if self._when == "before":
            raise DyingError
        await super().train(model, groups, learning_rate=learning_rate)
        raise DyingError


def flat(workshop: Any, *names: str) -> None:
    """Make groups of these names teach nothing."""
    workshop.answers.replies |= dict.fromkeys(names, "1")


def in_order(workshop: Any, *names: str) -> ScenarioOrder[Any]:
    return ScenarioOrder(workshop.scenarios(*names), shuffle=False)


async def test_what_was_dropped_is_replaced_by_the_next_scenarios(workshop: Any) -> None:
    """A step then trains on as many groups as it was meant to."""
    flat(workshop, "a", "c")

    await workshop.trainer(train=in_order(workshop, *"abcdef"), settings={"max_extra_groups": 4}).run()

    assert workshop.trained_ids() == [["b", "d"], ["e", "f"]]


async def test_nothing_is_replaced_unless_it_is_asked_for(workshop: Any) -> None:
    """Further rollouts cost money."""
    flat(workshop, "a", "c")

    await workshop.trainer(train=in_order(workshop, *"abcdef")).run()

    assert workshop.trained_ids() == [["b"], ["d"], ["e", "f"]]


async def test_the_budget_of_a_step_is_kept(workshop: Any) -> None:
    """A reward that is always the same would otherwise play the whole epoch for one step."""
    flat(workshop, *"abcde")

    await workshop.trainer(train=in_order(workshop, *"abcdefgh"), settings={"max_extra_groups": 3}).run()

    first, second = workshop.rows("train")
    assert workshop.trained_ids() == [["f", "g"], ["h"]]
    assert (first["train/groups_submitted"], first["train/groups_dropped"]) == (7.0, 5.0)
    assert (second["train/groups_submitted"], second["train/groups_dropped"]) == (1.0, 0.0)


async def test_what_is_left_over_is_trained_on_first_in_the_next_step(workshop: Any) -> None:
    """It was paid for; and it is in the row, and the recording, of the step that trains on it."""
    flat(workshop, "a", "b")

    await workshop.trainer(train=in_order(workshop, *"abcdefgh"), settings={"max_extra_groups": 4}).run()

    first, second, _ = rows = workshop.rows("train")
    assert workshop.trained_ids() == [["c", "d"], ["e", "f"], ["g", "h"]]
    assert [row["train/groups_submitted"] for row in rows] == [6.0, 0.0, 2.0]
    assert (first["train/groups_kept"], second["train/groups_carried"]) == (2.0, 2.0)
    assert second["train/reward"] == 0.5
    recordings = workshop.model_dir / "artkit" / "recordings"
    recorded = [read_groups(path)[0] for path in sorted(recordings.glob("batch-*.jsonl"))]
    assert [[group.metadata["scenario_id"] for group in groups] for groups in recorded] == [
        ["a", "b", "c", "d"], ["e", "f"], ["g", "h"],
    ]  # fmt: skip
    assert list(recordings.glob("kept-*")) == []


async def test_no_batch_crosses_an_epoch(workshop: Any) -> None:
    """What an epoch leaves over is its last batch, and only that ends it."""
    flat(workshop, "a", "b")
    validation = Validation(workshop.scenarios("x"), schedule=EveryEpoch())

    await workshop.trainer(
        train=in_order(workshop, *"abcde"), validation=validation, settings={"max_extra_groups": 9, "num_epochs": 2}
    ).run()

    assert workshop.trained_ids() == [["c", "d"], ["e"]] * 2
    assert [row["step"] for row in workshop.rows("val")] == [2, 4]
    assert [row["train/epoch"] for row in workshop.rows("train")] == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(4))
async def test_every_sampled_group_is_trained_on_dropped_or_kept(workshop: Any, seed: int) -> None:
    """That is by reason; and each scenario is played once in an epoch, in its order."""
    chance = random.Random(seed)
    replies = [
        "1",
        ["0", "1"],
        ["0", "1"],
        [Reply(status=400, error="no"), "1", "0"],
        [Reply(status=400, error="no"), "1"],
    ]
    workshop.answers.replies = {name: chance.choice(replies) for name in NAMES}
    filters = DropFailures({"infrastructure"}) | MinMembers(3) | DropZeroVariance()
    settings = {"max_extra_groups": 5, "groups_per_step": 3, "rollouts_per_group": 3, "num_epochs": 2, "seed": seed}

    report = await workshop.trainer(
        train=workshop.scenarios(*NAMES), filters=filters, settings={**settings, "max_empty_steps": 99}
    ).run()

    rows = [{k.removeprefix("train/groups_"): v for k, v in row.items()} for row in workshop.rows("train")]
    for row in rows:
        carried, kept = row.get("carried", 0), row.get("kept", 0)
        reasons = {name: count for name, count in row.items() if name.startswith("dropped_")}
        assert row["submitted"] + carried == row["trainable"] + row["dropped"] + kept
        assert row["dropped"] == sum(reasons.values())
        assert set(reasons) <= {"dropped_failures", "dropped_min_members", "dropped_zero_variance"}
    trained = [name for batch in workshop.trained_ids() for name in batch]
    counts = report.counts
    assert counts["groups_submitted"] == counts["groups_trainable"] + counts["groups_dropped"] == 48
    assert counts["groups_trainable"] == len(trained)
    order = ScenarioOrder(workshop.scenarios(*NAMES), seed=seed)
    wanted = Counter(trained)
    assert [s.id for epoch in (0, 1) for s in order.epoch(epoch) if s.id in wanted] == trained


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_was_left_over_survives_a_death(workshop: Any, when: str) -> None:
    """The resumed run trains on the same batches as one that did not die."""
    flat(workshop, "a", "b", "i")
    names, settings = [*"abcdefghijk"], {"max_extra_groups": 4, "num_epochs": 2}
    trained: list[list[str]] = []

    for _ in range(20):
        try:
            backend = Dying(workshop.server, when=when) if len(trained) % 2 == 0 else None
            await workshop.trainer(train=in_order(workshop, *names), settings=settings, backend=backend).run()
            trained += workshop.trained_ids()
            break
        except DyingError:
            trained += workshop.trained_ids()
            if when == "before":
                await _one_step(workshop, names, settings, trained)

    assert trained == [["c", "d"], ["e", "f"], ["g", "h"], ["j", "k"]] * 2
    assert [row["step"] for row in workshop.rows("train")] == list(range(1, 9))


async def _one_step(workshop: Any, names: list[str], settings: dict[str, int], trained: list[list[str]]) -> None:
    steps = len(trained) + 1
    await workshop.trainer(train=in_order(workshop, *names), settings={**settings, "max_steps": steps}).run()
    trained += workshop.trained_ids()


async def test_left_over_groups_that_are_gone_are_warned_about(workshop: Any) -> None:
    """Somebody made room on the disk: the run goes on with the next scenarios."""
    flat(workshop, "a", "b")
    settings = {"max_extra_groups": 4}
    await workshop.trainer(train=in_order(workshop, *"abcdefgh"), settings={**settings, "max_steps": 1}).run()
    (workshop.model_dir / "artkit" / "recordings" / "kept-000000.jsonl").unlink()

    await workshop.trainer(train=in_order(workshop, *"abcdefgh"), settings=settings).run()

    (lost,) = [event.text for event in workshop.told.of(Warned) if "are lost" in event.text]
    assert lost.startswith("2 groups that batch 0 left over are lost")
    assert workshop.trained_ids() == [["g", "h"]]


async def test_a_budget_that_changed_is_refused_on_resume(workshop: Any) -> None:
    """It decides the batches."""
    flat(workshop, "a", "b")
    data = in_order(workshop, *"abcdefgh")
    await workshop.trainer(train=data, settings={"max_extra_groups": 4, "max_steps": 1}).run()

    with pytest.raises(ResumeError, match="max_extra_groups was 4 and is None"):
        await workshop.trainer(train=data).run()


async def test_a_batch_of_which_nothing_could_be_scored_is_not_refilled(workshop: Any) -> None:
    """A broken judge would be asked for the whole budget."""
    asked: list[str] = []

    def broken(group: Any) -> Any:
        asked.append(group.metadata["scenario_id"])
        raise ValueError("broken")

    with pytest.raises(RewardError, match="broken"):
        await workshop.trainer(
            train=in_order(workshop, *"abcdefgh"), reward=broken, settings={"max_extra_groups": 4}
        ).run()

    assert sorted(asked) == [*"abcdef"]


def test_the_plan_tells_of_the_budget_and_of_one_that_does_nothing(workshop: Any) -> None:
    """It decides what a step may cost."""
    plan = str(workshop.trainer(settings={"max_extra_groups": 4}).plan())

    assert "filter: DropZeroVariance(); up to 4 more groups a step" in plan
    unused = str(workshop.trainer(filters=None, settings={"max_extra_groups": 4}).plan())
    assert "max_extra_groups=4 does nothing" in unused


async def test_a_refill_that_fails_as_a_whole_is_no_end_of_the_run(workshop: Any) -> None:
    """It may be a single scenario, and in a first gather it would be a warning too."""
    flat(workshop, "a")
    workshop.answers.replies["c"] = Reply(status=400, error="no such tool")

    await workshop.trainer(train=in_order(workshop, *"abcd"), settings={"max_extra_groups": 1}).run()

    assert workshop.trained_ids() == [["b"], ["d"]]


async def test_the_failures_of_a_step_count_together_over_its_refills(workshop: Any) -> None:
    """`max_exceptions` is of one step, however it is filled."""
    flat(workshop, "a")
    workshop.answers.replies |= {"b": ["1", Reply(status=400, error="no such tool")]}
    workshop.answers.replies |= {"c": [Reply(status=400, error="no such tool"), "1"]}

    with pytest.raises(
        AllRolloutsFailedError, match=r"2 of the 6 rollouts of a step failed.*max_exceptions=1.*no such"
    ):
        await workshop.trainer(
            train=in_order(workshop, *"abcd"), settings={"max_extra_groups": 1, "max_exceptions": 1}
        ).run()

    groups, _ = read_groups(workshop.model_dir / "artkit" / "recordings" / "failed-000000.jsonl")
    assert [group.metadata["scenario_id"] for group in groups] == ["a", "b", "c"]


async def test_what_could_not_be_scored_beside_carried_groups_is_played_again_too(workshop: Any) -> None:
    """That something was left over from before says nothing of what these would have taught."""
    flat(workshop, "a", "b")
    data, settings = in_order(workshop, *"abcdegh"), {"max_extra_groups": 3, "max_empty_steps": 1}
    broken = ProgrammaticReward(lambda episode: None if episode.scenario.id in "gh" else episode.environment_reward)

    with pytest.raises(RewardError, match="no episode of the last batch could be scored"):
        await workshop.trainer(train=data, reward=broken, settings=settings).run()
    first = workshop.trained_ids()
    await workshop.trainer(train=data, settings=settings).run()

    assert (first, workshop.trained_ids()) == ([["c", "d"]], [["e", "g"], ["h"]])
    assert list((workshop.model_dir / "artkit" / "recordings").glob("kept-*")) == []
