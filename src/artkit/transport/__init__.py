"""Talking to models: the sampling seam, the client of an OpenAI-compatible server, retries and what an error means."""

from __future__ import annotations

from artkit.errors import EmptyReplyError
from artkit.transport.cancellation import own_cancellation, own_exits
from artkit.transport.concurrency_limit import ConcurrencyLimit
from artkit.transport.deadline import Deadline, pass_on_cancellation
from artkit.transport.errors import (
    is_connection_failure,
    is_context_overflow,
    is_fatal,
    is_retryable,
    retry_after_s,
    status_code,
)
from artkit.transport.interrupts import (
    end_soon_if_interrupted,
    handled_signal,
    is_first_interrupt,
    one_cleanup,
    say_cleanup_runs,
)
from artkit.transport.off_loop import run_off_loop
from artkit.transport.openai_client import OpenAISamplingClient
from artkit.transport.retry import RetryPolicy, call_with_retry, complete_with_retry
from artkit.transport.sampling_client import SamplingClient, SamplingRequest
from artkit.transport.session import sampling_session
from artkit.transport.supervision import AbandonedError, Straggler, Supervision, stragglers_told_to, supervise
from artkit.transport.task_group import first_failure_group

__all__ = [
    "AbandonedError",
    "ConcurrencyLimit",
    "Deadline",
    "EmptyReplyError",
    "OpenAISamplingClient",
    "RetryPolicy",
    "SamplingClient",
    "SamplingRequest",
    "Straggler",
    "Supervision",
    "call_with_retry",
    "complete_with_retry",
    "end_soon_if_interrupted",
    "first_failure_group",
    "handled_signal",
    "is_connection_failure",
    "is_context_overflow",
    "is_fatal",
    "is_first_interrupt",
    "is_retryable",
    "one_cleanup",
    "own_cancellation",
    "own_exits",
    "pass_on_cancellation",
    "retry_after_s",
    "run_off_loop",
    "sampling_session",
    "say_cleanup_runs",
    "status_code",
    "stragglers_told_to",
    "supervise",
]
