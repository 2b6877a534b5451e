"""The letter of a multiple-choice answer."""

from __future__ import annotations

import re
from typing import Any

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Expected, Reply, TextGrader, scenario_label

__all__ = ["choice_letter"]


def choice_letter(
    choices: str = "ABCD", *, expected: Expected = scenario_label, reply: Reply = answer_text
) -> TextGrader:
    r"""Give 1 to a reply that names the expected letter and no other, else 0.

    What counts is the last of these that the reply holds:

    - a statement in capitals: "answer: B", "the answer is (B)", "the correct option is **B**", "\boxed{B}";
    - the letter at the start of the reply, alone or before a bracket, point or colon: "B", "(b)", "B) Paris".

    A statement goes before a letter at the start. Any other capital in the reply does not count, for "A" and "I" are
    words. A statement that names two letters, such as "A or B", names none; nor does a reply that lists the choices.

    Args:
        choices: The letters, each once.
        expected: Where to find the letter.
        reply: Where to find the reply.

    Raises:
        ConfigurationError: `choices` holds something other than distinct letters.

    Source: the "Answer: X" of multiple choice in OpenAI's simple-evals, with what else models write.

    >>> choice_letter().grade("It cannot be A. The answer is (C).", "C")
    1.0
    >>> choice_letter().grade("The answer is A or C.", "C")
    0.0
    """
    letters = choices.upper()
    if not (letters.isascii() and letters.isalpha() and len(set(letters)) == len(letters)):
        raise ConfigurationError(f"choices={choices!r} are not distinct letters", 'give them as a str such as "ABCD"')
    one = f"[{letters}]"
    said_by = r"(?i:\b(?:answer|option|choice))(?:\s*(?i:is|[:=])(?:\s*:)?|\**:)(?:\s+(?i:option|choice|letter)\b)?"
    wrapped = rf"[\s*_$(\[{{]*(?:\\text{{)?(?P<letter>{one})(?![\w'\u2019])"
    other = rf"(?!\**(?:[)\]]\**)?\s*(?:/|,|&|or\b|and\b)\s*[*(\[]*{one}(?!\w))"
    statement = re.compile(rf"(?:{said_by}|\\boxed\s*{{){wrapped}(?P<one>{other})?")
    start = re.compile(rf"\s*[*_$(\[]*(?P<letter>(?i:{one}))(?:[*_$)\]]*\s*$|[*_$]*[)\].:])")
    listed = re.compile(rf"(?<!\w)({one})[)\].:]")

    def compare(said: str, right: Any) -> float:
        target = str(right).strip().upper()
        if len(target) != 1 or target not in letters:
            raise RewardError(f"expected={right!r} is none of the choices {letters}", "give one letter of choices")
        stated = list(statement.finditer(said))
        if stated:
            return float(stated[-1]["one"] is not None and stated[-1]["letter"] == target)
        first = start.match(said)
        if first is None or first["letter"].upper() != target:
            return 0.0
        return float(set(listed.findall(said)) <= {target})

    return TextGrader(f"choice_letter({choices!r})", compare, expected, reply)
