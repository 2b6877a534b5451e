"""Pruning: the policy decides, and what is needed is kept whatever it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artkit import (
    BackendError,
    CheckpointError,
    Every,
    KeepAll,
    KeepBest,
    KeepEvery,
    KeepLatest,
    Validation,
    make_trainable_model,
    prune_checkpoints,
)
from artkit.checkpoints import CheckpointPolicy, Verdict
from artkit.testing import DiaryBackend
from artkit.tracking import CheckpointsPruned, Warned


async def with_checkpoints(workshop: Any, rows: dict[int, float]) -> Any:
    """A registered model with checkpoints 0 to 4 and these values of val/reward."""
    model = workshop.model()
    workshop.backend = DiaryBackend(workshop.server)
    await model.register(workshop.backend)
    for _ in range(4):
        await workshop.backend.train(model, [])
    with (workshop.model_dir / "history.jsonl").open("w") as file:
        file.writelines(json.dumps({"step": step, "val/reward": value}) + "\n" for step, value in rows.items())
    return model


async def test_prune_checkpoints_works_in_any_script(workshop: Any) -> None:
    """Also where no trainer is about."""
    model = await with_checkpoints(workshop, {1: 0.9, 3: 0.5})

    decision = await prune_checkpoints(model, KeepBest() | KeepLatest())

    assert workshop.backend.checkpoint_steps(model) == {1, 4} == decision.keep
    assert decision.why[1] == "val/reward is 0.9, the best"


async def test_what_is_in_use_is_kept_whatever_the_policy_says(workshop: Any) -> None:
    """The reference of a KL penalty is needed at every later step."""
    model = await with_checkpoints(workshop, {})

    decision = await prune_checkpoints(model, KeepLatest(), in_use=[2, 99])

    assert workshop.backend.checkpoint_steps(model) == {2, 4}
    assert (decision.keep, decision.why[2]) == ({2, 4}, "in use")


@pytest.mark.parametrize(
    ("history", "policy", "reason"),
    [
        (None, KeepBest(), "no val/reward for any checkpoint, so nothing is deleted; the history holds nothing"),
        ("", KeepBest(), "no val/reward for any checkpoint, so nothing is deleted; the history holds nothing"),
        (
            '{"step": 1, "train/reward": 0.9, "val/won": 1}\n',
            KeepBest(),
            "no val/reward for any checkpoint, so nothing is deleted; the history holds val/won and 1 other",
        ),
        (
            '{"step": 1, "val/reward": 0.9}\n',
            KeepBest("val/rewards"),
            (
                "no val/rewards for any checkpoint, so nothing is deleted; did you mean 'val/reward'? "
                "the history holds val/reward"
            ),
        ),
        (
            '{"step": 1, "val/reward": 0.9}\n',
            KeepBest(bound="lower"),
            (
                "no val/reward_low for any checkpoint, so nothing is deleted (validation logs it beside val/reward); "
                "the history holds val/reward"
            ),
        ),
        (
            '{"step": 1, "val/reward": Infinity}\n',
            KeepBest(),
            "no val/reward for any checkpoint, so nothing is deleted; the history holds nothing",
        ),
    ],
    ids=["no file", "an empty file", "no column", "a misspelt metric", "no interval", "not finite"],
)
async def test_without_the_metric_nothing_is_deleted_and_the_reason_names_what_there_is(
    workshop: Any, history: str | None, policy: Any, reason: str
) -> None:
    """Deleting needs evidence."""
    model = await with_checkpoints(workshop, {})
    path = workshop.model_dir / "history.jsonl"
    path.unlink() if history is None else path.write_text(history)

    decision = await prune_checkpoints(model, policy | KeepLatest())

    assert workshop.backend.checkpoint_steps(model) == {0, 1, 2, 3, 4} == decision.keep
    assert decision.why[1] == reason
    assert workshop.backend.calls("delete_checkpoints") == ()


async def test_what_was_done_can_be_printed(workshop: Any) -> None:
    """A checkpoint that is gone is asked for sooner or later."""
    model = await with_checkpoints(workshop, {1: 0.9, 3: 0.5})

    assert str(await prune_checkpoints(model, KeepBest() | KeepEvery(4))).splitlines() == [
        "keep 0: a multiple of 4",
        "keep 1: val/reward is 0.9, the best",
        "delete 2: no val/reward to rank it by; no multiple of 4",
        "delete 3: val/reward is 0.5, the best is 0.9 at step 1; no multiple of 4",
        "keep 4: a multiple of 4; the newest is always kept",
    ]


async def test_a_step_that_is_sampled_from_is_kept(workshop: Any) -> None:
    """Such as one that is being validated."""
    model = await with_checkpoints(workshop, {})

    async with workshop.backend.exact_adapter_lease(model, 2):
        decision = await prune_checkpoints(model, KeepLatest())

    assert workshop.backend.checkpoint_steps(model) == {2, 4} == decision.keep
    assert decision.why[2] == "being sampled from"


async def test_while_the_current_step_has_no_checkpoint_nothing_is_deleted(workshop: Any) -> None:
    """Its weights are nowhere but in memory: until they are safe, the older ones are all there is."""

    class Saving(DiaryBackend):
        def _step(self, model: Any) -> int:
            return 5

    model = await with_checkpoints(workshop, {1: 0.9})
    model._backend = Saving(workshop.server)

    decision = await prune_checkpoints(model, KeepBest() | KeepLatest())

    assert workshop.backend.checkpoint_steps(model) == {0, 1, 2, 3, 4} == decision.keep
    assert decision.why[2] == "the current step, 5, has no checkpoint yet"


async def test_what_the_backend_keeps_all_the_same_is_said(workshop: Any) -> None:
    """The decision tells what is there, not what was asked for."""

    class Holding(DiaryBackend):
        async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
            await super()._delete_checkpoint_files(model, [*steps_to_keep, 3])

    model = await with_checkpoints(workshop, {})
    model._backend = Holding(workshop.server)

    decision = await prune_checkpoints(model, KeepLatest())

    assert (decision.keep, decision.why[3]) == ({3, 4}, "Holding still has it")


async def test_a_policy_of_ones_own_sees_the_whole_history(workshop: Any) -> None:
    """It need not say what it looks at."""

    class KeepWinners(CheckpointPolicy):
        def judge(self, saved: Any, history: Any) -> Any:
            won = history.values("val/won", at=saved)
            return {step: Verdict(keep=step in won, why="won" if step in won else "did not win") for step in saved}

    model = await with_checkpoints(workshop, {3: 0.9})
    with (workshop.model_dir / "history.jsonl").open("a") as file:
        file.write('{"step": 1, "val/won": 1}\n')

    await prune_checkpoints(model, KeepBest() | KeepWinners())

    assert workshop.backend.checkpoint_steps(model) == {1, 3, 4}


async def test_a_model_without_a_backend_is_refused(workshop: Any) -> None:
    """Nobody could list or delete anything."""
    with pytest.raises(CheckpointError, match="the model is not registered"):
        await prune_checkpoints(workshop.model(), KeepLatest())


async def test_after_a_run_checkpoints_that_are_files_are_pruned_without_opening_anything(workshop: Any) -> None:
    """The trainer has closed the backend; a script that tidies up needs no server."""
    model = workshop.model()
    await workshop.trainer(model=model, checkpoint_policy=KeepAll()).run()

    decision = await prune_checkpoints(model, KeepLatest())

    assert workshop.backend.checkpoint_steps(workshop.model()) == {2} == decision.keep
    assert len(workshop.backend.calls("register")) == len(workshop.backend.calls("close")) == 1


@pytest.mark.torch
async def test_a_closed_embedded_backend_is_to_be_opened_before_pruning(tmp_path: Path) -> None:
    """Nothing is deleted behind its back."""
    from artkit.backends.torch import TorchBackend

    model = make_trainable_model(
        name="agent", project="demo", base_model="artkit/micro", base_path=str(tmp_path), report_metrics=[]
    )
    async with TorchBackend(str(tmp_path)) as backend:
        await model.register(backend)

    with pytest.raises(BackendError, match="register the model again"):
        await prune_checkpoints(model, KeepLatest())


class Unlisted(DiaryBackend):
    """A backend that cannot say which checkpoints it has."""

    checkpoint_steps = None  # type: ignore[assignment]

    def _step(self, model: Any) -> int:
        return len(self.calls("train"))

    async def register(self, model: Any) -> None:
        self._record("register", model=model.name)


async def test_a_backend_that_cannot_list_its_checkpoints_is_refused(workshop: Any) -> None:
    """What would be deleted is not known."""
    model = workshop.model()
    await model.register(Unlisted(workshop.server))

    with pytest.raises(CheckpointError, match="Unlisted cannot list its checkpoints"):
        await prune_checkpoints(model, KeepLatest())


async def test_a_run_on_such_a_backend_warns_once_and_goes_on(workshop: Any) -> None:
    """Checkpoints that are kept cost room on a disk; a run that stops costs a night."""

    class Counting(Unlisted):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            import art

            self._record("train", groups=[])
            return art.TrainResult(step=self._step(model), metrics={})

    report = await workshop.trainer(backend=Counting(workshop.server), checkpoint_policy=KeepLatest()).run()

    warnings = [event.text for event in workshop.told.of(Warned) if "not pruned" in event.text]
    assert (report.steps, len(warnings)) == (2, 1)


async def test_a_failure_to_delete_is_a_warning_and_tried_again_after_the_next_step(workshop: Any) -> None:
    """A service that did not answer once must not cost the run, nor fill the disk for the rest of it."""
    backend = DiaryBackend(workshop.server, fail={"delete_checkpoints": TimeoutError("busy")})

    report = await workshop.trainer(backend=backend, checkpoint_policy=KeepLatest()).run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert report.steps == 2
    assert warnings == ["checkpoints were not pruned after step 1: TimeoutError: busy; tried again after the next step"]
    assert backend.checkpoint_steps(workshop.model()) == {2}


async def test_the_checkpoint_that_a_kl_penalty_s_adapter_lies_in_is_kept(workshop: Any) -> None:
    """The options may name it by its path."""

    class Penalized(DiaryBackend):
        async def train(
            self, model: Any, groups: Any, *, learning_rate: float = 0.0, kl_ref_adapter_path: str | None = None
        ) -> Any:
            return await super().train(model, groups, learning_rate=learning_rate)

    for path in (workshop.model_dir / "checkpoints" / "0001" / "adapter", workshop.directory / "0002"):
        await workshop.trainer(
            backend=Penalized(workshop.server),
            checkpoint_policy=KeepLatest(),
            resume="never",
            settings={"num_epochs": 2, "train_options": {"kl_ref_adapter_path": str(path)}},
        ).run()
        saved = workshop.backend.checkpoint_steps(workshop.model())

        # What the first run kept is none of the second's business.
        assert saved == ({1, 4} if "adapter" in str(path) else {1, 4, 8})


async def test_the_kl_reference_step_is_kept(workshop: Any) -> None:
    """The options say which checkpoint the penalty is measured from."""

    class Penalized(DiaryBackend):
        async def train(
            self, model: Any, groups: Any, *, learning_rate: float = 0.0, kl_penalty_reference_step: int | None = None
        ) -> Any:
            return await super().train(model, groups, learning_rate=learning_rate)

    await workshop.trainer(
        backend=Penalized(workshop.server),
        checkpoint_policy=KeepLatest(),
        settings={"num_epochs": 2, "train_options": {"kl_penalty_reference_step": 1}},
    ).run()

    assert workshop.backend.checkpoint_steps(workshop.model()) == {1, 4}


async def test_trackers_are_told_what_was_deleted_and_why_the_rest_was_kept(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A checkpoint that is gone is asked for sooner or later."""
    workshop.answers.replies = {"x": ["1", "5"], "y": ["1", "5"]}

    await workshop.trainer(validation=held_out(schedule=Every(1))).run()

    first, second = workshop.told.of(CheckpointsPruned)
    assert (first.step, first.deleted, sorted(first.kept)) == (1, (0,), [1])
    assert (second.step, second.deleted, sorted(second.kept)) == (2, (1,), [2])
    assert "val/reward is 5, the best" in second.kept[2]
    assert second.why_deleted == {1: "val/reward is 1, the best is 5 at step 2; not among the latest 1"}


@pytest.mark.parametrize(("policy", "kept"), [(KeepAll(), {0, 1, 2, 3, 4}), (KeepEvery(3), {0, 3, 4})])
async def test_a_run_keeps_what_its_policy_says_and_the_current_step(
    workshop: Any, policy: Any, kept: set[int]
) -> None:
    """The run goes on from the current step."""
    await workshop.trainer(checkpoint_policy=policy, settings={"num_epochs": 2}).run()

    assert workshop.backend.checkpoint_steps(workshop.model()) == kept


async def test_the_default_without_validation_deletes_nothing(workshop: Any) -> None:
    """There is no evidence."""
    await workshop.trainer().run()

    assert workshop.backend.calls("delete_checkpoints") == ()
