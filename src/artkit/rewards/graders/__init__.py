"""Graders: small functions that say how well a reply matches what was expected, for `ProgrammaticReward`."""

from __future__ import annotations

from artkit.rewards.graders.boxed_math import boxed_math, last_boxed
from artkit.rewards.graders.choice_letter import choice_letter
from artkit.rewards.graders.exact_match import exact_match, normalised, normalised_match
from artkit.rewards.graders.json_schema import json_schema
from artkit.rewards.graders.number_match import last_number, number_match
from artkit.rewards.graders.regex_match import regex_match
from artkit.rewards.graders.reply import answer_text, reply_text
from artkit.rewards.graders.text_grader import TextGrader, scenario_label
from artkit.rewards.graders.token_f1 import token_f1

__all__ = [
    "TextGrader",
    "answer_text",
    "boxed_math",
    "choice_letter",
    "exact_match",
    "json_schema",
    "last_boxed",
    "last_number",
    "normalised",
    "normalised_match",
    "number_match",
    "regex_match",
    "reply_text",
    "scenario_label",
    "token_f1",
]
