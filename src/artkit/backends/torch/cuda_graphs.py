"""Capturing work on CUDA, to replay it: where kernels are small, launching them one by one is most of the time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import torch

__all__ = ["captured", "warm_up"]

ResultT = TypeVar("ResultT")

# CUDA captures one graph at a time.
_lock = threading.Lock()


def warm_up(compute: Callable[[], object], device: torch.device, *, times: int) -> None:
    """Compute beside everything else, as CUDA wants it before a capture: libraries prepare themselves."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(times):
            compute()
    torch.cuda.current_stream(device).wait_stream(stream)


def captured(
    compute: Callable[[], ResultT], device: torch.device, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, ResultT]:
    """A graph of what `compute` does, and the tensors that it returned, which each replay writes anew.

    Args:
        compute: Waits for the device nowhere.
        device: Where it computes.
        pool: Memory that is shared with other graphs; None is memory of its own.
    """
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    # Other threads may allocate meanwhile: checkpoints are read while rollouts are sampled.
    capture = torch.cuda.graph(graph, pool=pool, stream=_stream(device), capture_error_mode="thread_local")
    with _lock:
        try:
            with capture:
                outputs = compute()
        finally:
            # A capture that failed leaves its own.
            torch.cuda.set_stream(before)
    return graph, outputs


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all captures on a device: the way back is captured where the way there was."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
