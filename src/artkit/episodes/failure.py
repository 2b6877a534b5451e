"""What went wrong in an episode: its kind, and a record that can be written down."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PureWindowsPath
from typing import Self

from artkit.bridge import error_chain
from artkit.episodes.code_rank import code_rank
from artkit.secrets import scrub

__all__ = ["FailureKind", "FailureRecord", "shorten"]

# A frame of a formatted traceback; those of an exception group stand behind bars.
_FRAME = re.compile(r'^[ |]*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)

# Some exceptions hold a whole page, or the request they were refused for; a thousand of them must fit into memory.
_MAX_MESSAGE = 4_000
_MAX_CAUSE = 500
_MAX_TRACEBACK = 32_000
_MAX_HEADLINE = 200
_MAX_LEAVES = 5

_LEFT_OUT = " … {} characters left out … "
_UNREADABLE = "its text cannot be read"


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

    Keys and passwords in it are scrubbed (`artkit.secrets`); the middle of a very long text is left out.

    Attributes:
        kind: Whose failure it was.
        type: The exception's class, by its qualified name.
        message: The exception's own text; of a group, those of what is in it.
        traceback: The formatted traceback, causes included.
        cause: What it came from in the end, such as `ConnectionRefusedError: [Errno 111] …`; "" where `message` says
            it, or nothing came before.
    """

    kind: FailureKind
    type: str
    message: str
    traceback: str = ""
    cause: str = ""

    @classmethod
    def from_exception(cls, error: BaseException, kind: FailureKind) -> Self:
        leaves = _leaves(error)
        # A group of one, and the cancellation that an error ended in, only stand before what happened.
        told = leaves[0] if len(leaves) == 1 else error
        message = _text(told) if len(leaves) == 1 else _listed(leaves)
        return cls(
            kind=kind,
            type=type(told).__qualname__,
            message=message,
            traceback=_formatted(error),
            cause="" if told is not leaves[0] else _root(told, message),
        )

    @property
    def where(self) -> str:
        """The line that raised it, such as `game.py:12 in step`; "" where no traceback is kept.

        Where a library raised it, or a deadline passed, it is the innermost line of the user's own code.
        """
        frames: list[tuple[str, str, str]] = _FRAME.findall(self.traceback)
        if not frames:
            return ""
        path, line, function = next((frame for frame in reversed(frames) if code_rank(frame[0]) == 0), frames[-1])
        # The name after either separator: a record may come from another machine.
        return f"{PureWindowsPath(path).name}:{line} in {function}"

    @property
    def headline(self) -> str:
        """Kind and text in one short line, such as `environment: ConnectionError: sandbox gone`."""
        return shorten(" ".join(f"{self.kind}: {self}".split()), _MAX_HEADLINE)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" + (f" (from {self.cause})" if self.cause else "")


def _text(error: BaseException) -> str:
    """Return the text of an exception, scrubbed and of bounded length; its `repr` where it has none."""
    try:
        return _own_text(error) or shorten(scrub(repr(error)), _MAX_MESSAGE)
    except Exception:  # noqa: BLE001  # a user's exception may be broken itself, and must still be told
        return _UNREADABLE


def shorten(text: str, most: int) -> str:
    """Return `text` with its middle left out where it is longer than `most` characters; scrub it before.

    >>> shorten("a" * 50 + "z" * 50, 40)
    'aaaaa … 90 characters left out … zzzzz'
    """
    if len(text) <= most:
        return text[:]  # a plain str, whatever a user's class of text is
    half = max(most - len(_LEFT_OUT.format(len(text))), 0) // 2
    return text[:half] + _LEFT_OUT.format(len(text) - 2 * half) + text[len(text) - half :]


def _own_text(error: BaseException) -> str:
    try:
        return shorten(scrub(str(error)), _MAX_MESSAGE)
    except Exception:  # noqa: BLE001  # as above
        return _UNREADABLE


def _leaves(error: BaseException) -> list[BaseException]:
    """Return what `error` tells of: the members of a group, and what a cancellation came from; never none."""
    found: list[BaseException] = []
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(reversed(link.exceptions))
        elif isinstance(link, asyncio.CancelledError) and (before := link.__cause__ or link.__context__) is not None:
            waiting.append(before)
        else:
            found.append(link)
    real = [leaf for leaf in found if not isinstance(leaf, asyncio.CancelledError)]
    return real or found or [error]


def _listed(leaves: list[BaseException]) -> str:
    counts = Counter(f"{type(leaf).__qualname__}: {_text(leaf)}" for leaf in leaves)
    texts = [text if count == 1 else f"{count} x {text}" for text, count in counts.most_common(_MAX_LEAVES)]
    if len(counts) > _MAX_LEAVES:
        texts.append(f"and {len(counts) - _MAX_LEAVES} others")
    return shorten("; ".join(texts), _MAX_MESSAGE)


def _root(error: BaseException, message: str) -> str:
    """Return the last link of what `error` came from, as text; "" where it says nothing that `message` does not.

    Where none has a text, as a bare assertion has not, it is its class.
    """
    links = [link for link in error_chain(error) if not isinstance(link, BaseExceptionGroup | asyncio.CancelledError)]
    for link in reversed(links[1:]):
        if text := _own_text(link):
            return "" if text in message else shorten(f"{type(link).__qualname__}: {text}", _MAX_CAUSE)
    names = [type(link).__qualname__ for link in reversed(links[1:]) if type(link) is not type(error)]
    return next((name for name in names if name not in message), "")


def _formatted(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(error)
    except Exception:  # noqa: BLE001  # as above
        return ""
    return shorten("".join(shorten(scrub(line), _MAX_MESSAGE) for line in lines), _MAX_TRACEBACK)
