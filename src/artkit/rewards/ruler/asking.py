"""Asking a judge until it gives a verdict or the budget is spent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.bridge import is_serving_unavailable, no_capture
from artkit.episodes import FailureKind, FailureRecord
from artkit.errors import ArtkitError, ConfigurationError, JudgeError, OutageError, RewardError
from artkit.rewards.judges import Judge, JudgeReply, Messages, judge_name, read_reply
from artkit.rewards.off_loop import is_async
from artkit.rewards.ruler.prompt import correction, prompt_length
from artkit.rewards.ruler.verdict import Verdict, read_verdict
from artkit.transport import (
    RetryPolicy,
    call_with_retry,
    is_context_overflow,
    is_fatal,
    is_retryable,
    own_cancellation,
    run_off_loop,
    status_code,
)

if TYPE_CHECKING:
    from artkit.rewards.ruler.counts import JudgeCounts
    from artkit.rewards.ruler.spending import Spending

__all__ = ["Asking"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a judge is asked.

    Attributes:
        judge: Whom to ask.
        request_timeout_s: The deadline of one request, in seconds; None is no limit.
        max_retries: How often one request is repeated that the transport lost.
        max_reasks: How often the judge is told what was wrong with its reply.
        retry_policy: How long to wait before a retry.
        spending: Books each reply, and stops at the cap.
        counts: Counts each request.
    """

    judge: Judge
    request_timeout_s: float | None
    max_retries: int
    max_reasks: int
    retry_policy: RetryPolicy
    spending: Spending
    counts: JudgeCounts

    async def __call__(self, messages: Messages, ids: Sequence[str]) -> Verdict:
        """Return the verdict on `ids`.

        Raises:
            JudgeError: There is none: the judge could not be reached, or none of its replies could be used.
            OutageError: There will be none: the judge refuses us, or the cap is reached.
        """
        asked = messages
        for reask in range(self.max_reasks + 1):
            self.counts.reasks += bool(reask)
            reply = await self._reply(asked)
            result = read_verdict(reply, ids, shown=messages)
            if isinstance(result, Verdict):
                return result
            asked = correction(messages, result, ids)
            last = result
        raise JudgeError(
            f"{judge_name(self.judge)} gave no verdict when asked {self.max_reasks + 1} times; of its last reply: "
            f"{last.problem}; it said {last.words[:300]!r}",
            "see what it says to your rubric; a stronger judge or a higher max_reasks may help",
        )

    async def _reply(self, messages: Messages) -> JudgeReply:
        try:
            return await call_with_retry(
                lambda: self._attempt(messages),
                max_retries=self.max_retries,
                policy=self.retry_policy,
                on_retry=self._count_retry,
            )
        except (JudgeError, OutageError, ConfigurationError):
            raise
        except Exception as error:
            raise self._explained(error, messages) from error

    def _count_retry(self) -> None:
        self.counts.retries += 1

    async def _attempt(self, messages: Messages) -> JudgeReply:
        """Send one request."""
        self.spending.check()
        self.counts.requests += 1
        try:
            async with asyncio.timeout(self.request_timeout_s) as deadline:
                with no_capture(), own_cancellation(judge_name(self.judge), JudgeError):
                    reply = read_reply(await _call(self.judge, messages))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimeoutError(f"no reply within request_timeout_s={self.request_timeout_s:g}") from error
        self.spending.book(reply)
        return reply

    def _explained(self, error: Exception, messages: Messages) -> ArtkitError:
        """Return what an exception of the judge means for the run."""
        name = judge_name(self.judge)
        if is_fatal(error) or is_serving_unavailable(error):
            return OutageError(
                f"{name} refuses every request: {error}", "check the judge's name, its key and the rights of that key"
            )
        if is_context_overflow(error):
            return JudgeError(
                f"the judge's context (not the policy's) is too small for a prompt of {prompt_length(messages)} "
                f"characters: {error}",
                "use a judge with a larger context, fewer rollouts per group, or shorter episodes",
            )
        if isinstance(error, ArtkitError):
            return JudgeError(f"{name} failed: {error.problem}", error.hint)
        problem = f"{name} failed: {type(error).__name__}: {error}"
        if is_retryable(error) or status_code(error) is not None:
            hint = "see whether its server runs; a higher max_retries or request_timeout_s helps where it is only busy"
            return JudgeError(problem, hint)
        where = FailureRecord.from_exception(error, FailureKind.REWARD).where
        return JudgeError(problem, f"the judge itself raised it, at {where}: mend it there")


async def _call(judge: Judge, messages: Messages) -> object:
    """Call a judge; one that is not plainly async runs in a thread, for it may take as long as it likes."""
    copies = [dict(message) for message in messages]
    answer: object = (
        judge(copies)
        if is_async(judge)
        else await run_off_loop(lambda: judge(copies), what="a judge", error=RewardError)
    )
    return await answer if inspect.isawaitable(answer) else answer
