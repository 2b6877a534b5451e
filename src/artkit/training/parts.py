"""What a run is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from artkit.bridge import step_of_checkpoint, storage_dir
from artkit.rewards import RewardAdapter
from artkit.rollouts import rollouts_of
from artkit.scenarios.content import content_digest
from artkit.secrets import scrub

if TYPE_CHECKING:
    from pathlib import Path

    import art

    from artkit.checkpoints import CheckpointPolicy
    from artkit.rewards import GroupFilter
    from artkit.rollouts import AnyRollout, GroupReward
    from artkit.tracking import Tracker
    from artkit.training.feed import Feed
    from artkit.training.settings import TrainerSettings
    from artkit.training.stopping import StopCondition
    from artkit.training.validation import Validation

__all__ = ["OWN_DIR", "Parts", "Resume", "is_relative"]

OWN_DIR = "artkit"

Resume = Literal["auto", "never", "require"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of, checked and completed: no field is left to a default any more."""

    model: art.TrainableModel[Any, Any]
    backend: Any
    rollout: AnyRollout
    feed: Feed
    reward: GroupReward
    validations: tuple[Validation, ...]
    checkpoint_policy: CheckpointPolicy
    policy_reason: str
    filters: GroupFilter | None
    stop_when: StopCondition | None
    trackers: Sequence[Tracker]
    resume: Resume
    settings: TrainerSettings

    @property
    def history_path(self) -> Path:
        """ART's history of the model."""
        return storage_dir(self.model) / "history.jsonl"

    @property
    def own_dir(self) -> Path:
        """Where artkit keeps the journal and the recordings of the run."""
        return storage_dir(self.model) / OWN_DIR

    def in_use(self, current: int) -> frozenset[int]:
        """Return the steps whose checkpoints the training options refer to, or will, when `current` is the newest."""
        options = self.settings.train_options
        steps = [options.get("kl_penalty_reference_step")]
        if (path := options.get("kl_ref_adapter_path")) is not None:
            steps.append(step_of_checkpoint(self.model, path))
        # The reference follows the newest step at this distance, and passes over each step between.
        steps += range(current - int(options.get("kl_penalty_step_lag") or 0), current + 1)
        return frozenset(max(int(step), 0) for step in steps if step is not None)

    @property
    def played(self) -> list[tuple[AnyRollout, Sequence[Any]]]:
        """What is played by which rollout, as far as it is known beforehand: training, then each validation."""
        validated = [(validation.rollout or self.rollout, validation.selected) for validation in self.validations]
        return [(self.rollout, self.feed.scenarios), *validated]

    def reward_of(self, validation: Validation) -> GroupReward:
        return validation.reward or self.reward

    def fingerprint(self) -> dict[str, Any]:
        """What must not change when a run is resumed: what decides the batches and how they are trained on.

        Timeouts are not among it: a longer one is how a run is mended.
        """
        settings = self.settings
        plays: dict[str, Any] = {}
        for task, rollout in rollouts_of(self.rollout).items():
            of = f" of {task}" if task else ""
            plays |= {f"sampling{of}": _fields(rollout.sampling), f"max_turns{of}": rollout.limits.max_turns}
        if settings.max_extra_groups:
            plays["max_extra_groups"] = settings.max_extra_groups
        return plays | {
            "data": self.feed.fingerprint,
            "base_model": self.model.base_model,
            "seed": settings.seed,
            "groups_per_step": settings.groups_per_step,
            "rollouts_per_group": settings.rollouts_per_group,
            "learning_rate": settings.learning_rate,
            "train_options": {name: _words(value) for name, value in sorted(settings.train_options.items())},
            **self._ranked_by(),
        }

    def _ranked_by(self) -> dict[str, Any]:
        """The sets that checkpoints are ranked by: values of another cannot be compared with those in the history."""
        found: dict[str, Any] = {"val": None}
        for number, validation in enumerate(self.validations):
            name = "val" if number == 0 else f"val/{validation.name}"
            if number and not any(metric.startswith(f"{name}/") for metric in self.checkpoint_policy.ranks_by):
                continue
            digest = content_digest([content_digest(item) for item in validation.selected])
            sampling = None if validation.sampling is None else _fields(validation.sampling)
            plays = [validation.rollouts_per_scenario, sampling]
            found[name] = f"{len(validation.selected)} scenarios {digest[:16]}, played {plays!r}"
        return found


def is_relative(reward: GroupReward) -> bool:
    """Whether a score of `reward` means something only beside its siblings' scores."""
    return isinstance(reward, RewardAdapter) and reward.relative


def _fields(value: Any) -> dict[str, str]:
    return {field.name: _words(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _words(value: Any) -> str:
    """Return `value` as text that is the same in every process: plain values as they are, others by their content."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return scrub(repr(value)) if plain else f"{type(value).__name__} {content_digest(value)[:16]}"
