"""How long a GRPO step takes with the embedded backend, beside TRL's `GRPOTrainer`, which has no HTTP.

One step is: sample 8 groups of 8 replies, give each a reward, and take one optimiser step on all of them. Ours makes 64
requests at once, builds ART's trajectories and trains, which saves a checkpoint; TRL's saves nothing. The requests go
to the backend's endpoint, with artkit's own client (`--route http`, the default on a CPU), or to the client that the
backend hands out for its own process, which is what artkit's rollouts use there (`--route direct`, the default on a
GPU). Both sides start from the same weights and see the same prompts, fresh ones in each round; replies end where the
model ends them, and in a group no two rewards are the same, so every reply is trained on. Each side has a process of
its own, because ART changes transformers' code; they run in turns, so that a busy moment hits both.

The model is the micro model on a CPU, with 40 tokens of prompt and 16 of reply; on a GPU it is SmolLM2, in bfloat16,
with 40 and up to 72. The bounds: at least as fast as TRL on a CPU, and ten times on a GPU.

    python benchmarks/train_step.py [--quick] [--seed N] [--smollm2 [DIRECTORY]] [--device cuda] [--lora]
                                    [--route http|direct]

TRL is no requirement of artkit: `pip install "trl==1.16"`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from common import Side, find_smollm2, machine, save_micro, spread

if TYPE_CHECKING:
    from artkit.transport import SamplingClient

__all__ = ["main"]

GROUPS = 8
MEMBERS = 8
LEARNING_RATE = 1e-5
SIDES = ("artkit", "trl")
WARM_UP = 2
TRL = "trl==1.16"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What a device is measured with unless it is told otherwise.

    Attributes:
        completion: The most tokens of a reply.
        bound: How many times as fast as TRL ours has to be.
    """

    dtype: str
    route: str
    completion: int
    bound: float


PRESETS = {
    "cpu": Preset(dtype="float32", route="http", completion=16, bound=1.0),
    "cuda": Preset(dtype="bfloat16", route="direct", completion=72, bound=10.0),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What both sides do.

    Attributes:
        directory: A Hugging Face directory.
        base_model: What ours is told to train: the directory, or the name of the micro model, which is in it.
        prompts: For each round, the user's message of each group.
        completion: The most tokens of a reply.
        route: How ours samples: `http`, or `direct`.
        lora: The adapters in peft's words, those of `LoraSettings()`; None trains all parameters.
        threads: Of PyTorch, on a CPU.
    """

    directory: str
    base_model: str
    prompts: list[list[str]]
    completion: int
    device: str
    dtype: str
    route: str
    lora: dict[str, Any] | None
    seed: int
    threads: int


def serve_artkit(setting: Setting) -> None:
    """Take our steps."""
    asyncio.run(_artkit_steps(setting))


async def _artkit_steps(setting: Setting) -> None:
    import art
    import torch

    from artkit import make_trainable_model
    from artkit.backends.torch import LoraSettings, TorchBackend
    from artkit.transport import OpenAISamplingClient, SamplingRequest

    torch.set_num_threads(setting.threads)
    with tempfile.TemporaryDirectory() as directory:
        backend = TorchBackend(
            directory,
            setting.device,
            cast("Any", setting.dtype),
            lora=LoraSettings() if setting.lora else None,
            seed=setting.seed,
        )
        async with backend:
            model = make_trainable_model(
                name="agent",
                project="benchmark",
                base_model=setting.base_model,
                base_path=directory,
                report_metrics=[],
            )
            await model.register(backend)
            client: SamplingClient = (
                OpenAISamplingClient(model) if setting.route == "http" else backend.sampling_client(model)
            )

            async def play(name: str, text: str, seed: int, reward: float) -> art.Trajectory:
                messages: list[Any] = [{"role": "user", "content": text}]
                request = SamplingRequest(
                    model=name,
                    messages=messages,
                    max_completion_tokens=setting.completion,
                    seed=seed,
                    logprobs=True,
                )
                reply = await client.complete(request)
                return art.Trajectory(messages_and_choices=[*messages, reply.choices[0]], reward=reward)

            async def step(number: int) -> int:
                name = model.get_inference_name()
                trajectories = await asyncio.gather(
                    *(
                        play(name, text, 1_000 * number + MEMBERS * group + member, float(member))
                        for group, text in enumerate(setting.prompts[number])
                        for member in range(MEMBERS)
                    )
                )
                groups = [
                    art.TrajectoryGroup(trajectories[start : start + MEMBERS])
                    for start in range(0, len(trajectories), MEMBERS)
                ]
                result = await backend.train(model, groups, learning_rate=LEARNING_RATE)
                return int(result.metrics["data/step_trainer_tokens"])

            say = Answers()
            say.ready()
            for number in range(len(setting.prompts)):
                if not sys.stdin.readline():
                    break
                wall_s, cpu_s = time.perf_counter(), time.process_time()
                tokens = await step(number)
                say(time.perf_counter() - wall_s, time.process_time() - cpu_s, tokens)
            await client.close()


def serve_trl(setting: Setting) -> None:
    """Take TRL's steps: no logging, no saving, no reference model, weights in the dtype that is computed in."""
    import torch
    from datasets import Dataset  # type: ignore[import-untyped]
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found]

    torch.set_num_threads(setting.threads)
    say = Answers()
    tokens: list[int] = []

    class Clock(TrainerCallback):
        """Takes a step when it is told to, and says how long it took."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, control, kwargs
            say.ready()

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, kwargs
            if not sys.stdin.readline():
                os._exit(0)  # a trainer cannot be told to leave out the step that it begins
            self.wall_s, self.cpu_s = time.perf_counter(), time.process_time()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, control, kwargs
            if setting.device == "cuda":
                torch.cuda.synchronize()
            say(time.perf_counter() - self.wall_s, time.process_time() - self.cpu_s, tokens.pop())

    def reward(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
        del kwargs
        tokens.append(sum(map(len, completion_ids)))
        return [float(place % MEMBERS) for place in range(len(completion_ids))]

    peft_config = None
    if setting.lora:
        from peft import LoraConfig  # type: ignore[import-not-found]

        peft_config = LoraConfig(**setting.lora)
    with tempfile.TemporaryDirectory() as directory:
        config = GRPOConfig(
            output_dir=directory,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_steps=len(setting.prompts),
            per_device_train_batch_size=GROUPS * MEMBERS,
            gradient_accumulation_steps=1,
            num_generations=MEMBERS,
            num_iterations=1,
            max_completion_length=setting.completion,
            temperature=1.0,
            beta=0.0,
            shuffle_dataset=False,
            model_init_kwargs={"dtype": setting.dtype},
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=setting.device == "cpu",
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            seed=setting.seed,
        )
        trainer = GRPOTrainer(
            model=setting.directory,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(
                [{"prompt": [{"role": "user", "content": text}]} for texts in setting.prompts for text in texts]
            ),
            peft_config=peft_config,
            callbacks=[Clock()],
        )
        trainer.train()


class Answers:
    """Lines to whoever started this process; what libraries print goes to the error stream."""

    def __init__(self) -> None:
        self._output = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def ready(self) -> None:
        """Say that the first step may be asked for."""
        print("ready", file=self._output, flush=True)

    def __call__(self, wall_s: float, cpu_s: float, tokens: int) -> None:
        print(wall_s, cpu_s, tokens, file=self._output, flush=True)


def adapters() -> dict[str, Any]:
    """What ours trains by default; here, because the other side's process must not load ART."""
    from artkit.backends.torch import LoraSettings

    settings = LoraSettings().to_peft("")
    return {name: settings[name] for name in ("r", "lora_alpha", "target_modules")}


def make_prompts(directory: Path, rounds: int, tokens: int, seed: int) -> list[list[str]]:
    """Messages that are so many tokens in the model's chat template: single letters, for they are tokens anywhere."""
    from artkit.backends.torch.pretrained_tokenizer import PretrainedTokenizer

    tokenizer, numbers = PretrainedTokenizer(directory), random.Random(seed)

    def count(text: str) -> int:
        return len(tokenizer.encode_chat([{"role": "user", "content": text}], add_generation_prompt=True))

    def make() -> str:
        text = ""
        while (length := count(text)) != tokens:
            text = text[:-1] if length > tokens else f"{text} {numbers.choice('abcdefghijklmnopqrstuvwxyz')}"
        return text

    if count("") > tokens:
        sys.exit(f"the chat template alone has {count('')} tokens")
    return [[make() for _ in range(GROUPS)] for _ in range(rounds)]


def measure(setting: Setting, budget_s: float) -> dict[str, Any]:
    """Both sides in turns; at least five rounds."""
    sides = {name: Side(__file__, "--serve", name) for name in SIDES}
    wall_s: dict[str, list[float]] = {name: [] for name in SIDES}
    cpu_s: dict[str, list[float]] = {name: [] for name in SIDES}
    tokens: dict[str, list[float]] = {name: [] for name in SIDES}
    try:
        for side in sides.values():
            side.write(json.dumps(asdict(setting)))
        for side in sides.values():
            side.read()
        started = time.monotonic()
        for number in range(-WARM_UP, len(setting.prompts) - WARM_UP):
            for name in SIDES[:: -1 if number % 2 else 1]:
                sides[name].write("")
                wall, cpu, count = map(float, sides[name].read().split())
                if number >= 0:
                    wall_s[name].append(wall)
                    cpu_s[name].append(cpu)
                    tokens[name].append(count)
            if number >= 4 and time.monotonic() - started > budget_s:
                break
    finally:
        for side in sides.values():
            side.close()
    figures: dict[str, Any] = {"ratio": ratio(wall_s), "cpu_ratio": ratio(cpu_s)}
    for name in SIDES:
        figures[f"{name}_s"], figures[f"{name}_cpu_s"] = spread(wall_s[name]), spread(cpu_s[name])
        figures[f"{name}_trained_tokens"] = spread(tokens[name])
    return figures | {"rounds": len(wall_s[SIDES[0]])}


def ratio(seconds: dict[str, list[float]]) -> dict[str, float]:
    """How many times as long TRL took, round by round."""
    return spread([theirs / ours for ours, theirs in zip(seconds["artkit"], seconds["trl"], strict=True)])


def parse() -> argparse.Namespace:
    """The arguments, with the defaults of the device; ends the program where something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s, with the micro model")
    parser.add_argument("--seed", type=int, default=0, help="of weights, prompts and samples (default 0)")
    parser.add_argument(
        "--smollm2",
        metavar="DIRECTORY",
        nargs="?",
        const="",
        help="measure SmolLM2-135M-Instruct in place of the micro model; without a directory, from the user's cache",
    )
    parser.add_argument("--device", choices=tuple(PRESETS), default="cpu", help="cuda measures SmolLM2 (default cpu)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="float32 on a CPU, bfloat16 on a GPU")
    parser.add_argument("--route", choices=("http", "direct"), help="http on a CPU, direct on a GPU")
    parser.add_argument("--lora", action="store_true", help="train adapters, on both sides")
    parser.add_argument("--prompt", type=int, default=40, help="tokens of a prompt (default 40)")
    parser.add_argument("--completion", type=int, help="most tokens of a reply: 16 on a CPU, 72 on a GPU")
    arguments = parser.parse_args()
    preset = PRESETS[arguments.device]
    for name in ("dtype", "route", "completion"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, getattr(preset, name))
    if arguments.device == "cuda" and arguments.smollm2 is None:
        arguments.smollm2 = ""
    if importlib.util.find_spec("trl") is None:
        sys.exit(f'TRL is not installed: pip install "{TRL}"')
    if arguments.lora and importlib.util.find_spec("peft") is None:
        sys.exit('peft, which TRL trains adapters with, is not installed: pip install "artkit-rl[smollm2]"')
    return arguments


def main() -> None:
    """Measures, and prints one JSON line last."""
    if sys.argv[1:2] == ["--serve"]:
        setting = Setting(**json.loads(sys.stdin.readline()))
        (serve_artkit if sys.argv[2] == "artkit" else serve_trl)(setting)
        return
    arguments = parse()
    budget_s, rounds = (10.0, 15) if arguments.quick else (60.0, 50)
    is_micro = arguments.smollm2 is None

    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) if is_micro else find_smollm2(arguments.smollm2)
        if is_micro:
            save_micro(directory, arguments.seed)
        setting = Setting(
            directory=str(directory),
            base_model="artkit/micro" if is_micro else str(directory),
            prompts=make_prompts(directory, WARM_UP + rounds, arguments.prompt, arguments.seed),
            completion=arguments.completion,
            device=arguments.device,
            dtype=arguments.dtype,
            route=arguments.route,
            lora=adapters() if arguments.lora else None,
            seed=arguments.seed,
            threads=1 if is_micro else os.cpu_count() or 1,
        )
        figures = measure(setting, budget_s)
    ratios, bound = figures.pop("ratio"), PRESETS[arguments.device].bound
    result = {
        "benchmark": "train_step",
        "train_step_speed_vs_trl" + ("_cuda" if arguments.device == "cuda" else ""): ratios,
        "bound": bound,
        "within_bounds": ratios["median"] >= bound,
        **figures,
        "sequences": GROUPS * MEMBERS,
        "prompt_tokens": arguments.prompt,
        "completion_tokens": arguments.completion,
        "model": "micro" if is_micro else "smollm2",
        "device": arguments.device,
        "dtype": arguments.dtype,
        "route": arguments.route,
        "lora": arguments.lora,
        "seed": arguments.seed,
        "machine": machine("torch", "transformers", "trl", "openpipe-art"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
