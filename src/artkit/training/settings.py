"""The numbers of a run."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from artkit.errors import ConfigurationError

__all__ = ["TrainerSettings"]

_HINTS = {
    "ge": "the nearest value that works is {}",
    "le": "the nearest value that works is {}",
    "gt": "give more than {}",
    "lt": "give less than {}",
}


class TrainerSettings(BaseModel):
    """The numbers of a run: frozen, checked when made, unknown names refused.

    Attributes:
        learning_rate: Passed to `backend.train` with every step.
        rollouts_per_group: Rollouts of each scenario; a group of one teaches nothing.
        groups_per_step: Scenarios in one training step.
        num_epochs: Passes over the scenarios, counted over the whole run; no meaning for an open-ended source.
        max_steps: Trained steps of the whole run, resumes included. None means no limit.
        seed: Of the order of the scenarios, and of what validation samples.
        max_concurrent: Rollouts in flight at once, over all groups; with `max_staleness`, a validation and what is
            played ahead beside it have so many each.
        step_timeout_s: How long the rollouts of one step may play, in seconds: those that still do then end as
            `timeout` with the turns so far, and the step goes on with what there is. None means no limit.
        max_exceptions: How many rollouts of one step, or of one validation, may fail before the run stops; strictly
            between 0 and 1 a share.
            None stops only when every rollout of a step failed.
        max_failure_rate: The run stops when more than this share of the last attempted episodes failed or could not be
            scored, in [0, 1]; looked at are the newest batches that make up at least 100 episodes.
        max_recent_failures: The run stops when more than so many of these failed or could not be scored, also before
            there are 100. None leaves it to the share.
        max_extra_groups: How many further scenarios of the epoch may be played in one step to replace groups that the
            filters dropped. What then is left over is trained on in the next step, so it is one step older than the
            weights then, also with `max_staleness=0`.
        max_empty_steps: So many batches in a row with nothing to learn from stop the run.
        stop_on_collapse: Whether a run over shuffled scenarios stops when an absolute reward has risen well above where
            it began, then suddenly falls below that and stays there (`RewardCollapse()`).
        check_environment: Whether short episodes are played before the run, without a model, to find out whether the
            environment replays (`check_environment(…, quick=True)`, which takes about 2 s at most).
        max_staleness: How many steps older than the weights an episode may be when it is trained on. 0 plays, then
            trains, then plays; with 1 or more, the rollouts of the next steps are played while a step trains. With
            `max_extra_groups` what is left over takes one of these steps, so there 2 is the least that overlaps.
        train_options: Further keyword arguments of the backend's `train`, checked against its signature.

    Raises:
        ConfigurationError: A value out of its range, or an unknown name.

    >>> TrainerSettings(groups_per_step=8).rollouts_per_group
    4
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-5, ge=0, allow_inf_nan=False)
    rollouts_per_group: int = Field(default=4, ge=1)
    groups_per_step: int = Field(default=2, ge=1)
    num_epochs: int = Field(default=1, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    seed: int = 0
    max_concurrent: int = Field(default=256, ge=1)
    step_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_exceptions: float | None = Field(default=None, ge=0)
    max_failure_rate: float = Field(default=0.5, ge=0, le=1)
    max_recent_failures: int | None = Field(default=None, ge=0)
    max_extra_groups: int = Field(default=0, ge=0)
    max_empty_steps: int = Field(default=3, ge=1)
    stop_on_collapse: bool = True
    check_environment: bool = True
    max_staleness: int = Field(default=0, ge=0, strict=True)
    train_options: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def lead(self) -> int:
        """How many steps the rollouts may be ahead of training: what is left over takes one step of `max_staleness`."""
        return max(self.max_staleness - bool(self.max_extra_groups), 0)

    @property
    def max_policy_age(self) -> int:
        """How many steps older than the weights what is trained on may be, by `max_staleness` or as surplus."""
        return self.lead + bool(self.max_extra_groups)

    @field_validator("max_exceptions")
    @classmethod
    def _is_count_or_share(cls, value: float | None) -> float | None:
        if value is not None and 1 < value < math.inf and not value.is_integer():
            raise ValueError("it is neither a count nor a share below 1")
        return value

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _refusal(error) from None


def _refusal(error: ValidationError) -> ConfigurationError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = list(TrainerSettings.model_fields)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
        return ConfigurationError(f"{name}={first['input']!r} is no setting", hint)
    context = first.get("ctx", {})
    hints = [wording.format(context[bound]) for bound, wording in _HINTS.items() if bound in context]
    is_whole = first["type"].startswith("int_")
    hint = next(iter(hints), "give a whole number" if is_whole else f"see {name} of TrainerSettings")
    return ConfigurationError(f"{name}={first['input']!r} is refused: {first['msg']}", hint)
