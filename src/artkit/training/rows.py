"""Writing rows: the trainer's numbers go through ART's own log, once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.bridge import keep_state_copy, loggable, loggable_metrics, sync_to_disk
from artkit.training.history_rows import has_row, rows_of, size_of
from artkit.training.row import is_own_metric, partial_counts, rewards_by_task

if TYPE_CHECKING:
    from pathlib import Path

    import art

    from artkit.training.journal import Trained
    from artkit.training.parts import Parts
    from artkit.training.run_state import RunState
    from artkit.training.validation import Validation
    from artkit.training.validation_result import ValidationResult
    from artkit.validation import Comparison

__all__ = ["RowWriter"]

# Metrics that every row of ours has, so that a row is known again after a death.
_BATCH = "batch_index"
_SCENARIOS = "scenarios"


class RowWriter:
    """Writes the rows of a run into ART's history, and knows where its recordings are.

    Args:
        parts: What the run is made of.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._model = parts.model

    @property
    def recordings(self) -> Path:
        """The directory of the run's recordings."""
        return self._parts.own_dir / "recordings"

    def recording(self, number: int, name: str = "batch") -> Path:
        """Return the place of the recording of a batch, or of something else that has a number."""
        return self.recordings / f"{name}-{number:06d}.jsonl"

    def clean(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Return what of a backend's metrics can be logged."""
        return loggable_metrics(metrics)

    async def write_train(
        self,
        state: RunState,
        trained: Trained,
        groups: Sequence[art.TrajectoryGroup],
        *,
        recovered: bool = False,
    ) -> dict[str, Any]:
        """Log all scored groups of a step, with the counts and what the backend reported; return the row."""
        batch = state.batch
        counts = batch.metrics if batch else {}
        metrics = {**trained.metrics, **counts, **rewards_by_task(groups), _BATCH: float(trained.index)}
        if batch:
            metrics["epoch"] = float(batch.epoch)
        return await self._log(groups, metrics, step=trained.step, split="train", recovered=recovered)

    async def write_validation(
        self,
        result: ValidationResult,
        comparisons: Mapping[str, tuple[int, Comparison]],
        *,
        step: int,
        is_first: bool,
        recovered: bool = False,
    ) -> dict[str, Any]:
        """Log a validation; return the row.

        The first set becomes ART's split "val". One that could not score enough is logged without its groups and
        without `val/reward`, so that it ranks nothing; its mean is there as `reward_incomplete`.
        """
        beside = {name: value for of, (_, found) in comparisons.items() for name, value in _beside(of, found)}
        if is_first and result.ranks:
            return await self._log(result.groups, result.summary | beside, step=step, split="val", recovered=recovered)
        metrics = result.metrics | beside
        if not result.ranks:
            incomplete = {"reward_incomplete": metrics["reward"]} if "reward" in metrics else {}
            metrics = {name: value for name, value in metrics.items() if not _is_ranking(name)} | incomplete
        prefix = "val" if is_first else f"val/{result.name}"
        row = {f"{prefix}/{name}": value for name, value in metrics.items()}
        return await self._log(None, row, step=step, split="val", recovered=recovered)

    def validation_recording(self, validation: Validation, step: int) -> Path:
        """Return the place of the recording of a validation."""
        return self.recording(step, f"validation-{validation.name}")

    def has_train_row(self, state: RunState, trained: Trained) -> bool:
        """Whether the row of a training step is in the history."""
        return has_row(
            self._parts.history_path,
            since_byte=state.history_bytes,
            step=trained.step,
            key=f"train/{_BATCH}",
            value=float(trained.index),
        )

    def has_validation_row(self, state: RunState, validation: Validation, *, is_first: bool) -> bool:
        """Whether the row of a validation at the present step is in the history."""
        key = f"val/{_SCENARIOS}" if is_first else f"val/{validation.name}/{_SCENARIOS}"
        return has_row(self._parts.history_path, since_byte=state.history_bytes, step=state.step, key=key)

    def logged(self, state: RunState) -> dict[str, Any]:
        """Return everything that was logged at the present step, joined."""
        return rows_of(self._parts.history_path, since_byte=state.history_bytes, step=state.step)

    def logged_in_training(self, state: RunState) -> dict[str, Any]:
        """Return what was logged of the training at the present step."""
        return {name: value for name, value in self.logged(state).items() if not name.startswith("val/")}

    def logged_of(self, state: RunState, validation: Validation, *, is_first: bool) -> dict[str, Any]:
        """Return what was logged of a validation at the present step."""
        others = tuple(f"val/{other.name}/" for other in self._parts.validations[1:])
        logged = self.logged(state).items()
        if is_first:
            return {n: value for n, value in logged if n.startswith("val/") and not n.startswith(others)}
        return {n: value for n, value in logged if n.startswith(f"val/{validation.name}/")}

    @contextlib.contextmanager
    def costs(self, context: str) -> Iterator[None]:
        """Book what models and judges cost inside to "train" or "eval"."""
        token = self._model.activate_metrics_context(context)
        try:
            yield
        finally:
            token.var.reset(token)

    async def _log(
        self,
        groups: Sequence[art.TrajectoryGroup] | None,
        metrics: Mapping[str, float],
        *,
        step: int,
        split: str,
        recovered: bool,
    ) -> dict[str, Any]:
        row = loggable_metrics(metrics)
        if recovered:
            row["recovered"] = 1.0
        before = size_of(self._parts.history_path)
        safe = None if groups is None else loggable(groups, is_taken=is_own_metric)
        row |= partial_counts(safe or ())
        await self._model.log(safe, split=split, metrics=row, step=step)
        if self._parts.history_path.exists():
            # Whoever reads in the journal that the row is there must find it, also after a power cut.
            sync_to_disk(self._parts.history_path)
        keep_state_copy(self._model)
        return rows_of(self._parts.history_path, since_byte=before, step=step)


def _beside(of: str, found: Comparison) -> Iterator[tuple[str, float]]:
    """Yield what is logged of a comparison: the difference, and the ends of its interval."""
    name = f"reward_vs_{of}"
    for metric, value in ((name, found.difference), (f"{name}_low", found.low), (f"{name}_high", found.high)):
        if value is not None:
            yield metric, value


def _is_ranking(name: str) -> bool:
    return name in {"reward", "reward_se", "reward_low", "reward_high"} or name.startswith(
        ("reward_of_", "reward_vs_", "pass@")
    )
