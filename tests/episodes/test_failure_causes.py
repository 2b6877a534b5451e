"""Many failures in one line."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes.failure_causes import by_count


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ({}, ""),
        ({"a": 3, "b": 41}, "41 x b; 3 x a"),
        ({"port 80 refused": 2, "port 81 refused": 1}, "3 x port # refused"),
        ({"port 80 refused": 2}, "2 x port 80 refused"),
        ({"no [Errno 2] at 10.0.0.1:80": 1, "no [Errno 2] at 10.0.0.2:81": 1}, "2 x no [Errno 2] at #"),
        ({"turn 3 took longer than 2 s": 1, "turn 12 took longer than 2 s": 1}, "2 x turn # took longer than 2 s"),
        (
            {
                "pod 123e4567-e89b-12d3-a456-426614174000 gone": 1,
                "pod deadbeef-dead-beef-dead-beefdeadbeef gone": 1,
            },
            "2 x pod # gone",
        ),
        (
            {
                "pod1-123e4567-face-12d3-a456-426614174000 gone": 1,
                "pod1-123e4567-e89b-12d3-a456-426614174000 gone": 1,
            },
            "2 x # gone",
        ),
        ({"a # b": 1, "a 1 b": 1, "a 2 b": 1}, "2 x a # b; 1 x a # b"),
        ({"KeyError: 'door'": 2, "KeyError: 'key'": 1}, "2 x KeyError: 'door'; 1 x KeyError: 'key'"),
        (
            {"a": 8, "b": 7, "c": 6, "d": 5, "e": 4, "f": 3, "g": 2},
            "8 x a; 7 x b; 6 x c; 5 x d; 4 x e; 5 x something else",
        ),
    ],
)
def test_causes_are_told_by_count_and_ids_do_not_tell_them_apart(causes: dict[str, int], text: str) -> None:
    """Forty sandboxes that are gone are one thing to mend, and it stands first."""
    assert by_count(causes) == text


@pytest.mark.parametrize(
    "text",
    [
        "RateLimitError: Error code: {} - {{'id': '#'}}",
        "the sandbox # answered with status {}",
        "request #: status_code={}: try later",
        "HTTP {}: busy, see #",
        "HTTP/1.1 {} after # s",
        "OSError: [Errno {}] '/srv/#'",
        "pod # left with exit code {}.",
    ],
)
def test_codes_tell_causes_apart(text: str) -> None:
    """Whether a server is overloaded or broken, a disk full or a file missing, is mended in different ways."""
    codes = {28: 4, 2: 3, 503: 2}
    causes = {text.format(code).replace("#", str(n)): 1 for code, count in codes.items() for n in range(70, 70 + count)}

    assert by_count(causes) == "; ".join(f"{count} x {text.format(code)}" for code, count in codes.items())


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ({"code: 83742 gone": 1, "code: 83743 gone": 1}, "2 x code: # gone"),
        ({"status 10.0.0.1 gone": 1, "status 10.0.0.2 gone": 1}, "2 x status # gone"),
    ],
)
def test_what_only_stands_where_a_code_may_is_none(causes: dict[str, int], text: str) -> None:
    """An order's number, an address."""
    assert by_count(causes) == text


@given(st.dictionaries(st.text("abx01 :", max_size=12), st.integers(1, 99), max_size=20))
def test_no_failure_is_left_out_of_the_sum(causes: dict[str, int]) -> None:
    """Or the counts would not add up to the failures that the message names."""
    told = re.findall(r"(?:^|; )(\d+) x ", by_count(causes))

    assert sum(map(int, told)) == Counter(causes).total()
