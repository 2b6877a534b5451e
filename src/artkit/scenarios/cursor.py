"""The cursor: where the next batch starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from artkit.errors import ConfigurationError

__all__ = ["BEGINNING", "Cursor"]


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Where the next batch starts. Cursors are ordered as the run goes.

    Attributes:
        epoch: The epoch, from 0; always 0 in an open-ended source.
        position: How many scenarios of that epoch were handed out.

    Raises:
        ConfigurationError: If either is no whole number of 0 or more.

    >>> Cursor(epoch=0, position=6) < Cursor(epoch=1)
    True
    """

    epoch: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        for name in ("epoch", "position"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                msg = f"Cursor({name}={value!r}) is no whole number of 0 or more"
                raise ConfigurationError(msg, "Cursor() is the start of the data")

    def as_dict(self) -> dict[str, int]:
        """Return the cursor as JSON holds it."""
        return {"epoch": self.epoch, "position": self.position}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Return the cursor that `as_dict` wrote.

        Raises:
            ConfigurationError: If a key is missing or unknown, or a value is no whole number of 0 or more.
        """
        if set(data) != {"epoch", "position"}:
            msg = f"{data!r} is no cursor"
            raise ConfigurationError(msg, "a cursor has exactly two keys, as in {'epoch': 0, 'position': 0}")
        return cls(**dict(data))  # type: ignore[arg-type]  # __post_init__ checks the values


BEGINNING = Cursor()
