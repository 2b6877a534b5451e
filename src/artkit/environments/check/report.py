"""The report of a check: what was broken, and what could not be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.errors import EnvironmentContractError

if TYPE_CHECKING:
    from artkit.environments.check.finding import EnvironmentFinding

__all__ = ["EnvironmentReport"]


@dataclass(frozen=True, kw_only=True)
class EnvironmentReport:
    """What `check_environment` found; it prints as a report to read.

    Attributes:
        environment: The name of what was checked.
        findings: The broken promises, each once.
        notes: What is worth knowing and breaks no promise, and what was not looked at.
        scenarios: How many scenarios were played.
        plays: How many episodes were played.
    """

    environment: str
    findings: tuple[EnvironmentFinding, ...] = ()
    notes: tuple[str, ...] = ()
    scenarios: int = 0
    plays: int = 0

    @property
    def ok(self) -> bool:
        """Whether no promise was found broken."""
        return not self.findings

    def raise_if_broken(self) -> None:
        """Do nothing where all is well.

        Raises:
            EnvironmentContractError: A promise is broken; the message is that of the first finding.
        """
        if self.findings:
            first = self.findings[0]
            evidence = f": {first.evidence}" if first.evidence else ""
            values = f": expected {first.expected}, got {first.got}" if first.expected or first.got else ""
            raise EnvironmentContractError(
                f"{self.environment} breaks a promise ({first.code}). {first.promise} In {first.where}, "
                f"{first.what}{values}. Likely cause: {first.cause}{evidence}",
                first.hint,
            )

    def __str__(self) -> str:
        count = len(self.findings)
        verdict = "keeps its promises" if self.ok else f"{count} broken promise{'s' if count > 1 else ''}"
        played = f"{_count(self.plays, 'episode')} of {_count(self.scenarios, 'scenario')} played"
        blocks = [f"{self.environment}: {verdict} ({played})", *map(str, self.findings)]
        if self.notes:
            blocks.append("\n".join(["notes:", *(f"  - {note}" for note in self.notes)]))
        return "\n\n".join(blocks)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
