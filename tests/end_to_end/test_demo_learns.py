"""The demo's model gets better because of its rewards, and of nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from artkit import RewardAdapter, Score
from artkit.backends.torch import TorchBackend
from artkit.cli.demo.recipe import Recipe, grade
from artkit.cli.demo.summary import Figures

if TYPE_CHECKING:
    import art

# The fixture counts towards the first test's time.
pytestmark = pytest.mark.timeout(180)

SMALL = Recipe(seed=1, held_out=128, warm_up_batches=200, steps=8)


async def warm_up(directory: Path) -> None:
    model, backend = SMALL.model(directory), TorchBackend(directory, seed=SMALL.seed)
    try:
        await model.register(backend)
        await SMALL.warm_up(model)
    finally:
        await backend.close()


async def train(directory: Path, recipe: Recipe) -> dict[str, Any]:
    trainer = recipe.trainer(recipe.model(directory), TorchBackend(directory, seed=recipe.seed), trackers=())
    return Figures.measured((await trainer.run()).history)


@pytest.fixture(scope="module")
def warmed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that imitates the novice, made once for all tests here."""
    directory = tmp_path_factory.mktemp("warmed-up")
    asyncio.run(warm_up(directory))
    return directory


@pytest.fixture
def directory(warmed_up: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(warmed_up, tmp_path / "run"))


class ShuffledReward(RewardAdapter):
    """The group's rewards, handed to its members at random."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    async def score(self, group: art.TrajectoryGroup) -> list[Score]:
        scores = [await grade(trajectory) for trajectory in group.trajectories]
        values = self._random.sample([score.value for score in scores], len(scores))
        return [dataclasses.replace(score, value=value) for score, value in zip(scores, values, strict=True)]


async def test_rewards_make_it_better(directory: Path) -> None:
    """A few steps already take it from rarely right to mostly right, on tasks it never saw."""
    measured = await train(directory, SMALL)

    assert measured["success_before"] < 0.3
    assert measured["success_after"] > 0.5


async def test_a_learning_rate_of_zero_changes_nothing(directory: Path) -> None:
    """With the same weights and seeds, validation is the same to the last digit."""
    measured = await train(directory, dataclasses.replace(SMALL, learning_rate=0.0, steps=2))

    assert measured["success_after"] == measured["success_before"]
    assert measured["val_reward_after"] == measured["val_reward_before"]


async def test_rewards_that_say_nothing_teach_nothing(directory: Path) -> None:
    """Shuffled among a group's members, the same rewards do not lift success."""
    measured = await train(directory, dataclasses.replace(SMALL, reward=ShuffledReward(), steps=5))

    assert measured["success_after"] <= measured["success_before"] + 0.1
