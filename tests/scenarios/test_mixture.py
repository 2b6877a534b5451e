"""Mixtures of tasks."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import Cursor, Scenario, ScenarioMixture, ScenarioOrder

weights = st.integers(1, 9) | st.floats(0.1, 9)
tasks = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 6), weights), min_size=1)
seeds = st.integers(-3, 3)


def mixture(sizes: dict[str, tuple[int, float]], **arguments) -> ScenarioMixture[Scenario]:
    return ScenarioMixture(
        {
            name: ([Scenario(id=f"{name}{number}") for number in range(size)], weight)
            for name, (size, weight) in sizes.items()
        },
        **arguments,
    )


@given(tasks, seeds, st.booleans(), st.integers(0, 5))
def test_every_scenario_comes_as_often_as_the_weights_say(sizes, seed: int, shuffle: bool, epoch: int) -> None:
    """To one, in every epoch, and at least once: no task is lost behind a larger one."""
    mixed = mixture(sizes, seed=seed, shuffle=shuffle)
    times = Counter(item.id for item in mixed.epoch(epoch))

    assert times.total() == len(mixed)
    for name, (size, weight) in sizes.items():
        share = len(mixed) * weight / sum(weight for _, weight in sizes.values())
        of_task = [times[f"{name}{number}"] for number in range(size)]
        assert abs(sum(of_task) - share) < 1.001
        assert max(of_task) - min(of_task) <= 1
        assert min(of_task) >= 1


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1),
    st.integers(12, 30),
    seeds,
    st.integers(1, 5),
)
def test_over_the_epochs_the_scenarios_of_a_task_take_turns(sizes, epoch_size: int, seed: int, epochs: int) -> None:
    """What one epoch had no room for, the next ones have first."""
    mixed = mixture(sizes, seed=seed, epoch_size=epoch_size)
    times = Counter(item.id for epoch in range(epochs) for item in mixed.epoch(epoch))

    for name, (size, _) in sizes.items():
        of_task = [times[f"{name}{number}"] for number in range(size)]
        assert sum(of_task) == epochs * mixed.counts[name]
        assert max(of_task) - min(of_task) <= 1


@given(tasks, seeds, st.booleans(), st.integers(0, 3))
def test_the_first_of_an_epoch_have_the_same_mixture(sizes, seed: int, shuffle: bool, epoch: int) -> None:
    """So a run that is stopped inside an epoch, and a batch, has every task too."""
    mixed = mixture(sizes, seed=seed, shuffle=shuffle)
    times: Counter[str] = Counter()
    for first, item in enumerate(mixed.epoch(epoch), start=1):
        times[mixed.task_of(item)] += 1
        for name, count in mixed.counts.items():
            share = count / len(mixed)
            assert abs(times[name] - first * share) <= 1 + len(sizes) * share


@given(tasks, st.integers(1, 9), st.integers(1, 3), seeds, st.data())
def test_a_resumed_run_has_the_batches_of_an_uninterrupted_one(
    sizes, batch_size: int, num_epochs: int, seed: int, data: st.DataObject
) -> None:
    """A mixture is an order: it is known everywhere, and loses nothing at an epoch's end."""
    mixed = mixture(sizes, seed=seed)
    batches = list(mixed.batches(batch_size, num_epochs))
    done = data.draw(st.integers(1, len(batches)))
    start = batches[done - 1].cursor

    assert list(mixture(sizes, seed=seed).batches(batch_size, num_epochs, start)) == batches[done:]
    assert mixed.num_batches(batch_size, num_epochs, start) == len(batches) - done
    assert [item for batch in batches for item in batch.items] == [
        item for epoch in range(num_epochs) for item in mixed.epoch(epoch)
    ]


def test_weights_are_the_decimals_that_were_written() -> None:
    """0.7 + 0.2 + 0.1 is less than 1 in floats, and an epoch of 101 would be nobody's wish."""
    assert mixture({"a": (70, 0.7), "b": (20, 0.2), "c": (10, 0.1)}).counts == {"a": 70, "b": 20, "c": 10}
    assert mixture({"a": (6, 1), "b": (2, 1)}).counts == {"a": 6, "b": 6}
    assert mixture({"a": (6, 3), "b": (2, 1)}, epoch_size=4).counts == {"a": 3, "b": 1}


def test_resuming_at_an_epoch_boundary_runs_the_rest() -> None:
    """6 items, batch 3, 2 epochs, resumed after 2 steps: steps 2 and 3 run; at and past the end nothing does."""
    mixed = mixture({"a": (3, 1), "b": (3, 1)})

    assert [batch.index for batch in mixed.batches(3, 2, Cursor(epoch=1))] == [2, 3]
    assert [list(mixed.batches(3, 2, Cursor(epoch=epoch))) for epoch in (2, 3)] == [[], []]


def test_a_mixture_of_one_task_in_its_order_is_that_order() -> None:
    """A curriculum stays one."""
    items = [Scenario(id=name) for name in "abc"]

    assert ScenarioMixture({"only": (items, 1)}, shuffle=False).epoch(3) == tuple(items)


def test_epochs_and_seeds_have_orders_of_their_own_and_the_global_generator_is_left_alone() -> None:
    """As those of a plain order."""
    mixed = mixture({"a": (9, 1), "b": (9, 1)})
    random.seed(1)
    state = random.getstate()
    orders = {*(mixed.epoch(number) for number in range(4)), mixture({"a": (9, 1), "b": (9, 1)}, seed=1).epoch(0)}

    assert len(orders) == 5
    assert random.getstate() == state


def test_a_scenario_is_of_the_task_it_came_with() -> None:
    """The rollout picks its environment by it, the reward its grader."""
    mixed = mixture({"a": (2, 1), "b": (1, 1)})

    assert [mixed.task_of(item) for item in mixed.scenarios] == ["a", "a", "b"]
    assert mixed.task_of(Scenario(id="b0")) == "b"
    with pytest.raises(
        ConfigurationError, match=r"is no scenario of the mixture .*its tasks are 'a', 'b'; for .*task_of"
    ):
        mixed.task_of(Scenario(id="c0"))


def test_a_mixture_says_what_is_in_it() -> None:
    """Before anything is spent."""
    assert repr(mixture({"sums": (4, 1), "words": (2, 1)}, seed=3)) == (
        "ScenarioMixture(epochs of 8: 4 of 4 sums, 4 of 2 words; seed=3, shuffle=True)"
    )


def test_fingerprint_tells_everything_that_decides_the_batches() -> None:
    """A run is resumed only over the same batches."""
    mixtures = [
        mixture({"a": (2, 1), "b": (2, 1)}),
        mixture({"a": (2, 2), "b": (2, 1)}),
        mixture({"a": (2, 1), "b": (2, 1)}, epoch_size=6),
        mixture({"a": (2, 1), "b": (2, 1)}, seed=1),
        mixture({"b": (2, 1), "a": (2, 1)}),
        mixture({"a": (2, 1), "b": (3, 1)}),
    ]

    assert len({mixed.fingerprint for mixed in mixtures}) == len(mixtures)
    assert mixture({"a": (2, 2), "b": (2, 2)}).fingerprint == mixtures[0].fingerprint
    assert ScenarioOrder(mixtures[0].scenarios).fingerprint != mixtures[0].fingerprint


@pytest.mark.parametrize(
    ("given_tasks", "words"),
    [
        ({}, "tasks={} is empty"),
        ({"a": ([], 1)}, r"scenarios=\(\) is empty"),
        ({"a": ([Scenario(id="x")], 0)}, "the weight of task 'a' is 0"),
        ({"a": ([Scenario(id="x")], float("nan"))}, "the weight of task 'a' is nan"),
        ({"a": ([Scenario(id="x")], True)}, "the weight of task 'a' is True"),
        (
            {"a": ([Scenario(id="x")], 1), "b": ([SimpleNamespace(id="x")], 1)},
            r"'a' and 'b' both have a scenario 'x' .*rename one, as in .*'id': 'b-x'",
        ),
        ({"a": ([Scenario(id="x")] * 2, 1)}, "come more than once: 'x'"),
        ({"a": [Scenario(id="x"), Scenario(id="y")]}, "the task 'a' is a list, not its scenarios and its weight"),
        ({"a": (Scenario(id="x"),)}, "the task 'a' is a tuple, not its scenarios and its weight"),
        ([("a", ([Scenario(id="x")], 1))], "tasks is a list, which names no task"),
    ],
)
def test_tasks_that_cannot_be_mixed_are_refused(given_tasks, words: str) -> None:
    """Before anything is spent."""
    with pytest.raises(ConfigurationError, match=words):
        ScenarioMixture(given_tasks)


def test_a_task_may_be_any_iterable() -> None:
    """As the scenarios of an order may."""
    assert ScenarioMixture({"a": ((Scenario(id=name) for name in "xy"), 1)}).counts == {"a": 2}


def test_an_epoch_without_a_task_is_refused() -> None:
    """The task would never be trained on."""
    with pytest.raises(ConfigurationError, match=r"epoch_size=3 leaves no place for the task 'b' .*epoch_size=10 has"):
        mixture({"a": (3, 9), "b": (3, 1)}, epoch_size=3)
    with pytest.raises(ConfigurationError, match="epoch_size=0 is no positive whole number"):
        mixture({"a": (3, 9)}, epoch_size=0)
