"""How many replies come out differently beside others than alone; none should, to the last bit.

Each round draws some requests whose prompts begin alike or not, has each answered by a batch of its own, and all of
them by one batch that they join at random moments, beside requests that are given up. That is on a CPU, in float32
and with one thread, which is how far the promise goes: with more, attention may differ in the last bit.

    python benchmarks/batch_mates.py [--quick] [--rounds N] [--seed N] [--threads N] [--smollm2 [DIRECTORY]]
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from common import find_smollm2, machine

from artkit.backends.torch.base_model import MICRO, BaseModel, load_weights
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.decoder_config import DecoderConfig
from artkit.backends.torch.sampler import SamplingSettings

__all__ = ["main"]

_LONGEST = 1_000
_SETTINGS = [SamplingSettings(), SamplingSettings(temperature=0.5), SamplingSettings(top_p=0.9, top_k=20)]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What can be asked twice."""

    prompt: list[int]
    tokens: int
    settings: SamplingSettings
    seed: str

    def generation(self) -> Generation:
        return Generation(
            prompt_ids=self.prompt,
            max_new_tokens=self.tokens,
            end_ids=frozenset(),
            settings=self.settings,
            random=random.Random(self.seed),
        )


def decoders(smollm2: str | None) -> dict[str, Decoder]:
    """Weights whose matrices are too small to pack, and such that are not."""
    large = DecoderConfig(
        vocab_size=2_000,
        hidden_size=384,
        intermediate_size=1_000,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=1_024,
        initializer_range=0.1,
    )
    found = {"micro": BaseModel.open(MICRO).decoder(seed=0), "packed": Decoder(large, used_vocab_size=1_990)}
    found["packed"].initialize(torch.Generator().manual_seed(0))
    if smollm2 is not None:
        directory: Path = find_smollm2(smollm2)
        config = DecoderConfig.from_file(directory / "config.json")
        found["smollm2"] = Decoder(config, used_vocab_size=config.vocab_size)
        load_weights(found["smollm2"], directory)
    return {name: decoder.requires_grad_(False) for name, decoder in found.items()}


def requests(numbers: random.Random, decoder: Decoder) -> list[Request]:
    """Of one round: some are of a group, some go on where another ended."""
    vocab = range(decoder.used_vocab_size)
    stems = [
        numbers.choices(vocab, k=numbers.choice([40, 200, 900]) - numbers.randrange(40))
        for _ in range(numbers.randint(1, 4))
    ]
    drawn = []
    for place in range(numbers.randint(1, 24)):
        prompt = numbers.choice(stems) + numbers.choices(vocab, k=numbers.choice([0, 0, 1, numbers.randint(0, 60)]))
        drawn.append(
            Request(
                prompt=prompt,
                tokens=numbers.randint(1, min(24, _LONGEST - len(prompt))),
                settings=numbers.choice(_SETTINGS),
                seed=f"{numbers.random()}/{place}",
            )
        )
    return drawn


def alone(decoder: Decoder, request: Request) -> Generation:
    """The reply of a batch that has nothing else to do."""
    batch, generation = Batch(decoder), request.generation()
    batch.add(generation)
    while len(batch):
        batch.step()
    return generation


def together(decoder: Decoder, numbers: random.Random, asked: list[Request]) -> list[Generation]:
    """The replies of one batch that they join and leave, in any order."""
    batch, generations = Batch(decoder), [request.generation() for request in asked]
    waiting = numbers.sample(generations, k=len(generations))
    while waiting or len(batch):
        for _ in range(min(len(waiting), numbers.choice([0, 1, 1, 2, 24]))):
            batch.add(waiting.pop())
            if numbers.random() < 0.2:
                given_up = numbers.choice(asked).generation()
                batch.add(given_up)
                batch.step()
                given_up.is_abandoned = True
        batch.step()
    return generations


def main() -> None:
    """Compares, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--rounds", type=int, default=60, help="of each model (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of prompts, settings and moments (default 0)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default 1)")
    parser.add_argument("--smollm2", metavar="DIRECTORY", nargs="?", const="", help="SmolLM2-135M-Instruct too")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    replies: dict[str, int] = {}
    differ: dict[str, int] = {}
    for name, decoder in decoders(arguments.smollm2).items():
        numbers = random.Random(f"{arguments.seed}/{name}")
        replies[name] = differ[name] = 0
        for _ in range(5 if arguments.quick else arguments.rounds):
            asked = requests(numbers, decoder)
            for request, beside in zip(asked, together(decoder, numbers, asked), strict=True):
                of_its_own = alone(decoder, request)
                replies[name] += 1
                differ[name] += (of_its_own.token_ids, of_its_own.logprobs) != (beside.token_ids, beside.logprobs)
    result = {
        "benchmark": "batch_mates",
        "replies_that_differ": sum(differ.values()),
        "bound": 0,
        "within_bounds": not any(differ.values()),
        "differ": differ,
        "replies": replies,
        "seed": arguments.seed,
        "threads": arguments.threads,
        "machine": {**machine("torch"), "capability": torch.backends.cpu.get_cpu_capability()},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
