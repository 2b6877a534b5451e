"""How many tokens the embedded backend samples in a second, beside transformers' `generate` with the same weights.

Ours goes through the worker, as every request does, and is told the log probability of each token; transformers' is
only asked for the tokens. Prompts are random ids, a fresh one for each sequence and round, so nothing is ever found in
a prefix cache; with `_group` in its name, a figure is of sequences that share one prompt, as the members of a group do.
Both sample at temperature 1 from all of the vocabulary, and none ends early. Each side has a process of its own,
because ART changes transformers' code; they run in turns, so that a busy moment hits both. On a GPU SmolLM2 alone is
measured, in bfloat16.

    python benchmarks/generate.py [--quick] [--seed N] [--smollm2 [DIRECTORY]] [--device cuda]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import Side, find_smollm2, machine, save_micro, spread

__all__ = ["main"]

Generate = Callable[[list[list[int]], int], int]
SIDES = ("artkit", "transformers")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model and what is asked of it.

    Attributes:
        directory: A Hugging Face directory.
        repeats: Batches in one round: one of the micro model is over before the clock is sure of it.
        shared: Whether the sequences have one prompt; both are measured in turn.
        bound: How many times transformers' rate ours has to be.
    """

    name: str
    directory: Path
    prompt: int
    completion: int
    threads: int
    repeats: int
    batches: tuple[int, ...] = (8, 32)
    shared: tuple[bool, ...] = (False, True)
    device: str = "cpu"
    dtype: str = "float32"
    bound: float


def artkit_side(setting: Setting) -> Generate:
    """All requests at once, to a worker."""
    import torch

    from artkit.backends.torch.base_model import load_weights
    from artkit.backends.torch.batch import Generation
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.decoder_config import DecoderConfig
    from artkit.backends.torch.sampler import SamplingSettings
    from artkit.backends.torch.worker import Worker

    config = DecoderConfig.from_file(setting.directory / "config.json")
    trained = Decoder(config, used_vocab_size=config.vocab_size)
    load_weights(trained, setting.directory)
    decoder = trained.to(setting.device).snapshot(getattr(torch, setting.dtype))
    worker = Worker()
    worker.use_threads(setting.threads)

    async def generate_all(prompts: list[list[int]], seed: int) -> int:
        replies = await asyncio.gather(
            *(
                worker.generate(
                    decoder,
                    Generation(
                        prompt_ids=prompt,
                        max_new_tokens=setting.completion,
                        end_ids=frozenset(),
                        settings=SamplingSettings(),
                        random=random.Random(f"{seed}/{place}"),
                    ),
                )
                for place, prompt in enumerate(prompts)
            )
        )
        return sum(len(reply.token_ids) for reply in replies)

    return lambda prompts, seed: asyncio.run(generate_all(prompts, seed))


def transformers_side(setting: Setting) -> Generate:
    """One batch, without padding."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    torch.set_num_threads(setting.threads)
    model: Any = AutoModelForCausalLM.from_pretrained(setting.directory, dtype=getattr(torch, setting.dtype))
    model = model.to(setting.device)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=setting.completion, pad_token_id=0
    )

    def generate(prompts: list[list[int]], seed: int) -> int:
        torch.manual_seed(seed)
        ids = torch.tensor(prompts, device=setting.device)
        reply = model.generate(ids, attention_mask=torch.ones_like(ids))
        return int(reply[:, ids.shape[1] :].numel())

    return generate


def serve(side: str, setting: Setting) -> None:
    """Answer each line of the input, prompts and a seed, with the wall and CPU seconds that it took."""
    generate = artkit_side(setting) if side == "artkit" else transformers_side(setting)
    print("ready", flush=True)
    for line in sys.stdin:
        prompts, seed = json.loads(line)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        count = generate(prompts, seed)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        if count != len(prompts) * setting.completion:
            sys.exit(f"{side} sampled {count} tokens")
        print(wall_s, cpu_s, flush=True)


def generate_by(side: Side, requests: list[list[list[int]]], seed: int) -> tuple[float, float]:
    """Wall and CPU seconds for some batches of prompts, one after the other."""
    wall_s = cpu_s = 0.0
    for prompts in requests:
        side.write(json.dumps([prompts, seed]))
        wall, cpu = map(float, side.read().split())
        wall_s, cpu_s = wall_s + wall, cpu_s + cpu
    return wall_s, cpu_s


def measure(setting: Setting, seed: int, rounds: int, budget_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """Both sides in turns, at each size of a batch; at least five rounds."""
    vocab = int(json.loads((setting.directory / "config.json").read_text(encoding="utf-8"))["vocab_size"])
    numbers = random.Random(seed)
    told = json.dumps({**asdict(setting), "directory": str(setting.directory)})
    sides = {name: Side(__file__, "--serve", name, told) for name in SIDES}
    try:
        for side in sides.values():
            side.read()
        figures = {}
        for shared, batch in [(shared, batch) for shared in setting.shared for batch in setting.batches]:
            wall_s: dict[str, list[float]] = {name: [] for name in SIDES}
            cpu_s: dict[str, list[float]] = {name: [] for name in SIDES}
            started = time.monotonic()
            for number in range(-1, rounds):  # the first warms up
                count = 1 if shared else batch
                requests = [
                    [numbers.choices(range(vocab), k=setting.prompt) for _ in range(count)] * (batch // count)
                    for _ in range(setting.repeats)
                ]
                for name in SIDES[:: -1 if number % 2 else 1]:
                    wall, cpu = generate_by(sides[name], requests, number + 1)
                    if number >= 0:
                        wall_s[name].append(wall)
                        cpu_s[name].append(cpu)
                if number >= 4 and time.monotonic() - started > budget_s:
                    break
            name = f"{setting.name}_b{batch}" + ("_group" if shared else "")
            tokens = setting.repeats * batch * setting.completion
            figures[name] = {
                "ratio": ratio(wall_s),
                "cpu_ratio": ratio(cpu_s),
                **{f"{side}_tokens_per_s": spread([tokens / seconds for seconds in of]) for side, of in wall_s.items()},
            }
            print(name, figures[name], file=sys.stderr)
        return figures
    finally:
        for side in sides.values():
            side.close()


def ratio(seconds: dict[str, list[float]]) -> dict[str, float]:
    """How many times as long transformers took, round by round."""
    return spread([theirs / ours for ours, theirs in zip(seconds["artkit"], seconds["transformers"], strict=True)])


def cpu_settings(micro: Path, smollm2: str | None, *, is_quick: bool) -> list[Setting]:
    """The micro model, and SmolLM2 where it is asked for."""
    settings = [Setting(name="micro", directory=micro, prompt=40, completion=16, threads=1, repeats=4, bound=1.8)]
    if smollm2 is not None:
        settings.append(
            Setting(
                name="smollm2",
                directory=find_smollm2(smollm2),
                prompt=16 if is_quick else 56,
                completion=8 if is_quick else 32,
                threads=os.cpu_count() or 1,
                repeats=1,
                shared=(False,) if is_quick else (False, True),
                bound=1.2,
            )
        )
    return settings


def gpu_setting(smollm2: Path) -> Setting:
    """SmolLM2, with enough sequences to fill the device."""
    return Setting(
        name="smollm2_cuda",
        directory=smollm2,
        prompt=56,
        completion=128,
        threads=1,
        repeats=1,
        batches=(128,),
        device="cuda",
        dtype="bfloat16",
        bound=10.0,
    )


def main() -> None:
    """Measures, and prints one JSON line last."""
    if sys.argv[1:2] == ["--serve"]:
        values = json.loads(sys.argv[3])
        serve(sys.argv[2], Setting(**{**values, "directory": Path(values["directory"])}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s, but for SmolLM2")
    parser.add_argument("--seed", type=int, default=0, help="of weights, prompts and samples (default 0)")
    parser.add_argument(
        "--smollm2",
        metavar="DIRECTORY",
        nargs="?",
        const="",
        help="measure SmolLM2-135M-Instruct too; without a directory, from the user's cache",
    )
    parser.add_argument("--device", default="cpu", help="cuda for a GPU (default cpu)")
    arguments = parser.parse_args()
    budget_s, rounds = (0.0, 5) if arguments.quick else (30.0, 30)

    with tempfile.TemporaryDirectory() as directory:
        settings = []
        if arguments.device == "cuda":
            settings = [gpu_setting(find_smollm2(arguments.smollm2 or ""))]
        else:
            save_micro(Path(directory), arguments.seed)
            settings = cpu_settings(Path(directory), arguments.smollm2, is_quick=arguments.quick)
        figures = {setting.name: measure(setting, arguments.seed, rounds, budget_s) for setting in settings}
    result = {
        "benchmark": "generate",
        **{f"generate_vs_transformers_{name}": of["ratio"] for some in figures.values() for name, of in some.items()},
        "tokens_per_s": {name: of for some in figures.values() for name, of in some.items()},
        "bounds": (bounds := {setting.name: setting.bound for setting in settings}),
        "within_bounds": all(
            of["ratio"]["median"] >= bounds[model]
            for model, some in figures.items()
            for name, of in some.items()
            if "group" not in name
        ),
        "seed": arguments.seed,
        "machine": {**machine("torch", "transformers"), "device": arguments.device},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
