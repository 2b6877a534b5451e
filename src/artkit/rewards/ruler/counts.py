"""What judging came to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JudgeCounts"]


@dataclass(slots=True, kw_only=True)
class JudgeCounts:
    """What judging came to, over the life of a reward.

    Attributes:
        groups_judged: Groups that the judge gave a verdict on.
        groups_cached: Groups whose verdict was known from before, or was asked for just then by an equal group.
        groups_not_judged: Groups with fewer than two distinct members to compare.
        judge_errors: Groups that the judge failed on for good.
        requests: Requests that were sent, retries and re-asks included.
        retries: Requests that repeated one which the transport lost.
        reasks: Requests that told the judge what was wrong with its reply.
        prompt_tokens: Tokens that the judge read, in every attempt that was answered.
        completion_tokens: Tokens that the judge wrote.
        cost_usd: What that cost, where it is known, in US dollars.
    """

    groups_judged: int = 0
    groups_cached: int = 0
    groups_not_judged: int = 0
    judge_errors: int = 0
    requests: int = 0
    retries: int = 0
    reasks: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
