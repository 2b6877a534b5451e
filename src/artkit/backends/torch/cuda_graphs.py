"""Capturing work on CUDA, to replay it: where kernels are small, launching them one by one is most of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

__all__ = ["bucket", "captured", "fine_bucket", "warm_up"]

ResultT = TypeVar("ResultT")


def bucket(count: int, least: int) -> int:
    """The next power of two: of few sizes, few graphs are captured."""
    return max(least, 1 << (count - 1).bit_length())


def fine_bucket(count: int, least: int) -> int:
    """The next power of two, or three quarters of it: what is done for nothing is a quarter on average at most."""
    power = bucket(count, least)
    return power * 3 // 4 if power > least and count <= power * 3 // 4 else power


def warm_up(compute: Callable[[], object], device: torch.device, *, times: int) -> None:
    """Compute beside everything else, as CUDA wants it before a capture: libraries prepare themselves."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(times):
            compute()
    torch.cuda.current_stream(device).wait_stream(stream)


def captured(compute: Callable[[], ResultT], pool: Any = None) -> tuple[torch.cuda.CUDAGraph, ResultT]:
    """A graph of what `compute` does, and the tensors that it returned, which each replay writes anew.

    Args:
        compute: Waits for the device nowhere.
        pool: Memory that is shared with other graphs; None is memory of its own.
    """
    graph = torch.cuda.CUDAGraph()
    # Other threads may allocate meanwhile: checkpoints are read while rollouts are sampled.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        outputs = compute()
    return graph, outputs
