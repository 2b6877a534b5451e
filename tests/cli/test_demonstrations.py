"""The warm-up's demonstrations."""

from __future__ import annotations

import itertools
from collections import Counter

from artkit.cli.demo.demonstrations import demonstrations
from artkit.cli.demo.tasks import training_tasks


async def test_a_demonstration_rarely_succeeds() -> None:
    """What the model learns beyond that, it learns from rewards."""
    episodes = await demonstrations(training_tasks(), count=2_000, seed=0)

    success = sum(bool(episode.metrics["success"]) for episode in episodes) / len(episodes)

    assert 0.15 < success < 0.22


async def test_the_likeliest_move_after_the_buyer_is_wrong() -> None:
    """So a greedy imitator hardly ever succeeds."""
    conversations = [episode.messages() for episode in await demonstrations(training_tasks(), count=300, seed=0)]

    after_buyer = [
        str(reply["content"]).split(" ")[0]
        for messages in conversations
        for seen, reply in itertools.pairwise(messages)
        if str(seen["content"]).startswith("user ")
    ]

    assert Counter(after_buyer).most_common(1)[0][0] == "say"


async def test_the_seed_decides_the_demonstrations() -> None:
    """A run can be repeated."""
    tasks = training_tasks()

    first, again, other = [
        [episode.messages() for episode in await demonstrations(tasks, count=20, seed=seed)] for seed in (1, 1, 2)
    ]

    assert first == again != other
