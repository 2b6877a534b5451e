"""A number, with tolerance."""

from __future__ import annotations

import math
import re
from typing import Any

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Expected, Reply, TextGrader, scenario_label
from artkit.rewards.settings import is_number

__all__ = ["last_number", "number_match"]

_EXPONENT = r"(?:[eE][-+]?\d+)?"
_UNSIGNED = (
    rf"(?:(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?{_EXPONENT}"
    rf"|(?<![\w.])\.\d+{_EXPONENT})"  # ".5", but not the end of "so...5" or of "v1.2.5"
)
# A sign behind a word, a number or a closing bracket is an operator: "10-5" ends in 5. One that does not touch the
# number is a dash: "- 5" in a list, "The answer - 5".
_NUMBER = re.compile(rf"(?<!\d)(?<!\d\.)(?:(?<![\w)])[-+]\$?)?(?P<top>{_UNSIGNED})(?:\s?/\s?(?P<bottom>{_UNSIGNED}))?")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})


def number_match(
    *,
    relative_tolerance: float = 1e-9,
    absolute_tolerance: float = 0.0,
    expected: Expected = scenario_label,
    reply: Reply = answer_text,
) -> TextGrader:
    """Give 1 to a reply whose last number x is within tolerance of the expected number y, else 0.

    Within tolerance is |x - y| <= max(relative_tolerance * |y|, absolute_tolerance), in floats. What counts as a
    number is told at `last_number`.

    Args:
        relative_tolerance: As a share of the expected number, at least 0.
        absolute_tolerance: In the number's own unit, at least 0; the only one that counts where 0 is expected.
        expected: Where to find the number; a text must be a number and nothing else.
        reply: Where to find the reply.

    Raises:
        ConfigurationError: A tolerance is negative or not finite.

    Source: the last number as the answer: "flexible-extract" of gsm8k in EleutherAI's lm-evaluation-harness.

    >>> number_match().grade("2 boxes of 621 make 1,242.", "1242")
    1.0
    >>> number_match(relative_tolerance=0.01).grade("about 3.14", 3.14159)
    1.0
    """
    for name, value in (("relative_tolerance", relative_tolerance), ("absolute_tolerance", absolute_tolerance)):
        if not (is_number(value) and value >= 0):
            raise ConfigurationError(f"{name}={value!r} is no tolerance", "give 0 or a small positive number")

    def compare(said: str, right: Any) -> float:
        target, number = _expected_number(right), last_number(said)
        if number is None:
            return 0.0
        return float(abs(number - target) <= max(relative_tolerance * abs(target), absolute_tolerance))

    name = f"number_match(relative_tolerance={relative_tolerance!r}, absolute_tolerance={absolute_tolerance!r})"
    return TextGrader(name, compare, expected, reply)


def last_number(text: str) -> float | None:
    """Return the last number in `text`, or None.

    Read are signs, commas between thousands, a decimal point, exponents and fractions of two numbers. Units, currency
    and percent signs are passed over: "50%" is 50. Formulas are not worked out; `boxed_math` is for those.

    >>> last_number("x = -1,234.5e1 kg"), last_number("it is 3/4."), last_number("none")
    (-12345.0, 0.75, None)
    """
    number = None
    for match in _NUMBER.finditer(text.translate(_MINUS)):
        value = _float(match["top"])
        if match["bottom"] is not None:
            bottom = _float(match["bottom"])
            if bottom == 0:
                continue
            value /= bottom
        number = -value if match[0].startswith("-") else value
    return number


def _float(digits: str) -> float:
    return float(digits.replace(",", ""))


def _expected_number(expected: Any) -> float:
    number: float | None
    if isinstance(expected, str):
        text = expected.strip().translate(_MINUS)
        number = last_number(text) if _NUMBER.fullmatch(text) else None
    else:
        try:
            number = None if isinstance(expected, bool) else float(expected)
        except (TypeError, ValueError, OverflowError):
            number = None
    if number is None or not math.isfinite(number):
        raise RewardError(f"expected={expected!r} is no finite number", "give a number, or a text that is one")
    return number
