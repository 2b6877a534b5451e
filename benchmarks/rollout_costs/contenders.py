"""The ways to play the same turns."""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from rollout_costs.conversation import ANSWER, QUESTION, TURNS

__all__ = ["CONTENDERS", "Play"]

_PER_GROUP = 4

# Plays one wave: so many rollouts at once, of so many turns; returns how many replies it has got.
Play: TypeAlias = Callable[[int, int], Coroutine[Any, Any, int]]


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


def _art_model(base_url: str) -> Any:
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

    model = _art_model(base_url)

    async def play(rollouts: int, turns: int) -> int:
        scenarios = [Walk(id=str(number), turns=turns) for number in range(rollouts // _PER_GROUP)]
        with model.metrics_builder("train").activate_context():
            gathered = await gather_groups(Rollout(Maze), model, scenarios, rollouts_per_group=_PER_GROUP)
        return _choices_in(gathered.groups)

    return play


def art_loop(base_url: str) -> Play:
    """ART's own gather over a rollout as its examples write it."""
    import art

    model = _art_model(base_url)
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
                art.TrajectoryGroup(rollout(turns) for _ in range(_PER_GROUP)) for _ in range(rollouts // _PER_GROUP)
            )
        return _choices_in(groups)

    return play


def _choices_in(groups: list[Any]) -> int:
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
