"""What the model sees before reinforcement learning: a novice at the desk, who is right once in five."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from artkit.cli.demo.order_desk import OrderDesk, OrderTask
from artkit.cli.demo.tasks import FIELDS
from artkit.environments import play
from artkit.episodes import Episode

if TYPE_CHECKING:
    import art

__all__ = ["demonstrations"]


async def demonstrations(tasks: list[OrderTask], *, count: int, seed: int) -> list[art.Trajectory]:
    """Return `count` episodes that a novice played on tasks drawn from `tasks`.

    They teach the commands and the copying of numbers, but not the routine: the novice's likeliest move after `user 83`
    is to `say 83`, so that imitating it, even greedily, almost never succeeds. The routine is left to the rewards.
    """
    rng = random.Random(f"demonstrations {seed}")  # chance, not secrets
    return [await play(OrderDesk(), _Novice(task, rng), Episode(scenario=task)) for task in rng.sample(tasks, count)]


class _Novice:
    """Knows the commands, and rarely which comes next."""

    def __init__(self, task: OrderTask, rng: random.Random) -> None:
        self._task = task
        self._rng = rng

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        del tools  # The desk's commands are text.
        moves = self._moves(str(messages[-1]["content"]), is_first=turn == 0)
        (text,) = self._rng.choices(list(moves), list(moves.values()))
        message = ChatCompletionMessage(role="assistant", content=text)
        return Choice(index=0, finish_reason="stop", message=message)

    def _moves(self, seen: str, *, is_first: bool) -> Mapping[str, int]:
        """Return each move after `seen` with its weight."""
        field, order = self._task.field, f"{self._task.order:02}"
        if is_first:
            return {f"order {order}": 74, f"{field} {order}": 20, f"say {order}": 3, f"{order} order": 3}
        table, _, number = seen.partition(" ")
        if table == "user":
            other = self._rng.choice([name for name in FIELDS if name != field])
            return {
                f"say {number}": 54,
                f"{field} {number}": 28,
                f"{other} {number}": 6,
                f"order {number}": 6,
                f"{number} {field}": 6,
            }
        if table in FIELDS:
            return {f"say {number}": 82, f"{table} {number}": 6, f"order {number}": 8, f"{number} say": 4}
        return {f"order {order}": 60, f"{field} {order}": 20, f"say {order}": 20}
