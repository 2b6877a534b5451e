"""What follows from a failure: its kind, and whether the episode may be trained on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from artkit.bridge import is_serving_unavailable
from artkit.checks import check_count, check_positive
from artkit.episodes.failure import FailureKind
from artkit.episodes.failure_rule import FailureRule, Waiting
from artkit.errors import ConfigurationError
from artkit.transport import is_context_overflow, is_fatal, is_retryable

__all__ = ["FailurePolicy", "Waiting"]

_ALWAYS_KEPT = frozenset({FailureKind.TOOL, FailureKind.LIMIT})
_NEVER_KEPT = frozenset({FailureKind.REWARD, FailureKind.FATAL})
# An accident may not happen again; what the model did within its limits, or a refused key, does.
_ACCIDENTS = frozenset({FailureKind.ENVIRONMENT, FailureKind.INFRASTRUCTURE})
_FINAL = frozenset({FailureKind.LIMIT, FailureKind.FATAL})


@dataclass(frozen=True, kw_only=True, repr=False)
class FailurePolicy:
    """Sorts every exception into one `FailureKind` and says what follows from it.

    A failed rollout still returns its partial episode once the model has replied. When the group is built, an episode
    of a kind that is not kept leaves the group before scoring: its cause joins `group.exceptions` and the episode goes
    to `GatheredGroups.lost` and to the recording. It never becomes reward 0.

    Attributes:
        keep: Kinds that stay in the group besides "tool" and "limit", which always do: any of "environment" and
            "infrastructure". "reward" and "fatal" cannot be kept: there is nothing to train on.
        max_retries: Retries of one model request, with back-off. Functions given to `capture_partial` ask by
            themselves, and retry by themselves.
        retry_budget_s: How long after its first failure a request may be sent again, in seconds, waits included: a
            retry that would begin later is not made. None is no limit.
        rollout_retries: How often a whole episode is played again, each time in a fresh environment, after a failure
            of the kind "environment" or "infrastructure". A mapping gives each of the two a number of its own.
        refills: How many further rollouts of a group `gather_groups` may play in place of members that left it by a
            failure of these two kinds, once they are not played again. They are members 4, 5, … of a group of four.
        rules: What is of another kind than the table says. The first that matches holds.

    Raises:
        ConfigurationError: A kind that does not exist or cannot be had there, or a number out of its range.

    >>> policy = FailurePolicy(rules=[FailureRule("limit", error=MemoryError)], rollout_retries={"environment": 2})
    >>> policy
    FailurePolicy(rollout_retries={'environment': 2}, rules=(FailureRule('limit', error=MemoryError),))
    >>> policy.classify(MemoryError(), waiting_for="environment")
    <FailureKind.LIMIT: 'limit'>
    """

    keep: Collection[FailureKind | str] = frozenset()
    max_retries: int = 3
    retry_budget_s: float | None = None
    rollout_retries: int | Mapping[FailureKind | str, int] = field(default=0, hash=False)
    refills: int = 0
    rules: Sequence[FailureRule] = ()

    def __post_init__(self) -> None:
        if isinstance(self.keep, str) or not isinstance(self.keep, Iterable):
            hint = f"write keep={{{str(self.keep)!r}}}" if isinstance(self.keep, str) else 'write keep={"environment"}'
            raise ConfigurationError(f"keep={self.keep!r} is not a set of kinds", hint)
        for kind in self.keep:
            _check_kind("keep", kind)
            if kind in _NEVER_KEPT:
                raise ConfigurationError(
                    f"keep={str(kind)!r}: such an episode has no reward to train on",
                    'keep "environment" or "infrastructure", or mend the cause',
                )
        for name in ("max_retries", "refills"):
            check_count("FailurePolicy", name, getattr(self, name), least=0)
        if self.retry_budget_s is not None:
            check_positive("FailurePolicy", "retry_budget_s", self.retry_budget_s, "max_retries=0 sends nothing again")
        object.__setattr__(self, "keep", frozenset(FailureKind(kind) for kind in self.keep))
        object.__setattr__(self, "rollout_retries", _rollout_retries(self.rollout_retries))
        object.__setattr__(self, "rules", _rules(self.rules))

    def keeps(self, kind: FailureKind | str) -> bool:
        """Whether an episode that failed in this way stays in its group."""
        return kind in _ALWAYS_KEPT or kind in self.keep

    def classify(self, error: BaseException, *, waiting_for: Waiting) -> FailureKind:
        """Return whose failure `error` is, given whom the episode was waiting for.

        The rules are of rollouts: what a reward could not score is "reward", whatever it met.
        """
        if waiting_for != "reward" and (rule := self._rule(error, waiting_for)) is not None:
            return FailureKind(rule.kind)
        if is_serving_unavailable(error):
            return FailureKind.FATAL
        if waiting_for == "reward":
            return FailureKind.REWARD
        if waiting_for == "environment":
            return FailureKind.ENVIRONMENT
        if is_context_overflow(error):
            return FailureKind.LIMIT
        return FailureKind.FATAL if is_fatal(error) else FailureKind.INFRASTRUCTURE

    def resends(self, error: BaseException, after: Sequence[BaseException] = ()) -> bool:
        """Whether a request to the model is sent again after `error`, and after the failures `after` already.

        A rule with `retries` of its own counts those failures by itself.
        """
        rule = self._rule(error, "model")
        if rule is not None and rule.retries is not None:
            alike = [earlier for earlier in after if self._rule(earlier, "model") is rule]
            return len(alike) < rule.retries
        if (rule is not None and rule.kind in _FINAL) or not is_retryable(error):
            return False
        own = [earlier for earlier in after if (of := self._rule(earlier, "model")) is None or of.retries is None]
        return len(own) < self.max_retries

    def replays(self, kind: FailureKind | str, *, after: Sequence[FailureKind | str] = ()) -> bool:
        """Whether a whole episode is played again after a failure of this kind, and of the kinds `after` already."""
        if kind not in _ACCIDENTS:
            return False
        if isinstance(self.rollout_retries, Mapping):
            return list(after).count(kind) < self.rollout_retries.get(kind, 0)
        return len(after) < self.rollout_retries

    def refill_count(self, left: Iterable[FailureKind | str], *, after: int = 0) -> int:
        """Return how many further rollouts of a group are played now.

        Args:
            left: The kinds of the failures by which members have left it so far, further ones included.
            after: How many further ones were started already.

        >>> FailurePolicy(refills=2).refill_count(["environment", "infrastructure", "limit"], after=1)
        1
        """
        missing = sum(kind in _ACCIDENTS for kind in left) - after
        return max(0, min(missing, self.refills - after))

    def _rule(self, error: BaseException, waiting_for: Waiting) -> FailureRule | None:
        return next((rule for rule in self.rules if rule.matches(error, waiting_for=waiting_for)), None)

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return f"FailurePolicy({', '.join(f'{name}={_words(value)}' for name, value in values.items())})"


def _check_kind(name: str, kind: object) -> None:
    if kind not in list(FailureKind):
        names = ", ".join(FailureKind)
        raise ConfigurationError(f"{name}={kind!r} is not a failure kind", f"choose from {names}")


def _rollout_retries(given: int | Mapping[FailureKind | str, int]) -> int | dict[FailureKind | str, int]:
    if not isinstance(given, Mapping):
        check_count("FailurePolicy", "rollout_retries", given, least=0)
        return given
    for kind, count in given.items():
        _check_kind("rollout_retries", kind)
        if kind not in _ACCIDENTS:
            raise ConfigurationError(
                f"rollout_retries={str(kind)!r}: such an episode would only fail again",
                'give numbers for "environment" and "infrastructure"',
            )
        check_count("FailurePolicy", f"rollout_retries[{str(kind)!r}]", count, least=0)
    return {FailureKind(kind): count for kind, count in given.items()}


def _rules(given: object) -> tuple[FailureRule, ...]:
    rules = tuple(given) if isinstance(given, Iterable) else (given,)
    for rule in rules:
        if not isinstance(rule, FailureRule) or not isinstance(given, Iterable):
            raise ConfigurationError(f"rules={given!r} is no list of rules", 'give [FailureRule("limit", error=…), …]')
    return rules


def _words(value: object) -> str:
    """Return a setting as it is written."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(repr(str(kind)) for kind in value))}}}"
    if isinstance(value, Mapping):
        return repr({str(kind): count for kind, count in value.items()})
    return repr(value)
