"""What `artkit demo` does, as a script to change: warm up, train by rewards, ask the trained model.

python examples/order_desk.py

It needs the `torch` extra and about a minute. Run again, it goes on where it stopped. The world and its tasks are in
`artkit.cli.demo`; the README shows the world in full.
"""

import asyncio
import os

# Before torch is loaded: threads that spin while they wait slow a model this small down many times on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import art

from artkit import (
    AtEnd,
    AtStart,
    Episode,
    Every,
    KeepBest,
    KeepLatest,
    ProgrammaticReward,
    Rollout,
    Sampling,
    ScenarioOrder,
    Score,
    Trainer,
    TrainerSettings,
    Validation,
    make_trainable_model,
)
from artkit.backends.torch import TorchBackend
from artkit.cli.demo.demonstrations import demonstrations
from artkit.cli.demo.order_desk import OrderDesk
from artkit.cli.demo.tasks import held_out_tasks, training_tasks

SEED = 0
WARM_UP_BATCHES = 300
STEPS = 50
HELD_OUT = 256


async def grade(episode: Episode) -> Score:
    # What the desk paid. A reply that was cut off never reached the desk, and counts as a failure too.
    return Score(episode.environment_reward, metrics={"success": bool(episode.metrics.get("success"))})


async def main() -> None:
    model = make_trainable_model(
        name="order-desk", run_name=f"seed-{SEED}", project="examples", base_model="artkit/micro", report_metrics=[]
    )
    backend = TorchBackend(seed=SEED)
    rollout = Rollout(OrderDesk, sampling=Sampling(seed=SEED, max_completion_tokens=12))
    tasks = training_tasks(SEED)

    await model.register(backend)
    if await model.get_step() == 0:
        # Imitation first: the commands and the copying of numbers, from episodes that succeed one time in five.
        episodes = await demonstrations(tasks, count=16 * WARM_UP_BATCHES, seed=SEED)
        ramp_and_decay = [
            5e-3 * min(1.0, (batch + 1) / 20, 2 - 2 * batch / WARM_UP_BATCHES) for batch in range(WARM_UP_BATCHES)
        ]
        await model.train_sft(episodes, art.TrainSFTConfig(learning_rate=ramp_and_decay, batch_size=16))

    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=rollout,
        # The tasks come in an order of their own: each batch of 16 has the four fields equally often.
        train=ScenarioOrder(tasks, shuffle=False),
        reward=ProgrammaticReward(grade),
        validation=Validation(
            held_out_tasks()[:HELD_OUT], schedule=AtStart() | Every(20) | AtEnd(), max_scenarios=None
        ),
        checkpoint_policy=KeepBest() | KeepLatest(),
        settings=TrainerSettings(
            learning_rate=2e-3,
            groups_per_step=16,
            rollouts_per_group=8,
            max_steps=STEPS,
            seed=SEED,
            train_options={"scale_rewards": False, "warmup_steps": 5, "decay_steps": (STEPS * 7 // 10, STEPS)},
        ),
    )
    report = await trainer.run()

    # The trainer has closed its backend; another one opens the same checkpoints.
    backend = TorchBackend(seed=SEED)
    try:
        await model.register(backend)
        show(await rollout(model, held_out_tasks()[0]))
        print(f"best: step {report.best_step} with a mean reward of {report.best_value:.3f}")
    finally:
        await backend.close()


def show(episode: Episode) -> None:
    for message in episode.messages():
        print(f"{message['role']:<9}  {message['content']}")
    print(f"reward     {episode.reward:g}")


if __name__ == "__main__":
    asyncio.run(main())
