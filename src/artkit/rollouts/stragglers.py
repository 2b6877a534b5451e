"""The rollouts of a gather that went on after they were cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.transport import Straggler

__all__ = ["Stragglers"]


@dataclass
class Stragglers:
    """Who went on, and what that came to.

    By itself, and no part of the gather: what was given up keeps its context for as long as it runs, and in that whom
    it tells. So it must not lead to the episodes of all others.

    Attributes:
        abandoned: The names of those that were given up, or something of which was.
        late_results: How many results were discarded.
    """

    abandoned: list[str] = field(default_factory=list)
    late_results: int = 0

    def note_of(self, name: str) -> Callable[[Straggler], None]:
        """Return what takes in that the rollout `name` went on."""
        is_abandoned = False

        def note(straggler: Straggler) -> None:
            nonlocal is_abandoned
            self.late_results += straggler.has_result
            # Its play may go on and its `close` too, and so may what was played in its place.
            if straggler.is_running and not is_abandoned:
                is_abandoned = True
                self.abandoned.append(name)

        return note
