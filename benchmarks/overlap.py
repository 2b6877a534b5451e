"""How much faster steps come when the rollouts of the next step are played while a step trains.

The demo's model, warmed up once, learns the demo's task with tools that take 200 ms a call, and with training steps
that take as long as a gather: where a step is done sooner, the rest of it passes idle, as on a trainer elsewhere. Both
ways, `max_staleness=0` and `max_staleness=1`, start from copies of the same checkpoint with the same seed, and take
turns, round by round. What is counted is the time from the end of the first step to the end of the last. Two longer
runs without the waits then show what is learnt from the same number of samples.

The bound: at least 1.6 times the steps per minute, and a reward on held-out tasks after the same number of samples
whose interval overlaps that of the other.

    python benchmarks/overlap.py [--quick] [--seed N] [--rounds N] [--steps N] [--learning-steps N]
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import machine, spread

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", PYTHON_DOTENV_DISABLED="1", WANDB_MODE="disabled")

from artkit import Action, AtEnd, Rollout, ScenarioOrder, StepResult, Trainer, TrainerSettings, Validation
from artkit.backends.torch import TorchBackend
from artkit.cli.demo.order_desk import OrderDesk
from artkit.cli.demo.recipe import Recipe
from artkit.cli.demo.tasks import held_out_tasks, training_tasks
from artkit.tracking import StepFinished, ValidationFinished

__all__ = ["main"]

TOOL_S = 0.2
# Half of the demo's, which with samples one step old moves the policy too far: there the run that overlaps collapses.
LEARNING_RATE = 1e-3
BOUND = 1.6
CALIBRATION_STEPS = 3
STALENESS = (0, 1)
REWARD = ("reward", "reward_low", "reward_high")


class SlowDesk(OrderDesk):
    """The demo's world behind tools that take their time."""

    tool_s = TOOL_S

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(self.tool_s)
        return await super().step(action)


class FastDesk(SlowDesk):
    """The same without the wait: what is learnt from so many samples does not depend on it."""

    tool_s = 0.0


class TimedBackend(TorchBackend):
    """Trains for at least so long, and knows how long the gathers before took.

    Args:
        path: As for `TorchBackend`.
        train_s: The least that a step takes, in seconds.
        seed: As for `TorchBackend`.
    """

    def __init__(self, path: Path, *, train_s: float, seed: int) -> None:
        super().__init__(path, seed=seed)
        self.gathers_s: list[float] = []
        self._train_s = train_s
        self._ended_s: float | None = None

    async def train(self, *arguments: Any, **options: Any) -> Any:
        began_s = time.monotonic()
        if self._ended_s is not None:
            self.gathers_s.append(began_s - self._ended_s)
        result = await super().train(*arguments, **options)
        await asyncio.sleep(max(0.0, self._train_s - (time.monotonic() - began_s)))
        self._ended_s = time.monotonic()
        return result


class Clock:
    """A tracker that notes when steps ended and what the last validation found."""

    def __init__(self) -> None:
        self.ended_s: list[float] = []
        self.validated: dict[str, float] = {}

    def handle(self, event: object) -> None:
        """Note one event."""
        if isinstance(event, StepFinished):
            self.ended_s.append(time.monotonic())
        elif isinstance(event, ValidationFinished):
            self.validated = {name.rpartition("/")[2]: value for name, value in event.metrics.items()}

    @property
    def steps_per_minute(self) -> float:
        """From the end of the first step to the end of the last."""
        return 60 * (len(self.ended_s) - 1) / (self.ended_s[-1] - self.ended_s[0])


async def warm_up(recipe: Recipe, directory: Path) -> None:
    """Make the checkpoint that all runs start from."""
    model, backend = recipe.model(directory), TorchBackend(directory, seed=recipe.seed)
    try:
        await model.register(backend)
        await recipe.warm_up(model)
    finally:
        await backend.close()


async def run(recipe: Recipe, directory: Path, *, staleness: int, train_s: float) -> tuple[Clock, TimedBackend]:
    """Train in `directory`."""
    clock, backend = Clock(), TimedBackend(directory, train_s=train_s, seed=recipe.seed)
    trainer = Trainer(
        model=recipe.model(directory),
        backend=backend,
        rollout=Rollout(SlowDesk if train_s else FastDesk, sampling=recipe.rollout.sampling),
        train=ScenarioOrder(training_tasks(recipe.seed), shuffle=False),
        reward=recipe.reward,
        validation=Validation(held_out_tasks()[: recipe.held_out], schedule=AtEnd(), max_scenarios=None),
        trackers=(clock,),
        settings=TrainerSettings(
            learning_rate=LEARNING_RATE,
            groups_per_step=recipe.groups_per_step,
            rollouts_per_group=recipe.rollouts_per_group,
            max_steps=recipe.steps,
            max_staleness=staleness,
            seed=recipe.seed,
            check_environment=False,
            train_options={"scale_rewards": False, "warmup_steps": 5},
        ),
    )
    await trainer.run()
    return clock, backend


def agree(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether the intervals of two validations overlap."""
    return one["reward_low"] <= other["reward_high"] and other["reward_low"] <= one["reward_high"]


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of 5 steps, within 50 s")
    parser.add_argument("--seed", type=int, default=0, help="of the runs (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--steps", type=int, default=12, help="of each run that is timed (default %(default)s)")
    parser.add_argument(
        "--learning-steps",
        type=int,
        default=64,
        help="of the two runs whose rewards are compared (default %(default)s)",
    )
    arguments = parser.parse_args()
    rounds, steps, learning_steps, held_out = arguments.rounds, arguments.steps, arguments.learning_steps, 512
    if arguments.quick:
        rounds, steps, learning_steps, held_out = 1, 5, 5, 128
    recipe = Recipe(seed=arguments.seed, held_out=1, steps=steps)
    clocks: dict[int, list[Clock]] = {staleness: [] for staleness in STALENESS}
    with tempfile.TemporaryDirectory() as name:
        start = Path(name) / "start"
        asyncio.run(warm_up(recipe, start))

        def once(recipe: Recipe, *, staleness: int, train_s: float) -> tuple[Clock, TimedBackend]:
            directory = Path(shutil.copytree(start, Path(name) / "run"))
            try:
                return asyncio.run(run(recipe, directory, staleness=staleness, train_s=train_s))
            finally:
                shutil.rmtree(directory)

        calibration = dataclasses.replace(recipe, steps=CALIBRATION_STEPS, held_out=1)
        _, calibrated = once(calibration, staleness=0, train_s=sys.float_info.min)
        gather_s = statistics.median(calibrated.gathers_s)
        for _ in range(rounds):
            for staleness in STALENESS:
                clock, _ = once(recipe, staleness=staleness, train_s=gather_s)
                clocks[staleness].append(clock)
                print(f"max_staleness={staleness}: {clock.steps_per_minute:.1f} steps/min", file=sys.stderr)
        learning = dataclasses.replace(recipe, steps=learning_steps, held_out=held_out)
        rewards = [once(learning, staleness=staleness, train_s=0.0)[0].validated for staleness in STALENESS]
    ratios = [ahead.steps_per_minute / sync.steps_per_minute for sync, ahead in zip(*clocks.values(), strict=True)]
    rewards_agree = agree(*rewards)
    result = {
        "benchmark": "overlap",
        "steps_per_minute_vs_sync": spread(ratios),
        "bound": BOUND,
        **{
            f"steps_per_minute_staleness_{staleness}": spread([clock.steps_per_minute for clock in of])
            for staleness, of in clocks.items()
        },
        **{
            f"reward_staleness_{staleness}": {key: round(validated[key], 3) for key in REWARD}
            for staleness, validated in zip(STALENESS, rewards, strict=True)
        },
        "rewards_agree": rewards_agree,
        "within_bounds": statistics.median(ratios) >= BOUND and rewards_agree,
        "tool_s": TOOL_S,
        "gather_s": round(gather_s, 3),
        "steps": steps,
        "learning_steps": learning_steps,
        "rounds": rounds,
        "seed": arguments.seed,
        "machine": machine("openpipe-art", "torch"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
