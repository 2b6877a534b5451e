"""The schedule that is never due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.validation.schedule import ValidationSchedule

if TYPE_CHECKING:
    from artkit.validation.progress import Progress

__all__ = ["Never"]


@dataclass(frozen=True, slots=True)
class Never(ValidationSchedule):
    """Never due: validation runs only where `trainer.evaluate()` is called."""

    def due(self, progress: Progress) -> bool:
        del progress
        return False
