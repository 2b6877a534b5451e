"""Which steps of the policy a group was sampled from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from artkit.bridge import step_of_name
from artkit.rollouts.asked import names_asked

if TYPE_CHECKING:
    import art

__all__ = ["PolicySteps", "policy_ages"]

_FIRST, _LAST = "policy_step", "policy_step_last"


class PolicySteps:
    """Knows which steps of the policy are sampled from by what is being played, and writes them into its groups.

    Where the model's inference name says its step, that is what counts: a rollout asks the same name to its end. Else
    it is the step that the run was at: when the gather began, and when it was over.
    """

    def __init__(self) -> None:
        self._since: int | None = None
        self._asked: Mapping[str, set[str]] = {}

    @contextlib.contextmanager
    def playing(self, step: Callable[[], int]) -> Iterator[Callable[[Iterable[art.TrajectoryGroup]], None]]:
        """Watch what is played inside; what is yielded writes the steps into the metadata of the groups of it.

        Args:
            step: Says the step of the run.
        """
        first = step()
        with names_asked() as asked:
            self._since, self._asked = first, asked
            try:
                yield lambda groups: _stamp(groups, asked, [first, step()])
            finally:
                self._since, self._asked = None, {}

    def in_use(self, current: int) -> frozenset[int]:
        """Return the steps that what is being played may ask to its end, when `current` is the newest."""
        if self._since is None:
            return frozenset()
        named = [step for names in self._asked.values() for step in _steps_in(names)]
        return frozenset([*range(self._since, current + 1), *named])


def policy_ages(
    groups: Iterable[art.TrajectoryGroup], step: int, *, most: int, warn: Callable[[str], None]
) -> dict[str, float]:
    """Return how many steps older than the weights the groups are, by `policy_age_mean` and `policy_age_max`.

    Nothing where they cannot be older, for then it is no news.

    Args:
        groups: What is trained on, each as old as the oldest weights that may have been sampled from.
        step: The step of the weights.
        most: How old they may be by the settings.
        warn: Who is told, in words, that one is older.
    """
    stamps = [group.metadata.get(_FIRST) for group in groups]
    ages = [step - first for first in stamps if isinstance(first, int)]
    if not most or not ages:
        return {}
    if (oldest := max(ages)) > most:
        warn(
            f"episodes that are {oldest} steps older than the weights of step {step} are trained on, and the settings "
            f"say {most} at most: a training has moved the weights by more than one step"
        )
    return {"policy_age_mean": fmean(ages), "policy_age_max": float(oldest)}


def _stamp(groups: Iterable[art.TrajectoryGroup], asked: Mapping[str, set[str]], otherwise: list[int]) -> None:
    for group in groups:
        steps = _steps_in(asked.get(str(group.metadata.get("scenario_id")), ())) or otherwise
        group.metadata[_FIRST] = min(steps)
        if max(steps) != min(steps):
            group.metadata[_LAST] = max(steps)


def _steps_in(names: Iterable[str]) -> list[int]:
    return [step for name in names if (step := step_of_name(name)) is not None]
