"""A rollout that was written for plain ART, trained as it is.

python examples/adapted_rollout.py                       # a scripted model: nothing is learnt, all of it runs
python examples/adapted_rollout.py --backend embedded    # trains a small model for a few steps; needs the `torch` extra

`capture_partial` is the only line about it: the rollout becomes one that resumes, counts and fails like any other, and
where it raises after the model's first turn, what was said until then is kept.
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
    RunReport,
    Scenario,
    Trainer,
    TrainerSettings,
    capture_partial,
    make_trainable_model,
)
from artkit.testing import ChatServer, DiaryBackend

STEPS = 3
WARM_UP_BATCHES = 100


class Count(Scenario):
    number: int


# The existing rollout, unchanged: it builds its trajectory, asks the model's client, and knows nothing of artkit.
async def count_on(model: art.Model[Any, Any], scenario: Count) -> art.Trajectory:
    client = model.openai_client()
    trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": f"after {scenario.number}?"}])
    for reward in (1.0, 0.5):
        completion = await client.chat.completions.create(
            model=model.get_inference_name(), messages=trajectory.messages(), max_completion_tokens=4
        )
        choice = completion.choices[0]
        trajectory.messages_and_choices.append(choice)
        if int(choice.message.content or "") == scenario.number + 1:  # raises where it is no number
            trajectory.reward = reward
            break
        trajectory.messages_and_choices.append({"role": "user", "content": "no"})
    return trajectory


class Unsteady:
    """A scripted model that mostly counts, and sometimes chats, which the rollout cannot take."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def __call__(self, body: dict[str, Any]) -> str:
        number = int(body["messages"][0]["content"].removeprefix("after ").rstrip("?"))
        replies = {str(number + 1): 6, str(number): 3, str(number + 2): 3, "Hello!": 1}
        return self.rng.choices(list(replies), list(replies.values()))[0]


def demonstration(rng: random.Random) -> art.Trajectory:
    """What a novice says, who is off by up to one."""
    number = rng.randint(10, 98)
    turns: list[Any] = [{"role": "user", "content": f"after {number}?"}]
    for _ in range(2):
        said = number + rng.randint(0, 2)
        turns += [{"role": "assistant", "content": str(said)}, {"role": "user", "content": "no"}]
        if said == number + 1:
            break
    return art.Trajectory(messages_and_choices=turns[:-1])


async def main(backend_name: str = "scripted") -> RunReport:
    model = make_trainable_model(
        name=f"count-{backend_name}", project="examples", base_model="artkit/micro", report_metrics=[]
    )
    backend: Any
    if backend_name == "scripted":
        backend = DiaryBackend(ChatServer(Unsteady()))
    else:
        from artkit.backends.torch import TorchBackend

        backend = TorchBackend()
        await model.register(backend)
        if await model.get_step() == 0:
            # A model that has seen nothing says nothing that could be rewarded: imitation first.
            rng = random.Random(0)
            shown = [demonstration(rng) for _ in range(16 * WARM_UP_BATCHES)]
            await model.train_sft(shown, art.TrainSFTConfig(learning_rate=3e-3, batch_size=16))

    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=capture_partial(count_on),
        train=[Count(id=str(number), number=number) for number in range(10, 99)],
        reward=EnvironmentReward(),  # what the rollout said itself
        settings=TrainerSettings(learning_rate=5e-4, groups_per_step=4, rollouts_per_group=8, max_steps=STEPS),
    )
    try:
        return await trainer.run()
    finally:
        await model.openai_client().close()  # the one that the rollout asked by; ART keeps it open


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A rollout that was written for plain ART, trained as it is.")
    parser.add_argument("--backend", choices=("scripted", "embedded"), default="scripted")
    asyncio.run(main(parser.parse_args().backend))
