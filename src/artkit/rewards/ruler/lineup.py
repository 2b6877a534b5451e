"""The line-up: the distinct transcripts of a group, and the order in which a judge sees them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.errors import RewardError
from artkit.rewards.ruler.transcript import Transcript, read_transcript

if TYPE_CHECKING:
    import art

__all__ = ["Lineup"]


@dataclass(frozen=True, slots=True)
class Lineup:
    """The distinct transcripts of a group.

    Attributes:
        transcripts: By the id that a judge knows each under: "1", "2", … in the order of the members.
        members: For each member the id of its transcript, or the reason why it has none.
    """

    transcripts: dict[str, Transcript]
    members: tuple[str | RewardError, ...]

    @classmethod
    def of(cls, trajectories: Sequence[art.Trajectory]) -> Lineup:
        """Read the members of a group; equal ones share one id."""
        transcripts: dict[str, Transcript] = {}
        ids: dict[str, str] = {}
        members: list[str | RewardError] = []
        for trajectory in trajectories:
            try:
                transcript = read_transcript(trajectory)
            except RewardError as error:
                members.append(error)
                continue
            except Exception as error:  # noqa: BLE001  # whatever is odd about one member, its siblings are not
                problem = f"it cannot be read: {type(error).__name__}: {error}"
                members.append(RewardError(problem, "see what is odd about its messages"))
                continue
            name = ids.setdefault(transcript.digest, str(len(ids) + 1))
            transcripts.setdefault(name, transcript)
            members.append(name)
        return cls(transcripts, tuple(members))

    @property
    def reason_not_to_judge(self) -> str | None:
        """Why there is nothing to compare, or None."""
        if len(self.transcripts) > 1:
            return None
        readable = sum(isinstance(member, str) for member in self.members)
        if readable > 1:
            return f"not judged: all {readable} transcripts are the same, so there is nothing to compare"
        return f"not judged: {readable} of {len(self.members)} members can be judged, and it takes two to compare"

    @property
    def tools(self) -> Any:
        """The tools that were on offer, or None."""
        return next((transcript.tools for transcript in self.transcripts.values() if transcript.tools), None)

    @property
    def digest(self) -> str:
        """The same for the same transcripts in any order."""
        digests = sorted(transcript.digest for transcript in self.transcripts.values())
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def order(self, seed: int | None, *, is_reversed: bool = False) -> list[str]:
        """Return the ids in the order of presentation, which depends on the seed and on what is compared only.

        Args:
            seed: Shuffles; None leaves the transcripts in the order of the members.
            is_reversed: Whether to turn the order round.
        """
        ids = list(self.transcripts)
        if seed is not None:
            ids.sort(key=lambda name: self.transcripts[name].digest)
            random.Random(f"{seed} {self.digest}").shuffle(ids)
        return ids[::-1] if is_reversed else ids
