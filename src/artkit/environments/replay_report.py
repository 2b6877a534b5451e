"""What a replay came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from artkit.errors import EnvironmentContractError

__all__ = ["Divergence", "ReplayReport", "SkippedEpisode"]


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where an environment answered otherwise than in a recording.

    Attributes:
        scenario_id: The scenario.
        member: The position in its group.
        turn: After which reply of the model, from 1; 0 is the start.
        what: What differs.
        expected: What was recorded, shortened.
        got: What came now, shortened.
    """

    scenario_id: str
    member: int
    turn: int
    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{_first_of([self])}, {_how(self)}"


@dataclass(frozen=True, kw_only=True)
class SkippedEpisode:
    """An episode that could not be replayed.

    Attributes:
        scenario_id: The scenario.
        member: The position in its group.
        why: What was missing.
    """

    scenario_id: str
    member: int
    why: str

    def __str__(self) -> str:
        return f"scenario {self.scenario_id!r}, member {self.member}: skipped: {self.why}"


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What a replay came to; it prints as a report to read.

    Attributes:
        divergences: The first divergence of each episode that has one.
        replayed: How many episodes were replayed.
        skipped: Episodes that could not be.
    """

    divergences: tuple[Divergence, ...] = ()
    replayed: int = 0
    skipped: tuple[SkippedEpisode, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every episode was replayed, and none diverged."""
        return not self.divergences and not self.skipped

    def raise_if_broken(self) -> None:
        """Do nothing where all is well.

        Raises:
            EnvironmentContractError: An episode diverged, or could not be replayed; the message names the first.
        """
        if first := next(iter((*self.divergences, *self.skipped)), None):
            raise EnvironmentContractError(
                f"{self._head}; {first}", "mend the environment, or record anew where the change was meant"
            )

    def __str__(self) -> str:
        alike: dict[str, list[Divergence]] = {}
        for divergence in self.divergences:
            alike.setdefault(_how(divergence), []).append(divergence)
        diverged = [f"{_first_of(them)}, {how}" for how, them in alike.items()]
        return "\n".join([self._head, *diverged, *map(str, self.skipped)])

    @property
    def _head(self) -> str:
        return f"{_episodes(self.replayed)} replayed, {len(self.divergences)} diverged, {len(self.skipped)} skipped"


def _first_of(divergences: Sequence[Divergence]) -> str:
    # A change of the prompt or a tool meets every member of every group in the same way.
    others = f" (and {_episodes(len(divergences) - 1)} more)" if len(divergences) > 1 else ""
    return f"scenario {divergences[0].scenario_id!r}, member {divergences[0].member}{others}"


def _how(divergence: Divergence) -> str:
    differ = "differ" if divergence.what.endswith("s") else "differs"
    expected, got = f"    expected {divergence.expected}", f"    got      {divergence.got}"
    return f"turn {divergence.turn}: {divergence.what} {differ}\n{expected}\n{got}"


def _episodes(count: int) -> str:
    return f"{count} episode{'' if count == 1 else 's'}"
