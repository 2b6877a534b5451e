"""Many failures in one line: what they came from, by count."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

__all__ = ["by_count"]

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_WORD_WITH_DIGITS = re.compile(r"\w*\d\w*(?:[.:-]\w*\d\w*)*")


def by_count(causes: Mapping[str, int], *, most: int = 5) -> str:
    """Return `causes` in words, the most frequent first.

    Those that differ in numbers and ids alone are one, with `#` for what differs.

    Args:
        causes: How often each occurred, by its text, such as `FailureRecord.headline`.
        most: How many are named.

    >>> by_count(
    ...     {"environment: OSError: pod-1 gone": 2, "limit: OSError: full": 4, "environment: OSError: pod-7f gone": 3}
    ... )
    '5 x environment: OSError: pod-# gone; 4 x limit: OSError: full'
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for text, count in causes.items():
        form = _WORD_WITH_DIGITS.sub("#", _UUID.sub("#", text))
        alike[form].append(text)
        counts[form] += count
    named = [
        f"{count} x {alike[form][0] if len(alike[form]) == 1 else form}" for form, count in counts.most_common(most)
    ]
    if rest := counts.total() - sum(count for _, count in counts.most_common(most)):
        named.append(f"{rest} x something else")
    return "; ".join(named)
