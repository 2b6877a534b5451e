"""One prompt, one reply: tasks from a file of JSON lines, graded by a program.

python examples/jsonl_task.py                       # a scripted model: nothing is learnt, all of it runs
python examples/jsonl_task.py --backend embedded    # trains a small model for a few steps; needs the `torch` extra
"""

import argparse
import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

# Before torch is loaded: threads that spin while they wait slow a model this small down many times on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import art

from artkit import (
    AtEnd,
    AtStart,
    ProgrammaticReward,
    PromptScenario,
    Rollout,
    RunReport,
    Sampling,
    SingleTurnEnvironment,
    Trainer,
    TrainerSettings,
    Validation,
    load_jsonl,
    make_trainable_model,
    number_match,
    split_scenarios,
)
from artkit.testing import ChatServer, DiaryBackend

TASKS = Path("sums.jsonl")
STEPS = 3
WARM_UP_BATCHES = 100


def make_tasks(path: Path) -> None:
    rows = [{"question": f"{left}+{right}=", "answer": str(left + right)} for left in range(20) for right in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def scripted_model(body: dict[str, Any]) -> str:
    """Counts right half of the time."""
    left, right = body["messages"][-1]["content"].rstrip("=").split("+")
    return str(int(left) + int(right) + random.Random(body["seed"]).randint(0, 1))


def demonstration(task: PromptScenario, rng: random.Random) -> art.Trajectory:
    """What a novice says, who is off by up to two."""
    said = str(int(task.label) + rng.randint(-2, 2))
    messages: list[Any] = [*task.messages, {"role": "assistant", "content": said}]
    return art.Trajectory(messages_and_choices=messages)


async def main(backend_name: str = "scripted") -> RunReport:
    make_tasks(TASKS)
    # An id of each task is made of its content; which side it is on follows from that id.
    train, held_out = split_scenarios(load_jsonl(TASKS, prompt_key="question", label_key="answer"), validation=0.1)
    model = make_trainable_model(
        name=f"sums-{backend_name}", project="examples", base_model="artkit/micro", report_metrics=[]
    )
    backend: Any
    if backend_name == "scripted":
        backend = DiaryBackend(ChatServer(scripted_model))
    else:
        from artkit.backends.torch import TorchBackend

        backend = TorchBackend()
        await model.register(backend)
        if await model.get_step() == 0:
            # A model that has seen nothing says nothing that could be rewarded: imitation first.
            rng = random.Random(0)
            shown = [demonstration(rng.choice(train), rng) for _ in range(16 * WARM_UP_BATCHES)]
            await model.train_sft(shown, art.TrainSFTConfig(learning_rate=3e-3, batch_size=16))

    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=Rollout(SingleTurnEnvironment, sampling=Sampling(seed=0, max_completion_tokens=4)),
        train=train,
        reward=ProgrammaticReward(number_match()),
        validation=Validation(held_out, schedule=AtStart() | AtEnd()),
        settings=TrainerSettings(learning_rate=5e-4, groups_per_step=4, rollouts_per_group=8, max_steps=STEPS),
    )
    return await trainer.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tasks from a file of JSON lines, graded by a program.")
    parser.add_argument("--backend", choices=("scripted", "embedded"), default="scripted")
    asyncio.run(main(parser.parse_args().backend))
