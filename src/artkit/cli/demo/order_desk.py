"""The demo's world: an order desk, written as any user of artkit would write one."""

from __future__ import annotations

import hashlib
from typing import Literal

from artkit import Action, Environment, Scenario, StepResult

__all__ = ["Field", "OrderDesk", "OrderTask"]


Field = Literal["age", "zip", "fax", "qty"]


class OrderTask(Scenario):
    """One question, such as `zip of order 47`, in a world where that order has one buyer."""

    field: Field
    order: int
    buyer: int

    def look_up(self, table: str, key: str) -> str:
        """Return two digits: the buyer of the task's order, and else plausible noise, always the same."""
        if (table, key) == ("order", f"{self.order:02}"):
            return f"{self.buyer:02}"
        digest = hashlib.sha256(f"{self.id} {table} {key}".encode()).digest()
        return f"{int.from_bytes(digest[:8], 'big') % 100:02}"

    @property
    def answer(self) -> str:
        """What the desk should say."""
        return self.look_up(self.field, f"{self.buyer:02}")


class OrderDesk(Environment[OrderTask]):
    """Three commands lead to the answer: `order 47` gives `user 83`, `zip 83` gives `zip 31`, `say 31` ends.

    A wrong number finds wrong data that looks right, so nothing short of the whole chain tells the answer. The reward
    is 1 for the right one, less 0.1 for each command that the desk does not know.
    """

    max_turns = 5

    async def reset(self, scenario: OrderTask) -> str:
        """Ask the question."""
        self.task = scenario
        return f"{scenario.field} of order {scenario.order:02}"

    async def step(self, action: Action) -> StepResult:
        """Run one command."""
        match action.text.split(" "):
            case ["say", number] if _is_number(number):
                right = number == self.task.answer
                return StepResult(
                    done=True, reward=float(right), metrics={"success": right, "malformed": 0}, outcome=number
                )
            case ["order", number] if _is_number(number):
                return _answer(f"user {self.task.look_up('order', number)}")
            case ["age" | "zip" | "fax" | "qty" as field, number] if _is_number(number):
                return _answer(f"{field} {self.task.look_up(field, number)}")
            case _:
                return StepResult("error", reward=-0.1, metrics={"success": False, "malformed": 1})


def _answer(text: str) -> StepResult:
    return StepResult(text, metrics={"success": False, "malformed": 0})


def _is_number(text: str) -> bool:
    return len(text) == 2 and text.isascii() and text.isdigit()
