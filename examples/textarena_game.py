"""A game of textarena: guess a number from 1 to 20, told only whether it is higher or lower.

python examples/textarena_game.py                       # a scripted model: nothing is learnt, all of it runs
python examples/textarena_game.py --backend embedded    # trains a small model for a few steps; needs the `torch` extra

It needs the `textarena` extra.
"""

import argparse
import asyncio
import os
import random
from typing import Any

# Before torch is loaded: threads that spin while they wait slow a model this small down many times on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import art

from artkit import (
    EnvironmentReward,
    Rollout,
    RunReport,
    Sampling,
    Trainer,
    TrainerSettings,
    make_trainable_model,
)
from artkit.environments.adapters import TextArenaEnvironment, TextArenaScenario, textarena_scenarios
from artkit.testing import ChatServer, DiaryBackend

GAME = "GuessTheNumber-v0"
STEPS = 3
WARM_UP_BATCHES = 100


class BriefGame(TextArenaEnvironment):
    """The same game with few words, for a model that reads letter by letter."""

    async def reset(self, scenario: TextArenaScenario) -> str:
        await super().reset(scenario)
        return "1-20?"


def scripted_model(body: dict[str, Any]) -> str:
    """Guesses what it has not guessed, and listens to no hint."""
    said = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    left = [number for number in range(1, 21) if f"[{number}]" not in said]
    return f"[{random.Random(body['seed']).choice(left)}]"


def next_guess(told: list[str], guesses: list[int], rng: random.Random) -> int:
    """A number that is still possible; not always the best one."""
    low, high = 1, 20
    for guess, hint in zip(guesses, told, strict=False):
        low, high = (max(low, guess + 1), high) if "higher" in hint else (low, min(high, guess - 1))
    return rng.randint(low, max(low, high))


def demonstration(rng: random.Random) -> art.Trajectory:
    """What a novice does in a game."""
    number, guesses, told = rng.randint(1, 20), list[int](), list[str]()
    turns: list[Any] = [{"role": "user", "content": "1-20?"}]
    while number not in guesses and len(guesses) < 4:
        guesses.append(next_guess(told, guesses, rng))
        told.append(f"[GAME] The target number is {'lower' if guesses[-1] > number else 'higher'}.")
        turns += [{"role": "assistant", "content": f"[{guesses[-1]}]"}, {"role": "user", "content": told[-1]}]
    return art.Trajectory(messages_and_choices=turns[:-1])


async def main(backend_name: str = "scripted") -> RunReport:
    model = make_trainable_model(
        name=f"guess-{backend_name}", project="examples", base_model="artkit/micro", report_metrics=[]
    )
    backend: Any
    if backend_name == "scripted":
        backend, world = DiaryBackend(ChatServer(scripted_model)), TextArenaEnvironment
    else:
        from artkit.backends.torch import TorchBackend

        backend, world = TorchBackend(), BriefGame
        await model.register(backend)
        if await model.get_step() == 0:
            # A model that has seen nothing says nothing that could be rewarded: imitation first.
            rng = random.Random(0)
            shown = [demonstration(rng) for _ in range(16 * WARM_UP_BATCHES)]
            await model.train_sft(shown, art.TrainSFTConfig(learning_rate=3e-3, batch_size=16))

    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=Rollout(world, sampling=Sampling(seed=0, max_completion_tokens=6)),
        train=textarena_scenarios(GAME, count=64),
        reward=EnvironmentReward(),  # the game's own: 1 for the number, less the further the last guess was off
        settings=TrainerSettings(learning_rate=5e-4, groups_per_step=4, rollouts_per_group=8, max_steps=STEPS),
    )
    return await trainer.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A game of textarena: guess a number.")
    parser.add_argument("--backend", choices=("scripted", "embedded"), default="scripted")
    asyncio.run(main(parser.parse_args().backend))
