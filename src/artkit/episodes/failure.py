"""What went wrong in an episode: its kind, and a record that can be written down."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

__all__ = ["FailureKind", "FailureRecord"]

# A frame of a formatted traceback; those of an exception group stand behind bars.
_FRAME = re.compile(r'^[ |]*File "(?:.*[/\\])?(.+)", line (\d+), in (.+)$', re.MULTILINE)


class FailureKind(StrEnum):
    """Whose failure it was; `FailurePolicy` decides what follows from each."""

    TOOL = "tool"
    LIMIT = "limit"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"
    REWARD = "reward"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """An exception as plain text: it can be pickled, logged and read back, which exceptions often cannot.

    Attributes:
        kind: Whose failure it was.
        type: The exception's class, by its qualified name.
        message: The exception's own text.
        traceback: The formatted traceback, causes included.
    """

    kind: FailureKind
    type: str
    message: str
    traceback: str = ""

    @classmethod
    def from_exception(cls, error: BaseException, kind: FailureKind) -> Self:
        return cls(
            kind=kind,
            type=type(error).__qualname__,
            message=_text(error),
            traceback="".join(traceback.format_exception(error)),
        )

    @property
    def where(self) -> str:
        """The line that raised it, such as `game.py:12 in step`; "" where no traceback is kept."""
        frames = _FRAME.findall(self.traceback)
        return "{}:{} in {}".format(*frames[-1]) if frames else ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


def _text(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except Exception:  # noqa: BLE001  # a user's exception may be broken itself, and must still be told
        return "its text cannot be read"
