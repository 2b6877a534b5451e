"""Drawing tokens: the distribution itself, not only the log probabilities that are told of it."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections import Counter

import pytest
import torch

from artkit.backends.torch.sampler import SamplingSettings, sample

PROBABILITIES = [0.5, 0.0, 0.25, 0.15, 0.1]
LOGITS = torch.tensor([[math.log(p) if p else -math.inf for p in PROBABILITIES]])
DRAWS = 4_000
# The 99.9 % quantiles of chi-square, by degrees of freedom.
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27}


def draw(settings: SamplingSettings, count: int = DRAWS) -> Counter[int]:
    randoms = [random.Random(seed) for seed in range(count)]
    return Counter(sample(LOGITS.expand(count, -1), [settings] * count, randoms)[0])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SamplingSettings(), {0: 0.5, 2: 0.25, 3: 0.15, 4: 0.1}),
        (SamplingSettings(temperature=0.5), {0: 0.25 / 0.345, 2: 0.0625 / 0.345, 3: 0.0225 / 0.345, 4: 0.01 / 0.345}),
        (SamplingSettings(top_p=0.7), {0: 2 / 3, 2: 1 / 3}),
        (SamplingSettings(top_p=0.76), {0: 0.5 / 0.9, 2: 0.25 / 0.9, 3: 0.15 / 0.9}),
        (SamplingSettings(top_k=3), {0: 0.5 / 0.9, 2: 0.25 / 0.9, 3: 0.15 / 0.9}),
        (SamplingSettings(top_k=10**30), {0: 0.5, 2: 0.25, 3: 0.15, 4: 0.1}),
        # Of the three that are left, two have eight tenths; of all, they would have less.
        (SamplingSettings(top_k=3, top_p=0.8), {0: 2 / 3, 2: 1 / 3}),
        (SamplingSettings(top_k=2, temperature=0.5), {0: 0.8, 2: 0.2}),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(settings: SamplingSettings, expected: dict[int, float]) -> None:
    """Right log probabilities once hid a sampler that always took the first token."""
    counts = draw(settings)

    statistic = sum((counts[token] - DRAWS * p) ** 2 / (DRAWS * p) for token, p in expected.items())
    assert set(counts) == set(expected)
    assert statistic < CHI_SQUARE[len(expected) - 1]


def test_one_of_the_likeliest_is_the_likeliest() -> None:
    """Whatever the temperature."""
    assert set(draw(SamplingSettings(top_k=1, temperature=2.0), count=100)) == {0}


def test_temperature_zero_takes_the_likeliest_token() -> None:
    """Beside rows that are sampled, too."""
    settings = [SamplingSettings(temperature=0.0), SamplingSettings(temperature=2.0)] * 50

    ids, _ = sample(LOGITS.expand(100, -1), settings, [random.Random(seed) for seed in range(100)])

    assert set(ids[::2]) == {0}
    assert len(set(ids[1::2])) > 1


def test_the_log_probability_is_the_models_own() -> None:
    """At temperature 1, before top-k and top-p, whatever the request says: importance ratios assume it."""
    settings = SamplingSettings(temperature=0.3, top_p=0.6, top_k=3)

    ids, logprobs = sample(LOGITS, [settings], [random.Random(0)])

    assert (ids, logprobs) == ([0], pytest.approx([math.log(0.5)]))


def test_a_request_draws_the_same_whoever_it_is_batched_with() -> None:
    """A seed must mean something under load."""
    others = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    alone = [sample(LOGITS, [SamplingSettings()], [random.Random(seed)])[0][0] for seed in range(50)]

    together = []
    for seed in range(50):
        randoms = [random.Random(1), random.Random(seed), random.Random(2), random.Random(3)]
        settings = [
            SamplingSettings(temperature=0.7),
            SamplingSettings(),
            SamplingSettings(top_p=0.5, top_k=2),
            SamplingSettings(top_k=1),
        ]
        together.append(sample(torch.cat([others[:1], LOGITS, others[1:]]), settings, randoms)[0][1])

    assert together == alone


@pytest.mark.parametrize("settings", [SamplingSettings(), SamplingSettings(temperature=0.6, top_p=0.9)])
def test_a_request_of_its_own_draws_the_same_from_a_large_vocabulary(settings: SamplingSettings) -> None:
    """To the last bit: how the sum over a row is split has nothing to do with other rows."""
    logits = 3 * torch.randn(6, 49_152, generator=torch.Generator().manual_seed(0))
    together = sample(logits, [settings] * 6, [random.Random(seed) for seed in range(6)])

    alone = [sample(logits[row : row + 1], [settings], [random.Random(row)]) for row in range(6)]

    assert [(ids[0], logprobs[0]) for ids, logprobs in alone] == list(zip(*together, strict=True))


def test_a_large_vocabulary_is_drawn_from_as_a_small_one() -> None:
    """It is summed in blocks, whose edges and empty stretches nobody may notice."""
    logits = torch.full((1, 5_000), -math.inf)
    probabilities = {0: 0.3, 255: 0.1, 256: 0.2, 2_600: 0.3, 4_999: 0.1}
    for token, probability in probabilities.items():
        logits[0, token] = math.log(probability)
    randoms = [random.Random(seed) for seed in range(DRAWS)]

    ids, logprobs = sample(logits.expand(DRAWS, -1), [SamplingSettings()] * DRAWS, randoms)

    draws = [random.Random(seed).random() for seed in range(DRAWS)]
    edges = list(itertools.accumulate(probabilities.values()))
    tokens = list(probabilities)
    clear = [place for place, draw in enumerate(draws) if min(abs(draw - edge) for edge in edges) > 1e-6]
    assert [ids[place] for place in clear] == [tokens[bisect.bisect(edges, draws[place])] for place in clear]
    assert len(clear) > DRAWS - 10
    assert logprobs == pytest.approx([math.log(probabilities[token]) for token in ids], abs=1e-6)


@pytest.mark.parametrize("mate", [0.5, 0.0])
def test_a_row_at_temperature_one_draws_the_same_beside_any_temperature(mate: float) -> None:
    """The same distribution rounds differently where it is computed in another way."""
    logits = torch.randn(300, 2000, generator=torch.Generator().manual_seed(0)) * 3
    plain = [SamplingSettings()] * 300

    alone, _ = sample(logits, plain, [random.Random(row) for row in range(300)])
    beside, _ = sample(
        torch.cat((logits, logits[:1])),
        [*plain, SamplingSettings(temperature=mate)],
        [random.Random(row) for row in range(301)],
    )

    assert beside[:300] == alone


@pytest.mark.parametrize("temperature", [1e-6, 1e-38, 1e-45])
def test_a_temperature_next_to_zero_takes_the_likeliest_token(temperature: float) -> None:
    """Divided by it, scores are infinite, and no distribution is left."""
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(0)) * 30

    ids, _ = sample(logits, [SamplingSettings(temperature=temperature)] * 4, [random.Random(0)] * 4)

    assert ids == logits.argmax(dim=-1).tolist()
