"""The text grader: compares what the model said with what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from artkit.errors import ConfigurationError
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.score import Score

if TYPE_CHECKING:
    import art

__all__ = ["Compare", "Expected", "Reply", "TextGrader", "makes_grader", "nothing_expected", "scenario_label"]

Compare: TypeAlias = Callable[[str, Any], "Score | float"]
"""Given a reply and what was expected, says what the reply is worth, usually from 0 to 1."""

Expected: TypeAlias = Callable[[Any], Any]
"""Given a trajectory, returns what its reply is graded with; None if there is nothing to grade it with."""

Reply: TypeAlias = Callable[[Any], "str | None"]
"""Given a trajectory, returns the text to grade; None if there is none."""


def scenario_label(trajectory: art.Trajectory) -> Any:
    """Return the label of the scenario that was played, or, where no scenario is known, `metadata["label"]`.

    Raises:
        ConfigurationError: There is neither.
    """
    scenario: Any = getattr(trajectory, "scenario", None)
    if scenario is None or isinstance(scenario, Mapping):  # a plain trajectory, or one from a recording
        scenario = {**trajectory.metadata, **(scenario or {})}
        if "label" in scenario:
            return scenario["label"]
    elif hasattr(scenario, "label"):
        return scenario.label
    msg = f"a {type(trajectory).__name__} has neither scenario.label nor metadata['label'] to grade its reply with"
    raise ConfigurationError(msg, "say where it is: expected=lambda trajectory: trajectory.scenario.answer")


def nothing_expected(_: object) -> str:
    """Return a text that nobody reads, for a grader that is made with what it expects."""
    return ""


@dataclass(frozen=True, slots=True, repr=False)
class TextGrader:
    """Grades trajectories by their text; hand it to `ProgrammaticReward`. The graders' functions make it.

    Where several answers are right, `expected` returns a list, a tuple or a set of them, and the best match counts. An
    episode in which the model had no turn, or that there is nothing to grade with (None, NaN), is left unscored.

    Attributes:
        name: The grader in words, as it was written.
        compare: What a reply is worth, given what was expected.
        expected: Where to find what was expected.
        reply: Where to find the reply.
    """

    name: str
    compare: Compare
    expected: Expected = scenario_label
    reply: Reply = answer_text

    def __call__(self, trajectory: art.Trajectory) -> Score | float:
        """Return what `trajectory` is worth."""
        reply = self.reply(trajectory)
        if reply is None:
            return Score(None, explanation="there is no reply to grade")
        expected = self.expected(trajectory)
        if expected is None:
            return Score(None, explanation="there is nothing to grade the reply with: expected is None")
        return self.grade(reply, expected)

    def grade(self, reply: str, expected: Any) -> Score | float:
        """Return what `reply` is worth, given what was expected; of several right answers, the best match."""
        if expected is None:  # for a grader that is made with what it expects
            return self.compare(reply, None)
        answers = expected if isinstance(expected, list | tuple | set | frozenset) else [expected]
        known = [each for each in answers if not _is_missing(each)]
        if not known:
            return Score(None, explanation=f"there is nothing to grade the reply with: expected is {expected!r}")
        return max((self.compare(reply, each) for each in known), key=_value)

    def __repr__(self) -> str:
        return self.name


def _is_missing(expected: Any) -> bool:
    """Whether it is what stands in tables where nothing is known."""
    return expected is None or (isinstance(expected, float) and math.isnan(expected))


def makes_grader(function: object) -> bool:
    """Whether `function` says that it returns a `TextGrader`: it is to be called, and is no grader itself."""
    return getattr(function, "__annotations__", {}).get("return") in ("TextGrader", TextGrader)


def _value(grade: Score | float) -> float:
    value = grade.value if isinstance(grade, Score) else grade
    return float("-inf") if value is None else value
