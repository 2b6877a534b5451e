"""The report of a check: what was broken, and what was not looked at."""

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
        notes: What is worth knowing and breaks no promise.
        left_out: What was not looked at, and why.
        scenarios: How many scenarios were played.
        plays: How many episodes were played.
    """

    environment: str
    findings: tuple[EnvironmentFinding, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
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
            raise EnvironmentContractError(
                f"{self.environment} breaks a promise ({first.code}). {first.summary}", first.hint
            )

    def __str__(self) -> str:
        count = len(self.findings)
        verdict = "keeps its promises" if self.ok else f"{count} broken promise{'s' if count > 1 else ''}"
        played = f"{_count(self.plays, 'episode')} of {_count(self.scenarios, 'scenario')} played"
        blocks = [f"{self.environment}: {verdict} ({played})", *map(str, self.findings)]
        for title, texts in (("notes", self.notes), ("not looked at", self.left_out)):
            if texts:
                blocks.append("\n".join([f"{title}:", *(f"  - {text}" for text in texts)]))
        return "\n\n".join(blocks)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
