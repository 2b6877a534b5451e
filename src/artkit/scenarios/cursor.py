"""The cursor: where the next batch starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from artkit.errors import ConfigurationError

__all__ = ["BEGINNING", "Cursor"]


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Where the next batch starts. Cursors are ordered as the run goes.

    Attributes:
        epoch: The epoch, from 0; always 0 in an open-ended source.
        position: How many scenarios of that epoch were handed out.
        fingerprint: Tells which they were, in an open-ended source that can say so; else empty. Cursors of one place
            are equal whatever lies before it.

    Raises:
        ConfigurationError: If epoch or position is no whole number of 0 or more, or the fingerprint is no text.

    >>> Cursor(epoch=0, position=6) < Cursor(epoch=1)
    True
    """

    epoch: int = 0
    position: int = 0
    fingerprint: str = field(default="", kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("epoch", "position"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                msg = f"Cursor({name}={value!r}) is no whole number of 0 or more"
                raise ConfigurationError(msg, "Cursor() is the start of the data")
        if not isinstance(self.fingerprint, str):
            msg = f"Cursor(fingerprint={self.fingerprint!r}) is no text"
            raise ConfigurationError(msg, "leave it out where the source has none")

    def as_dict(self) -> dict[str, int | str]:
        """Return the cursor as JSON holds it."""
        place: dict[str, int | str] = {"epoch": self.epoch, "position": self.position}
        return place | ({"fingerprint": self.fingerprint} if self.fingerprint else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Return the cursor that `as_dict` wrote.

        Raises:
            ConfigurationError: If a key is missing or unknown, or a value is none that the cursor can have.
        """
        if set(data) - {"fingerprint"} != {"epoch", "position"}:
            msg = f"{data!r} is no cursor"
            raise ConfigurationError(msg, "a cursor has epoch and position, as in {'epoch': 0, 'position': 0}")
        return cls(**dict(data))  # type: ignore[arg-type]  # __post_init__ checks the values


BEGINNING = Cursor()
