"""A batch of scenarios, and where it stands in the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from artkit.scenarios.cursor import Cursor

__all__ = ["ScenarioBatch"]

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioBatch(Generic[ItemT]):
    """The scenarios of one training step.

    Attributes:
        items: The scenarios, in order; never empty, and shorter than asked only at the end of an epoch or source.
        index: The number of the batch in the whole run, from 0; the same whether the run was resumed or not.
        epoch: The epoch the items belong to, from 0.
        cursor: Where the next batch starts. Keep it to resume.
        is_epoch_end: Whether this is the last batch of its epoch; never in an open-ended source.
    """

    items: tuple[ItemT, ...]
    index: int
    epoch: int
    cursor: Cursor
    is_epoch_end: bool
