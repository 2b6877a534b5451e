"""What a backend's `train` takes, which differs by backend and ART version."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

__all__ = ["TrainOptions", "train_options"]

# The model and its groups come first, under whatever name.
_LEADING_ARGUMENTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """The keyword options of a backend's `train`.

    Attributes:
        names: The options it names, besides the model and the groups.
        accepts_any: Whether it takes further ones unchecked (`**kwargs`), so that a wrong name is not found before
            the first step.
    """

    names: frozenset[str]
    accepts_any: bool


def train_options(backend: Any) -> TrainOptions:
    """Return what `backend.train(model, groups, …)` takes, read from its signature."""
    parameters = list(inspect.signature(backend.train).parameters.values())
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return TrainOptions(
        names=frozenset(p.name for p in parameters[_LEADING_ARGUMENTS:] if p.kind in by_keyword),
        accepts_any=any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters),
    )
