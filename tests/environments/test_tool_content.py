"""What a tool returned, as the model sees it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from artkit.environments import ToolResult
from artkit.environments.messages import as_messages
from artkit.environments.tools.content import as_content
from artkit.errors import EnvironmentContractError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda values: st.lists(values) | st.dictionaries(st.text(st.characters(codec="utf-8")), values),
    max_leaves=10,
)


class Colour(enum.Enum):
    RED = "red"


class Loud(str, enum.Enum):  # noqa: UP042  # the older way, whose str() is "Loud.YES"
    YES = "yes"


class Book(BaseModel):
    title: str
    year: int | None = None


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is", "as it is"),
        ('{"a": 1}', '{"a": 1}'),
        (None, ""),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        ({"größe": (1, 2)}, '{"größe": [1, 2]}'),
        ([], "[]"),
        ([{"type": "file", "name": "a.txt"}], '[{"type": "file", "name": "a.txt"}]'),
        ([{"type": ["text"]}], '[{"type": ["text"]}]'),
        ({"type": "text", "value": 1}, '{"type": "text", "value": 1}'),
        ([{"type": "house", "price": 1}], '[{"type": "house", "price": 1}]'),
        (Book(title="Emma"), '{"title": "Emma", "year": null}'),
        ([Book(title="Emma", year=1815)], '[{"title": "Emma", "year": 1815}]'),
        (Point(1), '{"x": 1}'),
        (Colour.RED, "red"),
        (Loud.YES, "yes"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (Decimal("1.50"), "1.50"),
        (np.float64(0.5), "0.5"),
        ({"xs": np.arange(2)}, '{"xs": [0, 1]}'),
        ({1: {2}}, '{"1": [2]}'),
    ],
)
def test_a_text_stays_a_text_and_anything_else_becomes_json(value: Any, content: str) -> None:
    """A model reads text; quotes around a text, or Python's own spelling, would only puzzle it."""
    assert as_content(value, "the tool") == content


@given(JSON)
def test_json_data_can_be_read_back(value: Any) -> None:
    """Nothing of it is lost on the way."""
    content = as_content(value, "the tool")

    assert json.loads(content or "null") == value  # type: ignore[arg-type]  # no blocks are made here


def test_blocks_with_a_picture_stay_blocks() -> None:
    """A picture that became text is a picture lost."""
    blocks = [{"type": "text"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]

    assert as_content(blocks, "the tool") == blocks
    assert as_content(blocks[1], "the tool") == [blocks[1]]


def test_half_a_character_can_be_sent() -> None:
    """Tools cut their output anywhere, also inside of JSON."""
    content = as_content({"text": "cut \ud83d"}, "the tool")
    [message] = as_messages([{"role": "tool", "tool_call_id": "1", "content": content}], "step()")

    assert message["content"] == '{"text": "cut \ufffd"}'


@pytest.mark.parametrize("value", [object(), {"f": print}, [lambda: None]])
def test_what_is_neither_text_nor_json_is_named(value: Any) -> None:
    """Its `repr` would be sent, addresses and all, and no episode could be replayed."""
    with pytest.raises(EnvironmentContractError, match=r"the tool 'look' returned .*, which is neither text nor JSON"):
        as_content(value, "the tool 'look'")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"reward": None}, "a ToolResult has reward=None"),
        ({"reward": float("nan")}, "a ToolResult has reward=nan"),
        ({"metrics": {"calls": "many"}}, "a ToolResult has calls='many'"),
    ],
)
def test_a_result_with_a_number_that_is_none_is_refused(arguments: Any, problem: str) -> None:
    """A missing reward is an error and never 0."""
    with pytest.raises(EnvironmentContractError) as refused:
        ToolResult("x", **arguments)

    assert refused.value.problem == problem


@pytest.mark.parametrize("value", [b"\xff" * 1_000_000, [[object()] * 100_000]], ids=["bytes", "list"])
def test_what_is_refused_is_shown_in_short(value: Any) -> None:
    """A file of megabytes would go into every log and recording of the failure."""
    with pytest.raises(EnvironmentContractError) as refused:
        as_content(value, "the tool")

    assert len(str(refused.value)) < 500
