"""What a run must not do: delete what it needs, or go on as if nothing had changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artkit import (
    ConfigurationError,
    Every,
    KeepBest,
    KeepLatest,
    NothingToLearn,
    ResumeError,
    Sampling,
    ScenarioOrder,
    TargetReached,
    Validation,
)
from artkit.testing import DiaryBackend, Reply
from artkit.tracking import Warned


class Penalized(DiaryBackend):
    """Reads the reference of its KL penalty at each training."""

    read: list[bool]

    async def train(
        self, model: Any, groups: Any, *, learning_rate: float = 0.0, kl_penalty_step_lag: int | None = None
    ) -> Any:
        reference = max(0, await model.get_step() - (kl_penalty_step_lag or 0))
        self.read.append(reference in self.checkpoint_steps(model))
        return await super().train(model, groups, learning_rate=learning_rate)


async def test_a_kl_reference_that_follows_the_newest_step_is_there_at_each_training(workshop: Any) -> None:
    """Without it the training fails, or goes by another one."""
    backend = Penalized(workshop.server)
    backend.read = []

    await workshop.trainer(
        backend=backend,
        checkpoint_policy=KeepLatest(),
        settings={"num_epochs": 4, "train_options": {"kl_penalty_step_lag": 3}},
    ).run()

    assert backend.read == [True] * 8
    assert backend.checkpoint_steps(workshop.model()) == {5, 6, 7, 8}


async def test_sound_weights_are_not_deleted_for_broken_ones(workshop: Any) -> None:
    """The reason to stop says to go on from an earlier checkpoint: there has to be one."""

    class Diverging(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            result = await super().train(model, groups, learning_rate=learning_rate)
            result.metrics["loss/train"] = float("nan") if result.step == 3 else 0.5
            return result

    backend = Diverging(workshop.server)
    report = await workshop.trainer(backend=backend, checkpoint_policy=KeepLatest(), settings={"num_epochs": 4}).run()

    assert report.reason.startswith("stopped: loss/train is nan in step 3")
    assert backend.checkpoint_steps(workshop.model()) == {2, 3}


async def test_a_step_whose_validation_failed_is_kept(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """How good it is nobody knows: it may be the best."""
    lost = Reply(status=400, error="lost")
    workshop.answers.replies = {name: ["1", lost, "2", "0"] for name in "xy"}

    report = await workshop.trainer(validation=held_out(schedule=Every(1)), settings={"num_epochs": 2}).run()

    assert (report.best_step, report.best_value) == (3, 2.0)
    assert workshop.backend.checkpoint_steps(workshop.model()) == {2, 3, 4}


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_journal_that_is_gone_is_no_beginning(workshop: Any, is_empty: bool) -> None:
    """Everything would be trained on again, without a word."""
    await workshop.trainer(settings={"max_steps": 1}).run()
    journal = workshop.model_dir / "artkit" / "journal.jsonl"
    journal.write_text("") if is_empty else journal.unlink()

    with pytest.raises(ResumeError, match=r"holds batches of a run, but its journal .* is missing or empty"):
        await workshop.trainer().run()
    report = await workshop.trainer(resume="never").run()

    assert report.steps == 2
    assert (workshop.model_dir / "artkit" / "recordings.1" / "batch-000000.jsonl").exists()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"texts": {"x": "another question"}}, "val was"),
        ({"sampling": Sampling(temperature=0)}, "val was"),
        ({"hard": ("z", "v")}, "val/hard was"),
    ],
)
async def test_another_set_to_rank_by_is_refused_on_resume(
    workshop: Any, held_out: Callable[..., Validation], changed: dict[str, Any], named: str
) -> None:
    """Values of two sets in one column would rank checkpoints of both."""

    def validations(texts: Any = None, sampling: Any = None, hard: tuple[str, ...] = ("z",)) -> list[Validation]:
        scenarios = workshop.scenarios("x", "y")
        for number, item in enumerate(scenarios):
            if item.id in (texts or {}):
                messages = [{"role": "user", "content": texts[item.id]}]
                scenarios[number] = item.model_copy(update={"messages": messages})
        return [Validation(scenarios, sampling=sampling, schedule=Every(1)), held_out(*hard, name="hard")]

    workshop.answers.replies = {"another question": "1"}
    policy = KeepBest() | KeepBest("val/hard/reward")
    await workshop.trainer(validation=validations(), checkpoint_policy=policy, settings={"max_steps": 1}).run()

    with pytest.raises(ResumeError, match=named):
        await workshop.trainer(validation=validations(**changed), checkpoint_policy=policy).run()


async def test_a_stop_metric_that_is_never_logged_is_warned_about(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A typo must not let a run go on for ever in silence."""
    await workshop.trainer(validation=held_out(schedule=Every(1)), stop_when=TargetReached(9.0, "val/rewrd")).run()

    (text,) = [event.text for event in workshop.told.of(Warned) if "rewrd" in event.text]
    assert "reads val/rewrd, which was not logged; validation logged val/" in text


def test_two_scenarios_of_one_id_are_refused_in_a_validation(workshop: Any) -> None:
    """One of their results would be lost."""
    with pytest.raises(ConfigurationError, match="1 ids come twice among the scenarios, such as 'x'"):
        Validation([*workshop.scenarios("x", "y"), *workshop.scenarios("x")])


async def test_a_session_that_died_after_its_last_empty_batch_stops_where_it_would_have(workshop: Any) -> None:
    """The answer of a stop condition may die with the session."""
    workshop.answers.replies = dict.fromkeys("abcdef", "1")
    data = ScenarioOrder(workshop.scenarios(*"abcdef"), shuffle=False)
    settings = {"groups_per_step": 1, "max_empty_steps": 9}
    await workshop.trainer(train=data, stop_when=NothingToLearn(3), settings=settings).run()
    journal = workshop.model_dir / "artkit" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"ended"' not in line))
    asked = len(workshop.answers.asked)

    report = await workshop.trainer(train=data, stop_when=NothingToLearn(3), settings=settings).run()

    assert report.reason.startswith("stopped: the last 3 batches taught nothing")
    assert len(workshop.answers.asked) == asked


async def test_groups_of_equal_rewards_are_counted_and_not_repeated_after_a_restart(workshop: Any) -> None:
    """Two groups of [1, 1, 1, 1]: nothing is trained on, the data goes on, and the counts say why."""
    workshop.answers.replies = dict.fromkeys("ab", "1")
    data = ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), shuffle=False)
    settings = {"rollouts_per_group": 4, "max_empty_steps": 1}

    first = await workshop.trainer(train=data, settings=settings).run()
    (emptied,) = [entry["metrics"] for entry in workshop.journal() if entry["kind"] == "emptied"]
    await workshop.trainer(train=data, settings=settings).run()

    (row,) = workshop.rows("train")
    assert first.reason == "stopped: 1 batches in a row held nothing to learn from"
    assert (emptied["groups_submitted"], emptied["groups_trainable"]) == (2.0, 0.0)
    assert workshop.trained_ids() == [["c", "d"]]
    assert (row["train/groups_submitted"], row["train/groups_trainable"], row["train/groups_dropped"]) == (
        4.0,
        2.0,
        2.0,
    )


async def test_resuming_at_the_boundary_of_an_epoch_trains_the_next(workshop: Any) -> None:
    """Six scenarios in batches of three, two epochs, resumed at step 2: steps 3 and 4 are left."""
    data, settings = workshop.scenarios(*"abcdef"), {"groups_per_step": 3, "num_epochs": 2}
    await workshop.trainer(train=data, settings={**settings, "max_steps": 2}).run()

    await workshop.trainer(train=data, settings=settings).run()
    trained = workshop.trained_ids()
    report = await workshop.trainer(train=data, settings=settings).run()

    order = [[item.id for item in batch.items] for batch in ScenarioOrder(data, seed=0).batches(3, 2)]
    assert trained == order[2:]
    assert report.reason == "nothing to do: finished: all batches were trained"
