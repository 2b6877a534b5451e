"""A rule of a user's own: which failures are of which kind."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

from artkit.bridge import error_chain
from artkit.checks import check_count
from artkit.episodes.failure import FailureKind
from artkit.errors import ConfigurationError
from artkit.transport import status_code

__all__ = ["FailureRule", "Waiting"]

Waiting: TypeAlias = Literal["model", "environment", "reward"]
"""Whom an episode was waiting for when it failed."""

_KINDS = (FailureKind.LIMIT, FailureKind.ENVIRONMENT, FailureKind.INFRASTRUCTURE, FailureKind.FATAL)
_WHO = (None, "model", "environment")
_STATUSES = range(100, 600)


@dataclass(frozen=True, slots=True)
class FailureRule:
    """Says of which kind a failure of a rollout is. `FailurePolicy` asks its rules before it judges by itself.

    What is given must hold together, of the exception or of one that it came from: a cause, a context, a member of a
    group.

    Attributes:
        kind: "limit", "environment", "infrastructure" or "fatal".
        error: The exception's class, or several of which one must fit.
        status: The HTTP status that it reports, or several.
        pattern: A regular expression, searched for in its text.
        waiting_for: Whom the episode waits for: "model" or "environment". None is either; a `ConnectionError` may come
            from both.
        retries: How often a request to the model is sent again after such a failure, whatever the policy says of
            others. None leaves it to the policy, which sends nothing again that is "limit" or "fatal".

    Raises:
        ConfigurationError: A value that cannot work, or nothing to look for.

    >>> FailureRule("fatal", error=ConnectionError, pattern="license").matches(ConnectionError("no license left"))
    True
    """

    kind: FailureKind | str
    _: KW_ONLY
    error: type[BaseException] | Collection[type[BaseException]] | None = None
    status: int | Collection[int] | None = None
    pattern: str | None = None
    waiting_for: Waiting | None = None
    retries: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in list(FailureKind):
            raise ConfigurationError(f"kind={self.kind!r} is not a failure kind", f"choose from {', '.join(_KINDS)}")
        if self.kind not in _KINDS:
            raise ConfigurationError(
                f"kind={str(self.kind)!r} is no kind that a rule can give",
                "what a tool may raise is in @tool(answers=…), what a reward may in its on_error; choose from "
                + ", ".join(_KINDS),
            )
        if self.error is None and self.status is None and self.pattern is None:
            raise ConfigurationError(
                f"FailureRule({str(self.kind)!r}) matches every failure", "give error, status or pattern"
            )
        if self.waiting_for not in _WHO:
            raise ConfigurationError(f"waiting_for={self.waiting_for!r} is nobody", 'give "model", "environment", None')
        if self.retries is not None:
            check_count("FailureRule", "retries", self.retries, least=0)
            if self.waiting_for == "environment":
                raise ConfigurationError(
                    f"retries={self.retries!r} are of requests to the model, and the rule is of environments",
                    "FailurePolicy(rollout_retries=…) plays a whole episode again",
                )
        _check_pattern(self.pattern)
        object.__setattr__(self, "kind", FailureKind(self.kind))
        object.__setattr__(self, "error", _classes(self.error))
        object.__setattr__(self, "status", _statuses(self.status))

    def matches(self, error: BaseException, *, waiting_for: Waiting | None = None) -> bool:
        """Whether the rule is of `error`, or of something that it came from.

        Args:
            error: What the rollout failed with.
            waiting_for: Whom the episode was waiting for; None where that is not known, which every rule takes.
        """
        if None not in (self.waiting_for, waiting_for) and self.waiting_for != waiting_for:
            return False
        return any(self._fits(link) for link in error_chain(error))

    def _fits(self, error: BaseException) -> bool:
        classes, statuses = _classes(self.error), _statuses(self.status)
        return (
            (classes is None or isinstance(error, classes))
            and (statuses is None or _reported_status(error) in statuses)
            and (self.pattern is None or re.search(self.pattern, _whole_text(error)) is not None)
        )

    def __repr__(self) -> str:
        given = [repr(str(self.kind))]
        if (classes := _classes(self.error)) is not None:
            given.append(f"error={_one_or_all([kind.__name__ for kind in classes])}")
        if (statuses := _statuses(self.status)) is not None:
            given.append(f"status={_one_or_all(sorted(map(str, statuses)))}")
        others = {name: getattr(self, name) for name in ("pattern", "waiting_for", "retries")}
        given += [f"{name}={value!r}" for name, value in others.items() if value is not None]
        return f"FailureRule({', '.join(given)})"


def _classes(error: object) -> tuple[type[BaseException], ...] | None:
    if error is None:
        return None
    classes = (error,) if isinstance(error, type) or not isinstance(error, Collection) else tuple(error)
    if not classes or not all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        raise ConfigurationError(f"error={error!r} is no class of exceptions", "give a class, or a tuple of classes")
    return classes


def _statuses(status: object) -> frozenset[int] | None:
    if status is None:
        return None
    statuses = (status,) if isinstance(status, str) or not isinstance(status, Collection) else tuple(status)
    if not statuses or not all(isinstance(one, int) and one in _STATUSES for one in statuses):
        raise ConfigurationError(f"status={status!r} is no HTTP status", "give an int such as 503, or several of them")
    return frozenset(map(int, statuses))


def _check_pattern(pattern: object) -> None:
    if pattern is None:
        return
    if not isinstance(pattern, str) or not pattern:
        raise ConfigurationError(f"pattern={pattern!r} is no regular expression", "give a text that is not empty")
    try:
        re.compile(pattern)
    except re.error as error:
        msg = f"pattern={pattern!r} is no regular expression: {error}"
        raise ConfigurationError(msg, "re.escape(…) takes a text as it stands") from error


def _reported_status(error: BaseException) -> int | None:
    """Return the status that `error` reports; the clients of environments have errors of their own."""
    if (status := status_code(error)) is not None:
        return status
    for holder in (error, _held(error, "response")):
        for name in ("status_code", "status", "code"):
            value = _held(holder, name)
            if isinstance(value, int) and value in _STATUSES:
                return value
    return None


def _whole_text(error: BaseException) -> str:
    """Return the text of an exception as it stands: what a record leaves out of it may be what the rule is of."""
    try:
        return str(error) or repr(error)
    except Exception:  # noqa: BLE001  # as below
        return ""


def _held(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001  # a property of a user's exception may raise anything
        return None


def _one_or_all(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
