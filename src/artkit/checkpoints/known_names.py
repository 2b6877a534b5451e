"""What was logged, for somebody who asked for a metric that was not."""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = ["known_names", "nearest_name"]

_MANY = 8
# "val/rewards" is near to "val/reward", "train/reward" is not.
_NEAR = 0.8


def nearest_name(metric: str, names: Collection[str]) -> str | None:
    """Return the one of `names` that `metric` is a misspelling of, or None.

    >>> nearest_name("val/rewards", {"val/reward", "val/won"}), nearest_name("val/reward", {"train/reward"})
    ('val/reward', None)
    """
    if metric in names:
        return None
    return next(iter(difflib.get_close_matches(metric, sorted(names), n=1, cutoff=_NEAR)), None)


def known_names(metric: str, names: Collection[str]) -> str:
    """Return in words what is there: of validation and of the split of `metric`, the nearest names if there are many.

    >>> known_names("val/won", {"val/reward", "train/reward", "train/won"})
    'val/reward and 2 others'
    >>> known_names("val/won", {"train/reward"}), known_names("val/won", ())
    ('no val/… but 1 other', 'nothing')
    """
    if not names:
        return "nothing"
    split = metric.partition("/")[0] if "/" in metric else "val"
    telling = sorted(name for name in names if name.partition("/")[0] in {split, "val"})
    shown = sorted(difflib.get_close_matches(metric, telling, n=_MANY, cutoff=0.0))
    others = len(names) - len(shown)
    rest = f"{others} other" if others == 1 else f"{others} others"
    if not shown:
        return f"no {split}/… but {rest}"
    return ", ".join(shown) + (f" and {rest}" if others else "")
