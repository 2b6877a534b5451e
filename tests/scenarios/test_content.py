"""The digest of a content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artkit.scenarios.content import content_digest

rows = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True)
class Point:
    x: int
    tags: frozenset[str] = frozenset()


def turned(value: Any) -> Any:
    """The same content, with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(rows, rows)
def test_digests_are_equal_exactly_where_the_content_is(one: Any, other: Any) -> None:
    """Ids are made of it, and duplicates found by it; the order of keys does not count, 1 is not 1.0."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert content_digest(one) == content_digest(turned(one))
    assert (content_digest(one) == content_digest(other)) == same


def test_objects_are_their_fields_and_addresses_do_not_count() -> None:
    """A digest that changes with the process can't be resumed from."""
    assert content_digest(Point(1, frozenset("ab"))) == content_digest(Point(1, frozenset("ba")))
    assert content_digest(Point(1)) != content_digest(Point(2))
    assert content_digest(object()) == content_digest(object())
    assert content_digest(partial(turned, [])) == content_digest(partial(turned, []))
