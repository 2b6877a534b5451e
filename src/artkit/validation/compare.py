"""The comparison: whether one validation is better than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from artkit.errors import ConfigurationError
from artkit.validation.checks import check_confidence, check_score
from artkit.validation.clustered import clustered_mean
from artkit.validation.wilson import wilson_interval

__all__ = ["Comparison", "Verdict", "compare"]

Verdict = Literal["better", "worse", "not distinguishable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a validation says beside another one; it prints as one line.

    Attributes:
        difference: The mean of the differences, after minus before, over the shared scenarios. None without any.
        standard_error: Its standard error. None for fewer than two shared scenarios.
        low: The lower end of its interval. None for fewer than two.
        high: The upper end of its interval. None for fewer than two.
        scenarios: The number of shared scenarios.
        verdict: "better" where the interval is above 0, "worse" where it is below, else "not distinguishable".
        differing: How many of the shared scenarios differ at all.
        confidence: How often the interval should hold the true difference.

    >>> print(Comparison(difference=0.2, standard_error=0.05, low=0.1, high=0.3, scenarios=64, verdict="better"))
    better: +0.200 (95 % interval +0.100 to +0.300, 64 shared scenarios)
    """

    difference: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    scenarios: int
    verdict: Verdict
    differing: int | None = None
    confidence: float = 0.95

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.verdict}: no shared scenario"
        if self.low is None or self.high is None:
            return f"{self.verdict}: {self.difference:+.3f} on the only shared scenario; it takes more to tell"
        interval = f"{self.confidence * 100:g} % interval {self.low:+.3f} to {self.high:+.3f}"
        shared = f"{self.scenarios} shared scenarios"
        if self.differing is not None and self.differing < _least_differing(self.confidence):
            shared += f", {self.differing or 'none'} of them different: too few to tell"
        return f"{self.verdict}: {self.difference:+.3f} ({interval}, {shared})"


def compare(before: Mapping[str, float], after: Mapping[str, float], *, confidence: float = 0.95) -> Comparison:
    """Return whether `after` is better than `before` on the scenarios that both could score.

    The interval is Student's for the mean of the paired differences d of n scenarios:

        mean(d) +- t sqrt(sum of (d - mean(d))^2 / (n - 1)) / sqrt(n)

    Student takes the differences for normal, and few yes/no scenarios are not: three that were all lost before and all
    won after do not vary, and would be certain. So for a verdict, 6 scenarios have to differ (at 95 %: by chance, 5
    agree with a probability of 2 / 2^5); with fewer, an interval on one side of 0 is stretched to reach it. Where all
    differ by the same, however many, its width is that of Wilson's interval for the share that does.

    Args:
        before: The mean score of each scenario, by its id; more is better.
        after: The same of the other validation.
        confidence: How often the interval should hold the true difference, 0.5 to 0.9999.

    Raises:
        RewardError: If a score is no finite number.
        ConfigurationError: If `before` or `after` is no mapping, or `confidence` is out of range.

    Source: Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, for the paired differences; Student (1908), The
    Probable Error of a Mean, Biometrika 6, 1-25, for the interval; the sign test for the least number that differ.

    >>> scenarios = [f"task-{number}" for number in range(20)]
    >>> before = dict.fromkeys(scenarios, 0.0)
    >>> print(compare(before, before | dict.fromkeys(scenarios[:8], 1.0)))
    better: +0.400 (95 % interval +0.165 to +0.635, 20 shared scenarios)
    >>> print(compare(before, before | dict.fromkeys(scenarios[:5], 1.0)))  # doctest: +NORMALIZE_WHITESPACE
    not distinguishable: +0.250 (95 % interval +0.000 to +0.458,
        20 shared scenarios, 5 of them different: too few to tell)
    """
    check_confidence(confidence)
    old, new = _scores("before", before), _scores("after", after)
    differences = [new[name] - old[name] for name in old if name in new]
    differing = sum(difference != 0 for difference in differences)
    mean, standard_error = clustered_mean([[difference] for difference in differences]) if differences else (None, None)
    low, high = None, None
    if mean is not None and standard_error is not None:
        low, high = _interval(mean, standard_error, len(differences), confidence)
        if differing < _least_differing(confidence):
            low, high = min(low, 0.0), max(high, 0.0)
    return Comparison(
        difference=mean,
        standard_error=standard_error,
        low=low,
        high=high,
        scenarios=len(differences),
        verdict=_verdict(low, high),
        differing=differing,
        confidence=confidence,
    )


def _scores(what: str, given: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(given, Mapping):
        hint = (
            "give the .scores of each result" if hasattr(given, "scores") else "give the score of each scenario by id"
        )
        raise ConfigurationError(f"compare({what}=…) is of type {type(given).__name__}, not scores by scenario", hint)
    return {name: check_score(f"{what}[{name!r}]", score) for name, score in given.items()}


def _least_differing(confidence: float) -> int:
    """Return how many scenarios have to differ for a verdict: by chance all agree with `2 * 0.5^count`."""
    count = 1
    while 2 * 0.5**count > 1 - confidence:
        count += 1
    return count


def _interval(mean: float, standard_error: float, count: int, confidence: float) -> tuple[float, float]:
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # it ships no types

    if standard_error <= 1e-12 * abs(mean):  # all the same, but for rounding
        least = mean * wilson_interval(1.0, count, confidence=confidence)[0]
        return min(least, mean), max(least, mean)
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * standard_error
    return mean - half, mean + half


def _verdict(low: float | None, high: float | None) -> Verdict:
    if low is not None and low > 0:
        return "better"
    return "worse" if high is not None and high < 0 else "not distinguishable"
