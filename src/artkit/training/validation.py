"""A validation: which scenarios are played when, and how they are graded."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.rollouts import Sampling
from artkit.training.type_checks import check_type
from artkit.validation import AtEnd, Every, ValidationSchedule

if TYPE_CHECKING:
    from artkit.rollouts import AnyRollout, GroupReward
    from artkit.scenarios import Scenario

__all__ = ["Validation"]


@dataclasses.dataclass(frozen=True)
class Validation:
    """Held-out scenarios, played at the steps that `schedule` names; always the same ones, in the same order.

    The first validation of a trainer is logged as ART's split "val", so that `val/reward` is there to rank
    checkpoints by; further ones are logged as metrics `val/<name>/…`.

    Args:
        scenarios: The held-out scenarios; none may be in the training data.
        schedule: When to validate.
        max_scenarios: A cap on their number. Which ones are taken follows from their ids, so it is always the same
            ones, and growing the data replaces few. None takes all.
        rollouts_per_scenario: None means 1, or the trainer's `rollouts_per_group` for a relative reward, which says
            something only beside siblings.
        rollout: None is the trainer's own.
        reward: None is the trainer's own.
        sampling: How replies are sampled, such as `Sampling(temperature=0)`; None is as the rollout says. Without a
            seed in either, the trainer's is used.
        name: Names the set in the log.
        pass_at: The k of each pass@k that is logged, where at least 90 % of the scenarios have k scored rollouts; each
            needs as many rollouts per scenario. None: where a scenario is played more than once, and rewards are 0 or 1
            or `success_threshold` was given, 1, 2, 4, … up to the rollouts of a scenario.
        success_threshold: A reward of at least this is a success, for pass@k.

    Raises:
        ConfigurationError: No scenarios, a value out of its range, or a part that cannot work.
    """

    scenarios: Sequence[Scenario]
    _: dataclasses.KW_ONLY
    schedule: ValidationSchedule = dataclasses.field(default_factory=lambda: Every(10) | AtEnd())
    max_scenarios: int | None = 64
    rollouts_per_scenario: int | None = None
    rollout: AnyRollout | None = None
    reward: GroupReward | None = None
    sampling: Sampling | None = None
    name: str = "val"
    pass_at: Sequence[int] | None = None
    success_threshold: float = 1.0

    def __post_init__(self) -> None:
        if not self.scenarios:
            raise ConfigurationError("scenarios=[] leaves nothing to validate on", "give some, or leave validation out")
        twice = [name for name, count in Counter(item.id for item in self.scenarios).items() if count > 1]
        if twice:
            raise ConfigurationError(
                f"{len(twice)} ids come twice among the scenarios, such as {twice[0]!r}",
                "give each scenario an id of its own: results are compared by it",
            )
        check_type("schedule", self.schedule)
        for name in ("rollout", "reward"):
            if (part := getattr(self, name)) is not None:
                check_type(name, part)
        for name in ("max_scenarios", "rollouts_per_scenario"):
            value = getattr(self, name)
            if value is not None and not _is_positive(value):
                raise ConfigurationError(f"{name}={value!r} is not positive", "give a whole number from 1, or None")
        if self.sampling is not None and not isinstance(self.sampling, Sampling):
            raise ConfigurationError(f"sampling={self.sampling!r} is no Sampling", "give Sampling(temperature=…)")
        self._check_passes()
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise ConfigurationError(f"name={self.name!r} is no name for a metric", "use letters, digits, _, . and -")

    def _check_passes(self) -> None:
        passes, most, threshold = self.pass_at, self.rollouts_per_scenario, self.success_threshold
        if passes is not None and (isinstance(passes, str) or not isinstance(passes, Sequence)):
            raise ConfigurationError(f"pass_at={passes!r} is no sequence", f"give ({passes!r},)")
        for k in passes or ():
            if not _is_positive(k) or (most is not None and k > most):
                limit = "" if most is None else f" to rollouts_per_scenario={most}"
                raise ConfigurationError(f"pass_at={k!r} cannot be estimated", f"give whole numbers from 1{limit}")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
            raise ConfigurationError(
                f"success_threshold={threshold!r} is no finite number", "give a reward, such as 1.0"
            )

    @property
    def selected(self) -> tuple[Any, ...]:
        """The scenarios that are played, in the order they were given."""
        if self.max_scenarios is None or len(self.scenarios) <= self.max_scenarios:
            return tuple(self.scenarios)
        ranked = sorted(self.scenarios, key=lambda item: hashlib.sha256(item.id.encode()).digest())
        chosen = {item.id for item in ranked[: self.max_scenarios]}
        return tuple(item for item in self.scenarios if item.id in chosen)


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
