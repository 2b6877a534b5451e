"""The digest of a content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
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


def test_arrays_are_the_numbers_in_them() -> None:
    """The repr of a long one leaves out its middle, and two tasks would be one."""
    numbers = list(range(2_000))
    other = [*numbers[:1_000], -1, *numbers[1_001:]]

    assert content_digest({"x": np.array(numbers)}) == content_digest({"x": numbers})
    assert content_digest({"x": np.array(numbers)}) != content_digest({"x": np.array(other)})
    assert content_digest([np.float64(0.5), np.int64(3), np.str_("é")]) == content_digest([0.5, 3, "é"])


def test_pictures_are_their_pixels() -> None:
    """Data of pictures often has one prompt for all of them."""
    image = pytest.importorskip("PIL.Image")
    red, green = (image.new("RGB", (2, 2), color) for color in ("red", "green"))

    assert content_digest({"image": red}) == content_digest({"image": red.copy()})
    assert content_digest({"image": red}) != content_digest({"image": green})


def test_a_digest_is_the_same_in_every_version_of_python() -> None:
    """Which letters a repr shows as they are follows the Unicode tables of the interpreter; this one is new in 3.12."""
    assert content_digest("\U0001fae8") == "51a33ad815624d9ef7d060719eec0bac2fb33392eba63d6df636e5360036de29"


def test_what_is_nested_too_deep_is_refused() -> None:
    """And not a crash of whatever asked."""
    value: Any = 0
    for _ in range(5_000):
        value = [value]

    with pytest.raises(ConfigurationError, match="a list is nested too deep"):
        content_digest(value)
