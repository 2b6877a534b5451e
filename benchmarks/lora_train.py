"""What share of the CPU's fp32 matmul rate SmolLM2's LoRA training reaches on tokens that are no padding.

A step is 64 sequences with a prompt of its own of 56 tokens and a reply of 8 to 56, adapters of rank 8 on every linear
layer, as the embedded backend trains it: forward, loss and backward of every micro-batch, the optimiser at the end.
What counts as its work, in floating-point operations:

- 4 for each parameter of the decoder's linear layers and each token but the last, behind which nothing is trained on:
  2 of forward, 2 of backward to the activations. The last layer's output projection and MLP run, and count, only for
  tokens whose next one is trained on; the input gradients of the first layer's queries, keys and values nowhere;
- 4 for each parameter of the output head and each token whose next one is trained on: elsewhere it does not run;
- causal attention, each query and key once: 4 * head_dim of forward, 8 of backward, in each layer and head;
- nothing for the adapters (2 % of the parameters), the embedding's look-up, norms, softmax or the optimiser, all of
  which cost time.

The matmul rate is that of a square product with the same threads, measured after every micro-batch, so that a busy
moment hits both.

    python benchmarks/lora_train.py [--quick] [--seed N] [--smollm2 [DIRECTORY]] [--profile]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common import find_smollm2, machine, spread

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.learner import Learner
    from artkit.backends.torch.sequences import TokenSequence

__all__ = ["main"]

PROMPT, REPLIES = 56, (8, 56)
SQUARE, PRODUCTS = 2048, 4
OVER = object()
ATTENDING = {"q_proj", "k_proj", "v_proj"}
BOUND = 0.5


def open_learner(directory: Path, seed: int) -> Learner:
    """SmolLM2 with fresh adapters, in float32 on the CPU."""
    from artkit.backends.torch import LoraSettings
    from artkit.backends.torch.base_model import BaseModel
    from artkit.backends.torch.learner import Learner
    from artkit.backends.torch.policy_settings import PolicySettings

    settings = PolicySettings.of(seed=seed, device="cpu", dtype="float32", lora=LoraSettings(), micro_batch_tokens=None)
    return Learner(BaseModel.open(str(directory)), settings, seed=seed)


def draw_sequences(numbers: random.Random, count: int, vocab: int) -> list[TokenSequence]:
    """Random ids; which ones changes no product."""
    from artkit.backends.torch.sequences import TokenSequence

    sequences = []
    for _ in range(count):
        length = PROMPT + numbers.randint(*REPLIES)
        targets = list(range(PROMPT, length))
        sequences.append(TokenSequence(numbers.choices(range(vocab), k=length), targets, [-10.0] * len(targets)))
    return sequences


def work_of(decoder: Decoder, sequences: Sequence[TokenSequence]) -> float:
    """The floating-point operations that count; see above."""
    config = decoder.config
    lengths = [sequence.targets[-1] for sequence in sequences]
    tokens, trained = sum(lengths), sum(len(sequence.targets) for sequence in sequences)
    last = f".layers.{config.num_hidden_layers - 1}."
    linear = 0.0
    for name, weight in decoder.named_parameters():
        if not name.endswith("_proj.weight"):
            continue
        layer = name.split(".")[-2]
        count = trained if last in name and layer not in ATTENDING else tokens
        linear += (2.0 if ".layers.0." in name and layer in ATTENDING else 4.0) * weight.numel() * count
    head = 4.0 * config.hidden_size * decoder.used_vocab_size
    pairs = sum(length * (length + 1) / 2 for length in lengths)
    attention = 12.0 * config.head_dim * config.num_attention_heads * config.num_hidden_layers * pairs
    return linear + head * trained + attention


@dataclass
class Clock:
    """Seconds of this process, by the wall and by its CPUs, while it is entered."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def __enter__(self) -> None:
        self.wall_s -= time.perf_counter()
        self.cpu_s -= time.process_time()

    def __exit__(self, *error: object) -> None:
        self.wall_s += time.perf_counter()
        self.cpu_s += time.process_time()


def squares(seed: int) -> Callable[[], None]:
    """Makes the square product; each call does it once."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(SQUARE, SQUARE, generator=generator) for _ in range(2))
    out = torch.empty(SQUARE, SQUARE)

    def multiply() -> None:
        torch.mm(left, right, out=out)

    return multiply


def step(learner: Learner, sequences: list[TokenSequence], multiply: Callable[[], None]) -> tuple[Clock, Clock, int]:
    """Train once; return the time of that, and of the products in between, and their number."""
    from artkit.backends.torch.train_options import TrainOptions

    signs = [1.0 if place % 2 else -1.0 for place in range(len(sequences))]
    job = learner.reinforce(sequences, signs, [1.0] * len(sequences), TrainOptions())
    training, multiplying, products = Clock(), Clock(), 0
    is_over = False
    while not is_over:
        with training:
            is_over = next(job, OVER) is OVER
        with multiplying:
            for _ in range(PRODUCTS):
                multiply()
        products += PRODUCTS
    return training, multiplying, products


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s: 12 sequences a step")
    parser.add_argument("--seed", type=int, default=0, help="of adapters, ids and lengths (default 0)")
    parser.add_argument(
        "--smollm2",
        metavar="DIRECTORY",
        nargs="?",
        const="",
        default="",
        help="where SmolLM2-135M-Instruct is; without a directory, or left out, in the user's cache",
    )
    parser.add_argument("--profile", action="store_true", help="print what one step spends its time on")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is imported
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    learner = open_learner(find_smollm2(arguments.smollm2), arguments.seed)
    decoder = learner.weights.decoder
    numbers, multiply = random.Random(arguments.seed), squares(arguments.seed)
    count = 12 if arguments.quick else 64
    if arguments.profile:
        profile(learner, draw_sequences(numbers, count, decoder.used_vocab_size))
        return

    shares, cpu_shares, rates, tokens_per_s = [], [], [], []
    for number in range(-1, 5):  # the first warms up
        sequences = draw_sequences(numbers, count if number >= 0 else 8, decoder.used_vocab_size)
        training, multiplying, products = step(learner, sequences, multiply)
        if number < 0:
            continue
        share = work_of(decoder, sequences) / (2.0 * SQUARE**3 * products)
        shares.append(share * multiplying.wall_s / training.wall_s)
        cpu_shares.append(share * multiplying.cpu_s / training.cpu_s)
        rates.append(2.0 * SQUARE**3 * products / multiplying.wall_s / 1e9)
        tokens_per_s.append(sum(sequence.targets[-1] for sequence in sequences) / training.wall_s)
        print(f"{training}, {rates[-1]:.0f} GFLOP/s, {shares[-1]:.3f}, by CPU {cpu_shares[-1]:.3f}", file=sys.stderr)
    result = {
        "benchmark": "lora_train",
        "lora_share_of_matmul_rate": spread(shares),
        "lora_share_by_cpu_time": spread(cpu_shares),
        "matmul_gflops_per_s": spread(rates),
        "tokens_per_s": spread(tokens_per_s),
        "sequences": count,
        "bound": BOUND,
        "within_bounds": statistics.median(shares) >= BOUND,
        "seed": arguments.seed,
        "machine": {**machine("torch"), "threads": torch.get_num_threads()},
    }
    print(json.dumps(result))


def profile(learner: Learner, sequences: list[TokenSequence]) -> None:
    """Print the operations of one step by the time that they took themselves."""
    import torch

    step(learner, sequences[:8], lambda: None)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        step(learner, sequences, lambda: None)
    print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=40))


if __name__ == "__main__":
    main()
