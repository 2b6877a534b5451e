"""The validator: runs the validations that are due, each once for a step, and logs them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from artkit.episodes import write_groups
from artkit.tracking import ValidationFinished, Warned
from artkit.training.journal import Validated
from artkit.training.parts import is_relative
from artkit.training.validating import validate

if TYPE_CHECKING:
    from artkit.training.broadcast import Broadcast
    from artkit.training.ledger import Ledger
    from artkit.training.parts import Parts
    from artkit.training.rows import RowWriter
    from artkit.training.validation import Validation
    from artkit.training.validation_result import ValidationResult
    from artkit.validation import Comparison, Progress

__all__ = ["Validator"]


class Validator:
    """Runs the validations of a run.

    Args:
        parts: What the run is made of.
        ledger: Knows what was validated already.
        rows: Where rows are written.
        tell: Who is told.
    """

    def __init__(self, parts: Parts, ledger: Ledger, rows: RowWriter, tell: Broadcast) -> None:
        self._parts = parts
        self._ledger = ledger
        self._rows = rows
        self._tell = tell

    async def __call__(self, progress: Progress, *, recovered: bool = False) -> dict[str, float]:
        """Run what is due and was not yet done at this step; return the rows that were logged, joined."""
        logged: dict[str, float] = {}
        for number, validation in enumerate(self._parts.validations):
            is_done = validation.name in self._ledger.state.validated
            if not is_done and validation.schedule.due(progress):
                logged |= await self._run(validation, is_first=number == 0, recovered=recovered)
        return logged

    async def _run(self, validation: Validation, *, is_first: bool, recovered: bool) -> dict[str, float]:
        parts, step = self._parts, self._ledger.state.step
        unfinished = self._rows.recording(step, f"unfinished-{validation.name}")
        with self._rows.costs("eval"):
            result = await validate(
                validation,
                parts.model,
                rollout=parts.rollout,
                reward=parts.reward,
                settings=parts.settings,
                on_event=functools.partial(self._tell.member, validation.name),
                on_notice=self._tell.notice,
                record_to=unfinished,
            )
        write_groups(self._rows.validation_recording(validation, step), result.groups, result.lost)
        unfinished.unlink(missing_ok=True)
        comparisons = self._comparisons(validation, result)
        row = await self._rows.write_validation(result, comparisons, step=step, is_first=is_first, recovered=recovered)
        # Told first: whoever is told twice after a death can see it, and whoever is never told cannot.
        self._tell(
            ValidationFinished(
                name=validation.name,
                step=step,
                metrics=row,
                seconds=result.seconds,
                comparisons={f"the {name}, step {of}": str(found) for name, (of, found) in comparisons.items()},
            )
        )
        mean = result.metrics["reward"] if result.ranks else None
        self._ledger.note(
            Validated(name=validation.name, step=step, is_first=is_first, mean=mean, scores=result.scores)
        )
        if not result.ranks:
            text = (
                f"validation {validation.name!r} at step {step} could score only {result.scored_share:.0%} of its "
                f"episodes, so it ranks no checkpoint: {result.counts}: {result.cause}"
            )
            self._tell(Warned(text=text))
        return row

    def _comparisons(self, validation: Validation, result: ValidationResult) -> dict[str, tuple[int, Comparison]]:
        """Compare with the first and the best of the set; a relative reward says nothing about other steps."""
        standing = self._ledger.state.standings.get(validation.name)
        if standing is None or not result.ranks or is_relative(self._parts.reward_of(validation)):
            return {}
        return standing.compare(result.scores)
