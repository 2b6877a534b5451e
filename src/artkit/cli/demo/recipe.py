"""How the demo trains: the numbers, each with its reason, and the parts they are put into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import art

from artkit import (
    AtEnd,
    AtStart,
    Episode,
    KeepBest,
    KeepLatest,
    ProgrammaticReward,
    RewardAdapter,
    Rollout,
    Sampling,
    ScenarioOrder,
    Score,
    Trainer,
    TrainerSettings,
    Validation,
    make_trainable_model,
)
from artkit.cli.demo.demonstrations import demonstrations
from artkit.cli.demo.order_desk import OrderDesk
from artkit.cli.demo.tasks import held_out_tasks, training_tasks

if TYPE_CHECKING:
    from artkit import Tracker

__all__ = ["Recipe", "grade"]

_WARM_UP_BATCH_SIZE = 16
_WARM_UP_RAMP = 20
_RAMP = 5


async def grade(episode: Episode) -> Score:
    """Score an episode with what the desk paid, and count it as a failure where the desk saw no whole reply.

    An episode whose first reply was cut off never reached the desk. Without `success` it would be missing from the
    mean, and the others would look better than they are.
    """
    return Score(episode.environment_reward, metrics={"success": bool(episode.metrics.get("success"))})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the demo trains.

    Attributes:
        seed: Of weights, demonstrations, the order of tasks, and sampling.
        held_out: How many held-out tasks are played before and after GRPO.
        steps: Training steps by rewards.
        learning_rate: Of those; more makes some seeds collapse.
        warm_up_batches: Batches of demonstrations before them.
        warm_up_learning_rate: Of those, at its height.
        groups_per_step: Four tasks of each of the four fields: with half of them some seeds forget a field, whose
            groups then all fail and teach nothing.
        rollouts_per_group: Enough that a routine which is right once in five is seen in most groups.
        reward: The desk's own: 1 for the right answer, less 0.1 for each malformed command.
    """

    seed: int = 0
    held_out: int = 512
    steps: int = 50
    learning_rate: float = 2e-3
    warm_up_batches: int = 300
    warm_up_learning_rate: float = 5e-3
    groups_per_step: int = 16
    rollouts_per_group: int = 8
    reward: RewardAdapter = field(default_factory=lambda: ProgrammaticReward(grade))

    @property
    def rollout(self) -> Rollout:
        """Plays the order desk; the longest command that the desk knows has eight characters."""
        return Rollout(OrderDesk, sampling=Sampling(seed=self.seed, max_completion_tokens=12))

    def model(self, directory: Path) -> art.TrainableModel[Any, Any]:
        """Make the model: 138,000 parameters, a token for each character; its files go below `directory`."""
        return make_trainable_model(
            name="order-desk",
            project="demo",
            base_model="artkit/micro",
            base_path=str(directory),
            report_metrics=[],
        )

    async def warm_up(self, model: art.TrainableModel[Any, Any]) -> None:
        """Let the registered model imitate a novice, which makes the first step of its checkpoints."""
        count, height = self.warm_up_batches, self.warm_up_learning_rate
        rates = [height * min(1.0, (batch + 1) / _WARM_UP_RAMP, 2 * (count - batch) / count) for batch in range(count)]
        episodes = await demonstrations(training_tasks(self.seed), count=count * _WARM_UP_BATCH_SIZE, seed=self.seed)
        await model.train_sft(episodes, art.TrainSFTConfig(learning_rate=rates, batch_size=_WARM_UP_BATCH_SIZE))

    def trainer(self, model: art.TrainableModel[Any, Any], backend: Any, trackers: Sequence[Tracker]) -> Trainer:
        """Put the parts together."""
        return Trainer(
            model=model,
            backend=backend,
            rollout=self.rollout,
            train=ScenarioOrder(training_tasks(self.seed), shuffle=False),
            reward=self.reward,
            validation=Validation(held_out_tasks()[: self.held_out], schedule=AtStart() | AtEnd(), max_scenarios=None),
            checkpoint_policy=KeepBest() | KeepLatest(),
            trackers=trackers,
            settings=TrainerSettings(
                learning_rate=self.learning_rate,
                groups_per_step=self.groups_per_step,
                rollouts_per_group=self.rollouts_per_group,
                max_steps=self.steps,
                seed=self.seed,
                train_options={
                    # A group's rewards are centred only: dividing by their spread lifts the groups that differ by a
                    # malformed command to the weight of those that differ by the answer.
                    "scale_rewards": False,
                    "warmup_steps": _RAMP,
                    "decay_steps": (self.steps * 7 // 10, self.steps),
                },
            ),
        )
