"""The demo's tasks: 25,280 to train on and 1,520 held out, without an order or a buyer in common."""

from __future__ import annotations

import random
from itertools import permutations
from typing import get_args

from artkit.cli.demo.order_desk import Field, OrderTask

__all__ = ["FIELDS", "HELD_OUT_NUMBERS", "held_out_tasks", "training_tasks"]

FIELDS: tuple[Field, ...] = get_args(Field)

# Two numbers of each tens digit, and by the multiplication two of each ones digit: training still sees every digit in
# both places. Holding out each fifth number would hide two digits from the ones place, and some runs never recover.
HELD_OUT_NUMBERS = frozenset(10 * tens + (3 * tens + shift) % 10 for tens in range(10) for shift in (1, 5))


def training_tasks(seed: int = 0) -> list[OrderTask]:
    """Return the training tasks, shuffled by `seed`; the four fields take turns, so every batch has them equally often.

    With fields drawn at random a batch may hold few tasks of one; a field whose groups all fail teaches nothing, and is
    forgotten while the others improve.

    >>> [task.field for task in training_tasks()[:5]]
    ['age', 'zip', 'fax', 'qty', 'age']
    """
    return _tasks([number for number in range(100) if number not in HELD_OUT_NUMBERS], seed)


def held_out_tasks() -> list[OrderTask]:
    """Return the held-out tasks, always in the same order, the four fields in turns.

    >>> len(training_tasks()), len(held_out_tasks())
    (25280, 1520)
    """
    return _tasks(sorted(HELD_OUT_NUMBERS), seed=0)


def _tasks(numbers: list[int], seed: int) -> list[OrderTask]:
    columns = [_column(field, numbers, seed) for field in FIELDS]
    return [task for row in zip(*columns, strict=True) for task in row]


def _column(field: Field, numbers: list[int], seed: int) -> list[OrderTask]:
    pairs = list(permutations(numbers, 2))
    random.Random(f"{seed} {field}").shuffle(pairs)  # shuffling, not secrets
    return [
        OrderTask(id=f"{field}-{order:02}-{buyer:02}", field=field, order=order, buyer=buyer) for order, buyer in pairs
    ]
