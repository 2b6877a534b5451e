"""The order of scenarios."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import Cursor, PromptScenario, Scenario, ScenarioOrder

sizes = st.integers(1, 12)
batch_sizes = st.integers(1, 14)
epochs = st.integers(1, 4)
seeds = st.integers(-3, 3)


def scenarios(size: int) -> list[Scenario]:
    return [Scenario(id=f"s{number}") for number in range(size)]


@given(sizes, seeds, st.integers(0, 5))
def test_every_epoch_holds_every_scenario_once(size: int, seed: int, epoch: int) -> None:
    """Nothing is repeated within an epoch, nothing is left out."""
    order = ScenarioOrder(scenarios(size), seed=seed)

    assert Counter(item.id for item in order.epoch(epoch)) == Counter(f"s{number}" for number in range(size))


@given(sizes, batch_sizes, epochs, seeds)
def test_batches_are_the_epochs_cut_in_pieces(size: int, batch_size: int, num_epochs: int, seed: int) -> None:
    """A batch never crosses an epoch, and the short rest of an epoch is kept."""
    order = ScenarioOrder(scenarios(size), seed=seed)
    batches = list(order.batches(batch_size, num_epochs))

    for epoch in range(num_epochs):
        mine = [batch for batch in batches if batch.epoch == epoch]
        assert tuple(item for batch in mine for item in batch.items) == order.epoch(epoch)
        assert [len(batch.items) for batch in mine[:-1]] == [batch_size] * (len(mine) - 1)
        assert [batch.is_epoch_end for batch in mine] == [False] * (len(mine) - 1) + [True]
    assert [batch.index for batch in batches] == list(range(len(batches)))
    assert all(batch.items for batch in batches)
    assert order.num_batches(batch_size, num_epochs) == len(batches)


@given(sizes, batch_sizes, epochs, seeds, st.data())
def test_a_resumed_run_has_the_batches_of_an_uninterrupted_one(
    size: int, batch_size: int, num_epochs: int, seed: int, data: st.DataObject
) -> None:
    """Resuming repeats nothing and skips nothing, wherever it happens."""
    order = ScenarioOrder(scenarios(size), seed=seed)
    batches = list(order.batches(batch_size, num_epochs))
    done = data.draw(st.integers(1, len(batches)))
    start = batches[done - 1].cursor

    assert list(ScenarioOrder(scenarios(size), seed=seed).batches(batch_size, num_epochs, start)) == batches[done:]
    assert order.num_batches(batch_size, num_epochs, start) == len(batches) - done


@given(sizes, batch_sizes, epochs, st.integers(0, 3), st.integers(0, 30))
def test_a_start_past_the_end_yields_nothing(
    size: int, batch_size: int, num_epochs: int, beyond: int, position: int
) -> None:
    """The run then says "nothing to do"."""
    start = Cursor(num_epochs + beyond, position)

    assert list(ScenarioOrder(scenarios(size)).batches(batch_size, num_epochs, start)) == []
    assert ScenarioOrder(scenarios(size)).num_batches(batch_size, num_epochs, start) == 0


def test_resuming_at_an_epoch_boundary_runs_the_rest() -> None:
    """6 items, batch 3, 2 epochs, resumed after 2 steps: steps 2 and 3 run."""
    batches = ScenarioOrder(scenarios(6)).batches(3, 2, Cursor(epoch=1))

    assert [batch.index for batch in batches] == [2, 3]


def test_a_position_at_the_end_of_its_epoch_is_the_start_of_the_next() -> None:
    """A cursor written by hand may count the last batch of an epoch so."""
    order = ScenarioOrder(scenarios(4))

    assert list(order.batches(3, 2, Cursor(0, 4))) == list(order.batches(3, 2, Cursor(1, 0)))


def test_an_epoch_does_not_depend_on_those_before() -> None:
    """A resumed run need not replay them."""
    order = ScenarioOrder(scenarios(20), seed=4)
    first = order.epoch(3)
    [order.epoch(number) for number in range(3)]

    assert order.epoch(3) == first
    assert len({order.epoch(number) for number in range(5)}) == 5


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    """A user's own randomness stays his, and does not change the batches."""
    random.seed(1)
    state = random.getstate()
    first = ScenarioOrder(scenarios(20)).epoch(0)
    assert random.getstate() == state
    random.seed(2)

    assert ScenarioOrder(scenarios(20)).epoch(0) == first


def test_without_shuffling_every_epoch_has_the_order_of_the_input() -> None:
    """A curriculum is an order."""
    items = scenarios(5)
    order = ScenarioOrder(items, seed=3, shuffle=False)

    assert [order.epoch(0), order.epoch(7)] == [tuple(items), tuple(items)]


def test_no_number_of_epochs_is_endless() -> None:
    """`max_steps` then ends the run."""
    batches = ScenarioOrder(scenarios(2)).batches(1, None)

    assert [batch.epoch for batch in islice(batches, 7)] == [0, 0, 1, 1, 2, 2, 3]


@dataclass(frozen=True)
class Own:
    """A user's own kind of scenario."""

    id: str
    size: int = 3


def test_any_object_with_an_id_is_a_scenario() -> None:
    """Scenarios need not be pydantic models."""
    items = (Own("a"), Own("b"))

    assert set(ScenarioOrder(items).epoch(0)) == set(items)


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], r"scenarios=\(\) is empty"),
        ([Own("a"), {"id": "b"}], r"scenarios\[1\] is a dict without an id"),
        ([Own("a"), Own(2)], r"scenarios\[1\] has the id 2, which is no text"),  # type: ignore[arg-type]
        ([Own("")], r"scenarios\[0\] has the id '', which is no text"),
        ([Own("a"), Own("b"), Own("a")], "1 of the scenarios' ids come more than once: 'a'"),
    ],
)
def test_data_that_cannot_be_ordered_is_refused(items, problem: str) -> None:
    """Before anything is spent."""
    with pytest.raises(ConfigurationError, match=problem):
        ScenarioOrder(items)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_sizes_that_cannot_work_are_refused_at_once(value) -> None:
    """And not at the first batch."""
    order = ScenarioOrder(scenarios(2))

    with pytest.raises(ConfigurationError, match="groups_per_step=1 is the least that works"):
        order.batches(value, 1)
    with pytest.raises(ConfigurationError, match="num_epochs=1 is the least that works"):
        order.batches(1, value)


def test_fingerprint_tells_everything_that_decides_the_batches() -> None:
    """A run is resumed only over the same batches."""
    one = [PromptScenario(id="a", messages="1"), PromptScenario(id="b", messages="2")]
    other = [PromptScenario(id="a", messages="1"), PromptScenario(id="b", messages="3")]
    orders = [
        ScenarioOrder(one),
        ScenarioOrder(other),
        ScenarioOrder(one[::-1]),
        ScenarioOrder(one[:1]),
        ScenarioOrder(one, seed=1),
        ScenarioOrder(one, shuffle=False),
    ]

    assert len({order.fingerprint for order in orders}) == len(orders)
    assert ScenarioOrder([item.model_copy(deep=True) for item in one]).fingerprint == orders[0].fingerprint


PROGRAM = """
from artkit.scenarios import Scenario, ScenarioOrder

class Tagged(Scenario):
    tags: frozenset[str]

class Plain:
    id = "plain"

tagged = Tagged(id="a", tags=frozenset({"red", "green", "blue", "black", "white"}))
order = ScenarioOrder([tagged, Plain()], seed=5)
print(order.fingerprint, [item.id for item in order.epoch(3)])
"""


def test_order_and_fingerprint_are_equal_in_every_process() -> None:
    """The order of a set, and addresses in memory, are drawn anew in each."""
    runs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(runs) == 1
