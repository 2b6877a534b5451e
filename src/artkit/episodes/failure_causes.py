"""Many failures in one line: what they came from, by count."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

__all__ = ["by_count"]

_WORD = r"(?:\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\w*\d\w*)"  # a UUID may be without digits
# These say what happened, and not to whom.
_CODE = r"(?:\b|_)(?:code|status|HTTP(?:/\d(?:\.\d)?)?|Errno)[ :=]{1,2}\d{1,3}\b(?![.:-]?\w*\d)"
_VARIABLE = re.compile(rf"({_CODE}|\b{_WORD}(?:[.:-]{_WORD})*)")
_IS_CODE = re.compile(_CODE)


def by_count(causes: Mapping[str, int], *, most: int = 5) -> str:
    """Return `causes` in words, the most frequent first.

    Those that differ in numbers and ids alone are one, with `#` for what differs. Another status or error code is
    another cause.

    Args:
        causes: How often each occurred, by its text, such as `FailureRecord.headline`.
        most: How many are named.

    >>> by_count(
    ...     {"environment: OSError: pod-1 gone": 2, "limit: OSError: full": 4, "environment: OSError: pod-7f gone": 3}
    ... )
    '5 x environment: OSError: pod-# gone; 4 x limit: OSError: full'
    """
    alike: defaultdict[tuple[str | None, ...], list[list[str]]] = defaultdict(list)
    counts: Counter[tuple[str | None, ...]] = Counter()
    for text, count in causes.items():
        parts = _VARIABLE.split(text)  # every second one may vary
        form = tuple(part if place % 2 == 0 or _IS_CODE.fullmatch(part) else None for place, part in enumerate(parts))
        alike[form].append(parts)
        counts[form] += count
    named = [f"{count} x {_joined(alike[form])}" for form, count in counts.most_common(most)]
    if rest := counts.total() - sum(count for _, count in counts.most_common(most)):
        named.append(f"{rest} x something else")
    return "; ".join(named)


def _joined(texts: list[list[str]]) -> str:
    """Return texts of one form, given in parts, as one."""
    return "".join(parts[0] if len(set(parts)) == 1 else "#" for parts in zip(*texts, strict=True))
