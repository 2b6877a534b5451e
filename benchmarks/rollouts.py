"""What a rollout costs the client in CPU time, at 1, 4 and 16 turns, beside other ways to play the same turns.

512 rollouts are in flight against a stub server that answers after 20 ms: always the same replies, 24 tokens each with
their ids and log probabilities, and the ids of the prompt, as vLLM sends them to a run that trains. The contenders are

- `bare`: `openai.AsyncOpenAI` on the aiohttp transport, in a loop that appends messages and keeps nothing else;
- `artkit`: `gather_groups(Rollout(environment), model, scenarios)`, at its defaults;
- `art_loop`: `art.gather_trajectory_groups` over a rollout as ART's examples write it: `model.openai_client()`,
  `trajectory.messages()` in each turn, `messages_and_choices.append(choice)`;
- `inspect_ai`, where it is installed: an evaluation of one sample in 512 epochs, whose log it writes.

Every contender has a process of its own for the whole run, so that none pays for what another has imported or left in
memory; after a wave of rollouts that does not count, they take turns, so that a busy moment hits all. What is counted
is the user and system time of that process while it plays one wave of 512 rollouts, the opening of its connections
included (in training the server hangs up on idle ones between two steps); garbage of earlier waves is collected before.
The server has its own process. A wave of more than a minute is played in the first round only; `--quick` leaves out
that of `art_loop` at 16 turns. The bounds: artkit at most 1.5 times `bare` at 4 and at 16 turns, and at most a third of
`art_loop`.

    python benchmarks/rollouts.py [--quick] [--seed N] [--in-flight N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from typing import IO, Any, TypeAlias

__all__ = ["main"]

IN_FLIGHT = 512
QUICK_IN_FLIGHT = 32
PER_GROUP = 4
TURNS = (1, 4, 16)
SLOW_S = 60.0  # a wave that took longer is not repeated
LATENCY_S = 0.02
OPTIONAL = frozenset({"inspect_ai"})
OVER_BARE = 1.5
OVER_ART_LOOP = 1 / 3
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHON_DOTENV_DISABLED": "1",
    "WANDB_MODE": "disabled",
    "WEAVE_DISABLED": "true",
}

QUESTION = "You are in a maze of twisty passages, all alike. Each turn, name the way that you want to go, and why."
ANSWER = "The passage bends twice and ends in another chamber, much like the last one; there are ways north and east."
REPLY_TOKENS = 24
TURN_TOKENS = 48  # of the reply and what the environment says to it

# Plays one wave: so many rollouts at once, of so many turns; returns how many replies it has got.
Play: TypeAlias = Callable[[int, int], Coroutine[Any, Any, int]]

# CPU milliseconds per turn of a rollout, round by round, of a contender at a number of turns.
Measured: TypeAlias = dict[tuple[str, int], list[float]]


# The server ----------------------------------------------------------------------------------------------------------


def reply_text(turn: int) -> str:
    """Return what the model says in a turn."""
    return f"Turn {turn}: I go north this time, for the air that comes from there is fresher than it is in the east."


def response(turn: int) -> bytes:
    """Return the answer to the request of a turn, as it goes over the wire."""
    numbers = random.Random(turn)
    token_ids = [numbers.randrange(150_000) for _ in range(REPLY_TOKENS)]
    prompt_ids = [numbers.randrange(150_000) for _ in range(TURN_TOKENS * (turn + 1))]
    logprobs = [
        {"token": f"token_id:{token}", "logprob": -numbers.random(), "bytes": [116, 111, 107], "top_logprobs": []}
        for token in token_ids
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": reply_text(turn), "refusal": None, "tool_calls": []},
        "logprobs": {"content": logprobs},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": token_ids,
    }
    usage = {"prompt_tokens": len(prompt_ids), "completion_tokens": REPLY_TOKENS}
    body = json.dumps(
        {
            "id": f"chatcmpl-{turn}",
            "object": "chat.completion",
            "created": 1_750_000_000,
            "model": "policy",
            "choices": [choice],
            "usage": {**usage, "total_tokens": sum(usage.values())},
            "prompt_token_ids": prompt_ids,
        },
        separators=(",", ":"),
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Stub(asyncio.Protocol):
    """One connection: whatever is posted is answered after the latency, as far as its conversation has come.

    A server's framework would cost more than the clients that are measured, so it knows just enough of HTTP.
    """

    responses = tuple(response(turn) for turn in range(max(TURNS)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(maxsplit=1)[0]):
            return
        self._data = b""
        turn = body.count(b'"assistant"')
        asyncio.get_running_loop().call_later(LATENCY_S, self._transport.write, self.responses[turn])


async def serve() -> None:
    """Serve on a free port of loopback, which is printed, until standard input ends."""
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=2 * IN_FLIGHT)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


# The contenders ------------------------------------------------------------------------------------------------------


def bare(base_url: str) -> Play:
    """The OpenAI client on the aiohttp transport, and a list of messages."""
    import openai

    async def rollout(client: openai.AsyncOpenAI, turns: int) -> int:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        for _ in range(turns):
            completion = await client.chat.completions.create(
                model="policy", messages=messages, temperature=1.0, top_p=1.0, logprobs=True
            )
            messages.append({"role": "assistant", "content": completion.choices[0].message.content})
            messages.append({"role": "user", "content": ANSWER})
        return turns

    async def play(rollouts: int, turns: int) -> int:
        http_client = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", http_client=http_client) as client:
            return sum(await asyncio.gather(*(rollout(client, turns) for _ in range(rollouts))))

    return play


def art_model(base_url: str) -> Any:
    """Return a trainable model with an endpoint and a price: what a run has that trains on another machine."""
    from artkit import make_trainable_model

    model = make_trainable_model(
        name="policy",
        project="rollouts",
        base_model="Qwen/Qwen3-8B",
        base_path=tempfile.gettempdir(),
        report_metrics=[],
    )
    model.inference_base_url, model.inference_api_key = base_url, "none"
    return model


def artkit(base_url: str) -> Play:
    """`gather_groups` over a `Rollout`, without a reward, as `art_loop` has none."""
    from artkit import Environment, Rollout, Scenario, StepResult, gather_groups

    class Walk(Scenario):
        turns: int

    class Maze(Environment[Walk]):
        max_turns = max(TURNS)

        async def reset(self, scenario: Walk) -> str:
            self.turns_left = scenario.turns
            return QUESTION

        async def step(self, action: Any) -> StepResult:
            self.turns_left -= 1
            return StepResult(messages=ANSWER, done=not self.turns_left)

    model = art_model(base_url)

    async def play(rollouts: int, turns: int) -> int:
        scenarios = [Walk(id=str(number), turns=turns) for number in range(rollouts // PER_GROUP)]
        with model.metrics_builder("train").activate_context():
            gathered = await gather_groups(Rollout(Maze), model, scenarios, rollouts_per_group=PER_GROUP)
        return choices_in(gathered.groups)

    return play


def art_loop(base_url: str) -> Play:
    """ART's own gather over a rollout as its examples write it."""
    import art

    model = art_model(base_url)
    gather: Any = art.gather_trajectory_groups  # its types do not know that a group of awaitables is awaitable

    async def rollout(turns: int) -> art.Trajectory:
        client = model.openai_client()
        trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": QUESTION}], reward=0)
        for _ in range(turns):
            completion = await client.chat.completions.create(
                model=model.get_inference_name(), messages=trajectory.messages(), logprobs=True
            )
            trajectory.messages_and_choices.append(completion.choices[0])
            trajectory.messages_and_choices.append({"role": "user", "content": ANSWER})
        return trajectory

    async def play(rollouts: int, turns: int) -> int:
        with model.metrics_builder("train").activate_context():
            groups = await gather(
                art.TrajectoryGroup(rollout(turns) for _ in range(PER_GROUP)) for _ in range(rollouts // PER_GROUP)
            )
        return choices_in(groups)

    return play


def choices_in(groups: list[Any]) -> int:
    """How many replies with log probabilities the groups hold."""
    turns = [turn for group in groups for trajectory in group.trajectories for turn in trajectory.messages_and_choices]
    return sum(getattr(turn, "logprobs", None) is not None for turn in turns)


def inspect_ai(base_url: str) -> Play:
    """One sample, evaluated in as many epochs as there are rollouts, by a solver that says the same things."""
    # Not among artkit's dependencies, so no type checker need find it.
    root, dataset, models, solvers = (
        importlib.import_module(f"inspect_ai{name}") for name in ("", ".dataset", ".model", ".solver")
    )

    def walk(turns: int) -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            for _ in range(turns):
                state = await generate(state)
                state.messages.append(models.ChatMessageUser(content=ANSWER))
            return state

        return solve

    async def play(rollouts: int, turns: int) -> int:
        # A model's connections are bound to the limit that it is made with, so each wave has its own.
        config = models.GenerateConfig(temperature=1.0, top_p=1.0, logprobs=True, max_connections=rollouts)
        model = models.get_model(
            "openai-api/stub/policy", base_url=base_url, api_key="none", config=config, memoize=False
        )
        task = root.Task(dataset=[dataset.Sample(input=QUESTION)], epochs=rollouts, solver=solvers.solver(walk)(turns))
        with tempfile.TemporaryDirectory() as directory:
            logs = await root.eval_async(
                task, model=model, score=False, max_samples=rollouts, log_dir=directory, display="none"
            )
        samples = logs[0].samples or []
        return sum(message.role == "assistant" for sample in samples for message in sample.messages)

    return play


CONTENDERS: dict[str, Callable[[str], Play]] = {
    "bare": bare,
    "artkit": artkit,
    "art_loop": art_loop,
    "inspect_ai": inspect_ai,
}


def work(name: str, base_url: str) -> None:
    """Play a wave for each line of standard input, `rollouts turns`, and print its CPU and wall seconds and replies."""
    # What a contender prints is not an answer.
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    play = CONTENDERS[name](base_url)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            rollouts, turns = map(int, line.split())
            gc.collect()
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            replies = runner.run(play(rollouts, turns))
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            print(cpu_s, wall_s, replies, file=answers, flush=True)


# The benchmark -------------------------------------------------------------------------------------------------------


class Process:
    """This script in another process, in one of its two other roles; it ends with the `with` that it is opened in."""

    def __init__(self, *role: str, log: IO[str]) -> None:
        self._role = role[0]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--role", *role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def ask(self, question: str = "") -> list[str]:
        """Send a line, if there is one, and return the words of the next line that it prints."""
        if question:
            print(question, file=self._process.stdin, flush=True)
        words = self._process.stdout.readline().split() if self._process.stdout else []
        if not words:
            raise RuntimeError(f"the process of {self._role} ended")
        return words

    def wave(self, rollouts: int, turns: int) -> tuple[float, float]:
        """CPU and wall seconds of one wave."""
        cpu_s, wall_s, replies = map(float, self.ask(f"{rollouts} {turns}"))
        if replies != rollouts * turns:
            sys.exit(f"{self._role} got {replies:.0f} replies, not {rollouts * turns}")
        return cpu_s, wall_s

    def close(self) -> None:
        self._process.terminate()  # it may be in the middle of a wave
        self._process.communicate()


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def measure(names: list[str], *, in_flight: int, rounds: int, budget_s: float, chance: random.Random) -> Measured:
    """Return the CPU milliseconds per turn of a rollout, of each contender and number of turns, round by round."""
    measured: Measured = {(name, turns): [] for name in names for turns in TURNS}
    if budget_s < SLOW_S:
        measured.pop(("art_loop", 16), None)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        server = stack.enter_context(contextlib.closing(Process("server", log=log)))
        base_url = f"http://127.0.0.1:{server.ask()[0]}/v1"
        processes = {name: stack.enter_context(contextlib.closing(Process(name, base_url, log=log))) for name in names}
        try:
            for process in processes.values():
                process.wave(in_flight, 1)  # the first request imports a good deal
            started = time.monotonic()
            for done in range(rounds):
                if done and time.monotonic() - started > budget_s * done / (done + 1):
                    break  # another round would take too long
                for name, turns in chance.sample(sorted(measured), len(measured)):
                    cpu_ms = measured[name, turns]
                    if cpu_ms and cpu_ms[-1] * in_flight * turns > 1_000 * SLOW_S:
                        continue
                    cpu_s, wall_s = processes[name].wave(in_flight, turns)
                    cpu_ms.append(1_000 * cpu_s / (in_flight * turns))
                    print(f"{turns:2} turns, {name}: {cpu_s:.2f} s of CPU in {wall_s:.2f} s", file=sys.stderr)
        except BaseException:
            log.seek(0)
            print(log.read()[-4_000:], file=sys.stderr)
            raise
    return measured


def ratios(measured: Measured, name: str) -> dict[str, list[float]]:
    """Return how many times what `name` costs artkit does, round by round."""
    return {
        f"cpu_per_rollout_vs_{name}_{turns}_turns": [
            ours / theirs[min(number, len(theirs) - 1)] for number, ours in enumerate(measured["artkit", turns])
        ]
        for turns in TURNS
        if (theirs := measured.get((name, turns)))
    }


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_IN_FLIGHT} rollouts in flight, within 50 s")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="rollouts at once (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of whose turn it is (default 0)")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.role:
        case ["server"]:
            asyncio.run(serve())
            return
        case [name, base_url]:
            work(name, base_url)
            return
    names = [name for name in CONTENDERS if name not in OPTIONAL or importlib.util.find_spec(name)]
    in_flight, rounds, budget_s = (
        (QUICK_IN_FLIGHT, 5, 25.0) if arguments.quick else (arguments.in_flight, 5, float("inf"))
    )
    measured = measure(
        names, in_flight=in_flight, rounds=rounds, budget_s=budget_s, chance=random.Random(arguments.seed)
    )

    compared = {key: values for name in names if name != "artkit" for key, values in ratios(measured, name).items()}
    medians = {key: statistics.median(values) for key, values in compared.items()}
    result = {
        "benchmark": "rollouts",
        **{key: spread(values) for key, values in compared.items()},
        "artkit_cpu_per_turn_16_vs_4_turns": spread(
            [many / few for few, many in zip(measured["artkit", 4], measured["artkit", 16], strict=True)]
        ),
        **{f"{name}_cpu_ms_per_turn_{turns}_turns": spread(values) for (name, turns), values in measured.items()},
        "bound_vs_bare": OVER_BARE,
        "bound_vs_art_loop": round(OVER_ART_LOOP, 3),
        "within_bounds": all(
            medians.get(f"cpu_per_rollout_vs_{name}_{turns}_turns", 0) <= bound
            for name, bound in (("bare", OVER_BARE), ("art_loop", OVER_ART_LOOP))
            for turns in (4, 16)
        ),
        "not_installed": sorted(OPTIONAL - set(names)),
        "in_flight": in_flight,
        "latency_s": LATENCY_S,
        "seed": arguments.seed,
        "rounds": len(measured["artkit", 1]),
        "machine": {
            "python": platform.python_version(),
            "openpipe_art": importlib.metadata.version("openpipe-art"),
            "system": platform.system(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
        },
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
