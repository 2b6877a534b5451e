"""The errors of artkit, one tree.

    ArtkitError
    ├── ConfigurationError        (ValueError)    a setting that cannot work; found before anything is spent
    ├── EnvironmentContractError  (TypeError)     an environment broke a promise of `Environment`
    ├── RewardError               (RuntimeError)  a reward that is missing, not finite or miscounted
    │   ├── JudgeError                            a judge that could not be reached or understood
    │   └── NothingToCompareError                 a relative reward without two members that differ
    ├── EmptyReplyError           (RuntimeError)  a server answered without a reply in it
    ├── AllRolloutsFailedError    (RuntimeError)  every rollout of a gather failed
    ├── OutageError               (RuntimeError)  a service the run depends on is gone or refuses us
    ├── ResumeError               (RuntimeError)  the run on disk is not the run that was asked for
    ├── CheckpointError           (RuntimeError)  a checkpoint is missing or must not be touched
    └── BackendError              (RuntimeError)  the training backend failed or broke its protocol

    ToolError (RuntimeError)      raised by a user's tool: its text is answered to the model

Every `ArtkitError` says what was wrong (`problem`) and what to do next (`hint`), survives pickling, and has
`[secret]` in the place of each key in its text.
"""

from __future__ import annotations

from typing import Any

from artkit.secrets import scrub

__all__ = [
    "AllRolloutsFailedError",
    "ArtkitError",
    "BackendError",
    "CheckpointError",
    "ConfigurationError",
    "EmptyReplyError",
    "EnvironmentContractError",
    "JudgeError",
    "NothingToCompareError",
    "OutageError",
    "ResumeError",
    "RewardError",
    "ToolError",
]


class ArtkitError(Exception):
    """The root of everything artkit raises on purpose.

    Args:
        problem: What was wrong: the field or object, and its value as `repr`.
        hint: What to do next.

    >>> print(ArtkitError("groups_per_step=0 is not positive", "give it at least 1"))
    groups_per_step=0 is not positive (hint: give it at least 1)
    """

    def __init__(self, problem: str, hint: str) -> None:
        # It may quote what a server, a tool or a user said.
        problem, hint = scrub(problem), scrub(hint)
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem} (hint: {self.hint})"


class ConfigurationError(ArtkitError, ValueError):
    """A setting that cannot work, found before anything was spent."""


class EnvironmentContractError(ArtkitError, TypeError):
    """An environment broke a promise of `Environment`."""


class _GatherEndingError(ArtkitError):
    """What can end a gather before its time.

    Attributes:
        gathered: The `GatheredGroups` of what was finished by then, which was paid for: one group per scenario, those
            that were not scored yet with the rollouts' own rewards. None where no gather was ended; pickling leaves it
            behind.
    """

    gathered: Any = None

    def __reduce__(self) -> tuple[type[ArtkitError], tuple[str, str]]:
        return type(self), (self.problem, self.hint)


class RewardError(_GatherEndingError, RuntimeError):
    """A reward is missing, not finite, or there are more or fewer than members."""


class JudgeError(RewardError):
    """A judge could not be reached, or its reply could not be understood."""


class NothingToCompareError(RewardError):
    """A relative reward found no two members that differ. Nothing has failed: such a group teaches nothing."""


class EmptyReplyError(ArtkitError, RuntimeError):
    """A server answered 200 without a reply in it: no choices, or a message with nothing in it."""


class AllRolloutsFailedError(_GatherEndingError, RuntimeError):
    """Every rollout of a gather failed, or more than allowed; the first cause is `__cause__`.

    Attributes:
        gathered: The `GatheredGroups` of what was finished by then; None after pickling.
    """


class OutageError(_GatherEndingError, RuntimeError):
    """A service that the run depends on is gone, or refuses us.

    Attributes:
        gathered: Where it ended a gather, the `GatheredGroups` of what was finished by then; None after pickling.
    """


class ResumeError(ArtkitError, RuntimeError):
    """The run on disk is not the run that was asked for."""


class CheckpointError(ArtkitError, RuntimeError):
    """A checkpoint is missing, or must not be touched."""


class BackendError(ArtkitError, RuntimeError):
    """The training backend failed or broke ART's protocol."""


class ToolError(RuntimeError):
    """Raised by a tool: its text is answered to the model, and the episode goes on."""
