"""The rows of a Hugging Face dataset, or of anything that yields mappings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["one_split", "read_rows"]


def one_split(dataset: Any, split: str | None) -> Any:
    """Return what holds the rows.

    Raises:
        ConfigurationError: If `split` is needed and names none, or is not needed, or there are no rows.
    """
    if not isinstance(dataset, Mapping):
        if split is not None:
            msg = f"split={split!r}: the dataset holds no splits"
            raise ConfigurationError(msg, "leave split= out, or give the whole DatasetDict")
        if not isinstance(dataset, Iterable):
            msg = f"{dataset!r} can't be iterated over"
            raise ConfigurationError(msg, "give a Dataset or an iterable of mappings")
        return dataset
    names = ", ".join(map(repr, dataset)) or "none"
    if split is None:
        msg = f"the dataset holds several splits: {names}"
        raise ConfigurationError(msg, f"say which one, as in split={next(iter(dataset), 'train')!r}")
    if split not in dataset:
        raise ConfigurationError(f"split={split!r} is no split of the dataset", f"its splits are {names}")
    return dataset[split]


def read_rows(dataset: Any, start: int) -> Iterator[tuple[str, Any]]:
    """Yield the rows from `start` on, with the words that say where they stand."""
    # A Hugging Face dataset passes over rows without decoding them.
    rows = dataset.skip(start) if start and hasattr(dataset, "skip") else islice(dataset, start, None)
    return ((f"row {number}", row) for number, row in enumerate(rows, start=start))
