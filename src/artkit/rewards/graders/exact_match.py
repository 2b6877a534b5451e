"""Exact and normalised match."""

from __future__ import annotations

import re
import string
from typing import Any

from artkit.errors import RewardError
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Expected, Reply, TextGrader, scenario_label

__all__ = ["exact_match", "expected_words", "normalised", "normalised_match"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def exact_match(*, expected: Expected = scenario_label, reply: Reply = answer_text) -> TextGrader:
    """Give 1 to a reply that is what was expected, else 0; white space around either does not count.

    Args:
        expected: Where to find what was expected; a number is compared as `str` writes it.
        reply: Where to find the reply.

    >>> exact_match().grade("Paris ", "Paris"), exact_match().grade("Paris.", "Paris")
    (1.0, 0.0)
    """
    return TextGrader("exact_match()", _is_equal, expected, reply)


def normalised_match(*, expected: Expected = scenario_label, reply: Reply = answer_text) -> TextGrader:
    """Give 1 to a reply that is what was expected but for case, punctuation, articles and white space, else 0.

    Not for numbers: the sign and the point are punctuation. `number_match` is for those.

    Args:
        expected: Where to find what was expected.
        reply: Where to find the reply.

    Source: exact match of SQuAD, arXiv:1606.05250, section 6.1, as in its evaluate-v1.1.py.

    >>> normalised_match().grade("The Eiffel Tower.", "eiffel tower")
    1.0
    """
    return TextGrader("normalised_match()", _is_equal_normalised, expected, reply)


def normalised(text: str) -> str:
    """Return `text` in lower case, without ASCII punctuation and English articles, words one space apart.

    Source: `normalize_answer` of SQuAD's evaluate-v1.1.py.

    >>> normalised("  The cat, a dog!")
    'cat dog'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def expected_words(expected: Any) -> str:
    """Return what was expected, normalised.

    Raises:
        RewardError: Nothing is left of it, so that many a wrong reply would match.
    """
    words = normalised(str(expected))
    if not words:
        msg = f"expected={expected!r} holds nothing but punctuation and articles"
        raise RewardError(msg, "compare it by exact_match, number_match or choice_letter")
    return words


def _is_equal(reply: str, expected: Any) -> float:
    return float(reply.strip() == str(expected).strip())


def _is_equal_normalised(reply: str, expected: Any) -> float:
    return float(normalised(reply) == expected_words(expected))
