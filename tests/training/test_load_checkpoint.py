"""Finding a checkpoint again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from artkit import CheckpointError, ConfigurationError, Every, KeepBest, KeepLatest, prune_checkpoints
from artkit.bridge import make_trainable_model
from artkit.testing import DiaryBackend
from artkit.training import Checkpoint, load_checkpoint


def log(directory: Path, rows: Mapping[int, Mapping[str, float]]) -> None:
    lines = (json.dumps({"step": step, **row}) + "\n" for step, row in rows.items())
    (directory / "history.jsonl").write_text("".join(lines))


@pytest.fixture
async def model(workshop: Any) -> Any:
    """A registered model with checkpoints 0 to 9, best at 5, cheapest at 3."""
    model = workshop.model()
    workshop.backend = DiaryBackend(workshop.server)
    await model.register(workshop.backend)
    for _ in range(9):
        await workshop.backend.train(model, [])
    log(
        workshop.model_dir,
        {
            3: {"val/reward": 0.25, "val/cost": 1},
            5: {"val/reward": 0.75, "val/cost": 3},
            7: {"val/reward": 0.75},
            9: {"val/reward": 0.5, "val/cost": 2},
            12: {"val/reward": 0.99},
        },
    )
    return model


def at(workshop: Any, step: int) -> Checkpoint:
    return Checkpoint(
        step=step, inference_name=f"agent@{step}", path=workshop.model_dir / "checkpoints" / f"{step:04d}"
    )


async def test_one_call_returns_the_best_the_latest_or_that_of_a_step(workshop: Any, model: Any) -> None:
    """Best 5, latest 9; a step that was logged but has no checkpoint is not the best of those there are."""
    assert await load_checkpoint(model, "best") == at(workshop, 5)
    assert await load_checkpoint(model, "latest") == at(workshop, 9)
    assert await load_checkpoint(model, 7) == at(workshop, 7)
    assert await load_checkpoint(model, 0) == at(workshop, 0)
    assert (await load_checkpoint(model, 7)).path.is_dir()  # type: ignore[union-attr]
    assert await load_checkpoint(model, "best", metric="val/cost", mode="min") == at(workshop, 3)


async def test_the_best_is_the_one_that_pruning_keeps(workshop: Any, model: Any) -> None:
    """Two rankings would disagree one day."""
    decision = await prune_checkpoints(model, KeepBest() | KeepLatest())

    assert decision.keep == {(await load_checkpoint(model, which)).step for which in ("best", "latest")}


async def test_a_checkpoint_that_was_pruned_is_not_the_best_any_more(workshop: Any, model: Any) -> None:
    """Its row is still there, its weights are not."""
    await prune_checkpoints(model, KeepLatest(3))

    assert await load_checkpoint(model, "best") == at(workshop, 7)


async def test_an_unknown_step_names_those_that_there_are(model: Any) -> None:
    """A wrong guess is followed by a right one."""
    await prune_checkpoints(model, KeepBest() | KeepLatest())
    for step in (4, 12, -1):
        with pytest.raises(CheckpointError) as caught:
            await load_checkpoint(model, step)

        assert str(caught.value) == f"'agent' has no checkpoint of step {step} (hint: there are those of steps 5, 9)"


async def test_an_unknown_metric_names_the_one_that_is_meant_or_those_that_there_are(workshop: Any, model: Any) -> None:
    """A misspelt name is the usual cause; nothing logged is the other. A run logs dozens: not all are named."""
    await prune_checkpoints(model, KeepLatest(2))
    path = workshop.model_dir / "history.jsonl"
    log(workshop.model_dir, {9: {"val/reward": 0.5, **{f"val/{letter}": 1 for letter in "abcdefghijklmno"}}})
    hints = {}
    for metric in ("val/rewards", "val/wins"):
        with pytest.raises(CheckpointError, match=f"no {metric} for any of the checkpoints, those of steps 8, 9") as no:
            await load_checkpoint(model, "best", metric=metric)
        hints[metric] = no.value.hint
    path.unlink()
    with pytest.raises(CheckpointError) as unlogged:
        await load_checkpoint(model, "best")

    assert hints["val/rewards"] == "did you mean 'val/reward'?"
    assert hints["val/wins"].startswith(f"{str(path)!r} holds val/")
    assert hints["val/wins"].endswith(" and 8 others")
    assert unlogged.value.hint == f"{str(path)!r} holds no metric: validate, or give a step"


async def test_the_lower_bound_names_what_the_policy_keeps_and_the_report_calls_best(
    workshop: Any, held_out: Any
) -> None:
    """Of a lucky validation the mean is high and the lower end is not."""
    names = [f"{number:02}" for number in range(8)]
    # At step 1 each scenario scores 1; at step 2 one scores 9 and the others 0, which is the better mean.
    workshop.answers.replies = {name: ["1", "9" if name == "00" else "0"] for name in names}
    policy = KeepBest(bound="lower") | KeepLatest()
    report = await workshop.trainer(
        train=workshop.scenarios("a", "b"),
        validation=held_out(*names, schedule=Every(1)),
        checkpoint_policy=policy,
        settings={"groups_per_step": 1, "max_concurrent": 1},
    ).run()

    lower = await load_checkpoint(workshop.model(), "best", bound="lower")
    assert (lower, report.best_step) == (at(workshop, 1), 1)
    assert await load_checkpoint(workshop.model(), "best") == at(workshop, 2)


@pytest.mark.parametrize("which", ["newest", True, 2.5, None])
async def test_what_names_no_checkpoint_is_refused(model: Any, which: Any) -> None:
    """Before anything is looked up."""
    with pytest.raises(ConfigurationError, match=r'give "best", "latest" or a step'):
        await load_checkpoint(model, which)


async def test_a_ranking_that_cannot_work_is_refused(model: Any) -> None:
    """The same is said of a policy."""
    with pytest.raises(ConfigurationError, match=r"mode='most'\) is unknown"):
        await load_checkpoint(model, "best", mode="most")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"bound='upper'\) is unknown"):
        await load_checkpoint(model, "best", bound="upper")  # type: ignore[arg-type]


async def test_a_model_whose_files_are_here_needs_no_backend(workshop: Any, model: Any) -> None:
    """A script that looks at a finished run starts no server."""
    assert await load_checkpoint(workshop.model(), "best") == at(workshop, 5)
    assert await load_checkpoint(workshop.model(), "latest") == at(workshop, 9)


async def test_a_model_without_files_is_to_be_registered(tmp_path: Path) -> None:
    """Or its base path is another."""
    stranger = make_trainable_model(
        name="stranger", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    with pytest.raises(CheckpointError, match=r"'stranger' is not registered, .*await model.register\(backend\) first"):
        await load_checkpoint(stranger, "latest")


async def test_a_backend_that_cannot_list_its_checkpoints_is_refused(workshop: Any) -> None:
    """A name for weights that may be gone is no checkpoint."""

    class Unlisted(DiaryBackend):
        checkpoint_steps = None  # type: ignore[assignment]

        async def register(self, model: Any) -> None:
            pass

    unlisted = workshop.model()
    await unlisted.register(Unlisted(workshop.server))
    with pytest.raises(CheckpointError, match="Unlisted cannot list its checkpoints"):
        await load_checkpoint(unlisted, 3)


async def test_a_model_without_a_checkpoint_has_none(workshop: Any) -> None:
    """Nothing was trained yet."""

    class Empty(DiaryBackend):
        def checkpoint_steps(self, model: Any) -> frozenset[int]:
            return frozenset()

    empty = workshop.model()
    await empty.register(Empty(workshop.server))
    with pytest.raises(CheckpointError, match="'agent' has no checkpoint yet"):
        await load_checkpoint(empty, "latest")


async def test_a_step_without_a_name_of_its_own_says_how_to_sample_from_it(workshop: Any, model: Any) -> None:
    """ART 0.5.23 serves some models so."""

    class InFlight(DiaryBackend):
        def _model_inference_name(self, model: Any, step: int | None = None) -> str:
            if step is not None:
                raise ValueError("In-flight LoRA serving cannot address an immutable policy step.")
            return "agent-in-flight"

    model._backend = InFlight(workshop.server)
    with pytest.raises(CheckpointError, match=r"cannot address an immutable.*exact_adapter_lease\(model, 5\)"):
        await load_checkpoint(model, "best")


async def test_the_best_of_a_run_is_what_its_report_says(workshop: Any, held_out: Any) -> None:
    """It is still there when the run is over."""
    workshop.answers.replies = {"x": ["1", "5", "0"], "y": ["1", "5", "0"]}
    report = await workshop.trainer(
        train=workshop.scenarios("a", "b", "c"), validation=held_out(schedule=Every(1)), settings={"groups_per_step": 1}
    ).run()

    assert report.best_step == 2
    assert await load_checkpoint(workshop.model(), "best") == at(workshop, 2)


@pytest.mark.torch
async def test_it_works_on_the_embedded_backend(tmp_path: Path) -> None:
    """Its checkpoints are directories, and each step is served under its name; they are there when it was closed, too."""
    from artkit.backends.torch import TorchBackend

    model = make_trainable_model(
        name="agent", project="demo", base_model="artkit/micro", base_path=str(tmp_path), report_metrics=[]
    )
    async with TorchBackend(str(tmp_path)) as backend:
        await model.register(backend)
        first = await load_checkpoint(model, "latest")

    assert await load_checkpoint(model, 0) == first
    assert first == Checkpoint(
        step=0, inference_name="agent@0", path=tmp_path / "demo" / "models" / "agent" / "checkpoints" / "0000"
    )
    assert first.path is not None
    assert (first.path / "checkpoint.json").is_file()
