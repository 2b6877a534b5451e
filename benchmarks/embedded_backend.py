"""What a request and a training step of the embedded backend cost, and what sampling without HTTP saves.

Requests go to the micro model in turns over HTTP, through ART's client as artkit uses it, and straight to the backend:
client, server and arithmetic share the process, so its CPU time is the whole cost.

    python benchmarks/embedded_backend.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from typing import Any

import art
from common import machine, spread

from artkit import make_trainable_model
from artkit.backends.torch import TorchBackend
from artkit.transport import OpenAISamplingClient, SamplingClient, SamplingRequest

__all__ = ["main"]

REQUESTS = 64
TOKENS = 16
PROMPT = "zip of order 47, and then the age of its user"


async def sample(client: SamplingClient, name: str, seed: int) -> tuple[list[art.Trajectory], float, float]:
    """Ask for all replies at once; returns them as trajectories, and CPU and wall seconds."""
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    replies = await asyncio.gather(
        *(
            client.complete(
                SamplingRequest(
                    model=name, messages=messages, max_completion_tokens=TOKENS, seed=seed + number, logprobs=True
                )
            )
            for number in range(REQUESTS)
        )
    )
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    trajectories = [
        art.Trajectory(messages_and_choices=[*messages, reply.choices[0]], reward=float(number % 3))
        for number, reply in enumerate(replies)
    ]
    return trajectories, cpu_s, wall_s


async def measure(directory: str, budget_s: float, rounds: int) -> dict[str, Any]:
    """Both ways in turns, so that a busy moment hits both, and a training step after each round."""
    http_ms, direct_ms, tokens_per_s, train_ms, tokens_trained = [], [], [], [], []
    async with TorchBackend(directory) as backend:
        model = make_trainable_model(
            name="agent", project="benchmark", base_model="artkit/micro", base_path=directory, report_metrics=[]
        )
        await model.register(backend)
        over_http, direct = OpenAISamplingClient(model), backend.sampling_client(model)
        await sample(over_http, model.get_inference_name(), 0)  # opens the connections
        started = time.monotonic()
        for number in range(rounds):
            name = model.get_inference_name()
            _, cpu_s, _ = await sample(over_http, name, 1_000 * number)
            http_ms.append(1e3 * cpu_s / REQUESTS)
            trajectories, cpu_s, wall_s = await sample(direct, name, 1_000 * number)
            direct_ms.append(1e3 * cpu_s / REQUESTS)
            cpu_s = time.process_time()
            groups = [art.TrajectoryGroup(trajectories[start : start + 8]) for start in range(0, REQUESTS, 8)]
            result = await backend.train(model, groups, learning_rate=1e-4)
            train_ms.append(1e3 * (time.process_time() - cpu_s))
            tokens_trained.append(result.metrics["data/step_trainer_tokens"])
            tokens_per_s.append(result.metrics["data/step_trainer_tokens"] / wall_s)
            print(f"round {number}: {http_ms[-1]:.2f} ms, {direct_ms[-1]:.2f} ms", file=sys.stderr)
            if time.monotonic() - started > budget_s:
                break
        await over_http.close()
    return {
        "http_over_direct": spread([http / direct for http, direct in zip(http_ms, direct_ms, strict=True)]),
        "http_cpu_ms_per_request": spread(http_ms),
        "direct_cpu_ms_per_request": spread(direct_ms),
        "direct_trainable_tokens_per_s": spread(tokens_per_s),
        "train_cpu_ms_per_step": spread(train_ms),
        "trained_tokens_per_step": spread(tokens_trained),
        "rounds": len(http_ms),
    }


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s")
    arguments = parser.parse_args()
    budget_s, rounds = (20.0, 5) if arguments.quick else (float("inf"), 30)

    with tempfile.TemporaryDirectory() as directory:
        figures = asyncio.run(measure(directory, budget_s, rounds))
    result = {
        "benchmark": "embedded_backend",
        **figures,
        "requests_at_once": REQUESTS,
        "machine": machine("torch"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
