"""The demo's tasks."""

from __future__ import annotations

from collections import Counter

from artkit.cli.demo.tasks import FIELDS, HELD_OUT_NUMBERS, held_out_tasks, training_tasks


def test_training_and_held_out_tasks_share_no_order_and_no_buyer() -> None:
    """Success on held-out tasks is no memory of training."""
    train = {number for task in training_tasks() for number in (task.order, task.buyer)}
    held_out = {number for task in held_out_tasks() for number in (task.order, task.buyer)}

    assert (len(train), len(held_out), train & held_out) == (80, 20, set())


def test_training_shows_every_digit_in_both_places() -> None:
    """A digit that copying never met in a place is copied wrongly there."""
    train = [f"{number:02}" for number in range(100) if number not in HELD_OUT_NUMBERS]

    assert Counter(number[0] for number in train) == Counter(number[1] for number in train)
    assert len({number[0] for number in train}) == 10


def test_every_batch_of_sixteen_has_each_field_four_times() -> None:
    """A field that a batch misses is forgotten while the others improve."""
    fields = [task.field for task in training_tasks(3)]

    batches = {tuple(sorted(Counter(fields[at : at + 16]).items())) for at in range(0, len(fields), 16)}

    assert batches == {tuple((field, 4) for field in sorted(FIELDS))}


def test_the_seed_orders_the_training_tasks() -> None:
    """Another seed is another run on the same tasks."""
    first, again, other = training_tasks(1), training_tasks(1), training_tasks(2)

    assert first == again != other
    assert set(first) == set(other)


def test_ids_are_unique() -> None:
    """An id names the task, in every record."""
    tasks = training_tasks() + held_out_tasks()

    assert len({task.id for task in tasks}) == len(tasks) == 25_280 + 1_520
