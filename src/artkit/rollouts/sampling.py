"""How replies are sampled, and the limits of an episode."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["Limits", "Sampling"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the model's replies are sampled.

    Train at temperature 1 and top_p 1: ART's importance ratios compare logprobs that assume them.

    Attributes:
        temperature: 0 is greedy.
        top_p: The nucleus, in (0, 1].
        max_completion_tokens: The limit of one reply, in tokens; None is the server's own.
        stop: Strings that end a reply.
        seed: From it each request's own seed is derived, together with scenario, member and turn, so that siblings
            differ and a repetition does not; an episode that is played again after a failure (`rollout_retries`) does.
            None sends no seed.
        extra_body: Further fields of the request, as the server wants them.

    Raises:
        ConfigurationError: A value out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_completion_tokens: int | None = None
    stop: str | Sequence[str] | None = None
    seed: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigurationError(f"temperature={self.temperature!r} is not a finite number from 0", "train at 1.0")
        if not 0 < self.top_p <= 1:
            raise ConfigurationError(f"top_p={self.top_p!r} is not in (0, 1]", "train at 1.0")
        if self.max_completion_tokens is not None and self.max_completion_tokens < 1:
            raise ConfigurationError(
                f"max_completion_tokens={self.max_completion_tokens!r} leaves no token", "give at least 1, or None"
            )

    def request_seed(self, scenario_id: str, member: int, turn: int, *, replay: int = 0) -> int | None:
        """Return the seed of one request, in [0, 2**31); None where no seed was given.

        Args:
            scenario_id: The scenario that is played.
            member: The position in the group.
            turn: The reply's number in the episode, from 0.
            replay: How often the episode was played before and failed: the same replies may well fail it again.

        >>> Sampling(seed=7).request_seed("a", 0, 0) == Sampling(seed=7).request_seed("a", 1, 0)
        False
        """
        if self.seed is None:
            return None
        parts = [self.seed, scenario_id, member, turn, *([replay] if replay else [])]
        digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one episode. A limit ends the episode with a `StopReason`; it never raises by itself.

    Attributes:
        max_turns: Replies of the model; the smaller of this and the environment's own holds. None adds no limit.
        request_timeout_s: One request to the model, from its sending to its last byte.
        tool_timeout_s: One `step` of the environment, or each tool call in a `ToolEnvironment`; and one `close`.
        turn_timeout_s: One turn: the request to the model with its retries, and the environment's `step`.
        episode_timeout_s: The whole episode, retries of requests included. None means no limit, for each of the four.
        max_concurrent_steps: `step`s at once, and so replies whose tools run, over all episodes of a `Rollout`. None
            means no limit beside that of the gather. Deadlines of turn and episode run on while one waits for its turn.
        stop_when_truncated: Whether the first reply that was cut off at its token limit ends the episode. If not, it
            goes to the environment's `step`, with the finish reason "length".

    Raises:
        ConfigurationError: A limit that is not positive.
    """

    max_turns: int | None = None
    request_timeout_s: float | None = 300.0
    tool_timeout_s: float | None = 60.0
    turn_timeout_s: float | None = None
    episode_timeout_s: float | None = 1800.0
    max_concurrent_steps: int | None = None
    stop_when_truncated: bool = True

    def __post_init__(self) -> None:
        timeouts = ("request_timeout_s", "tool_timeout_s", "turn_timeout_s", "episode_timeout_s")
        for name in ("max_turns", *timeouts, "max_concurrent_steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(f"{name}={value!r} is not positive", "give more than 0, or None for no limit")
