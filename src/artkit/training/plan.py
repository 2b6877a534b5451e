"""The plan: what will run, in words, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.tracking.wording import counted
from artkit.training.preflight import warnings_of
from artkit.training.validating import rollouts_per_scenario

if TYPE_CHECKING:
    from artkit.training.parts import Parts

__all__ = ["Plan"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will run; printing it shows it.

    Attributes:
        total_steps: Training steps of the whole run, if none comes out empty; None where it is not known.
        rollouts_per_step: Rollouts of a full training step.
        lines: What will run, a line for each part.
        warnings: What works but is seldom meant.
    """

    total_steps: int | None
    rollouts_per_step: int
    lines: tuple[str, ...]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, parts: Parts) -> Plan:
        settings = parts.settings
        total = parts.feed.total_batches
        if settings.max_steps is not None:
            total = settings.max_steps if total is None else min(total, settings.max_steps)
        data = (
            f"{len(parts.feed.scenarios)} scenarios, {settings.num_epochs} epoch(s)"
            if parts.feed.scenarios
            else "an open-ended source"
        )
        steps = "an unknown number of" if total is None else total
        size = f"{settings.groups_per_step} groups x {settings.rollouts_per_group} rollouts"
        backend = type(parts.backend).__name__
        refill = f"; up to {settings.max_extra_groups} more groups a step" if settings.max_extra_groups else ""
        ahead = f"; rollouts up to {counted(settings.lead, 'step')} ahead of training" if settings.lead else ""
        lines = [
            f"train: {data}, {steps} steps of {size} on {backend}, learning rate {settings.learning_rate:g}{ahead}",
            f"reward: {_name(parts.reward)}; filter: {parts.filters!r}{refill}",
        ]
        for validation in parts.validations:
            count = rollouts_per_scenario(validation, parts.reward_of(validation), settings)
            lines.append(
                f"validate {validation.name!r}: {len(validation.selected)} scenarios x {count} rollouts, "
                f"{validation.schedule!r}"
            )
        if not parts.validations:
            lines.append("validate: nothing")
        if parts.stop_when is not None:
            lines.append(f"stop before the end: {parts.stop_when!r}")
        lines.append(f"checkpoints: {parts.checkpoint_policy!r}, {parts.policy_reason}")
        return cls(
            total_steps=total,
            rollouts_per_step=settings.groups_per_step * settings.rollouts_per_group,
            lines=tuple(lines),
            warnings=tuple(warnings_of(parts)),
        )

    def __str__(self) -> str:
        return "\n".join([*self.lines, *(f"warning: {text}" for text in self.warnings)])


def _name(reward: object) -> str:
    return getattr(reward, "__name__", None) or repr(reward)
