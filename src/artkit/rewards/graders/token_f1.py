"""Token F1: how many words a reply shares with what was expected."""

from __future__ import annotations

from collections import Counter
from typing import Any

from artkit.rewards.graders.exact_match import expected_words, normalised
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Expected, Reply, TextGrader, scenario_label

__all__ = ["token_f1"]


def token_f1(*, expected: Expected = scenario_label, reply: Reply = answer_text) -> TextGrader:
    """Give a reply 2·P·R / (P + R), from 0 to 1; 0 if it shares no word with what was expected.

    The words are those of the normalised texts (`normalised_match`), each counted as often as it occurs in both.
    P, precision, is the share of the reply's words that are common; R, recall, the share of the expected words.

    Args:
        expected: Where to find what was expected.
        reply: Where to find the reply.

    Source: F1 of SQuAD, arXiv:1606.05250, section 6.1, as in its evaluate-v1.1.py.

    >>> token_f1().grade("in the city of Paris", "Paris, city of light")
    0.75
    """
    return TextGrader("token_f1()", _f1, expected, reply)


def _f1(reply: str, expected: Any) -> float:
    said, right = normalised(reply).split(), expected_words(expected).split()
    common = sum((Counter(said) & Counter(right)).values())
    # 2PR / (P + R) with P = common / len(said) and R = common / len(right).
    return 2 * common / (len(said) + len(right))
