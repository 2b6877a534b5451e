"""The demo's world."""

from __future__ import annotations

import inspect
from pathlib import Path

from openai.types.chat import ChatCompletionMessage

from artkit import Action, StepResult
from artkit.cli.demo.order_desk import OrderDesk, OrderTask

TASK = OrderTask(id="zip-47-83", field="zip", order=47, buyer=83)


def say(text: str) -> Action:
    """Make a reply of the model."""
    return Action(ChatCompletionMessage(role="assistant", content=text))


async def replies(*texts: str, task: OrderTask = TASK) -> list[StepResult]:
    """Play `texts` at a fresh desk."""
    desk = OrderDesk()
    await desk.reset(task)
    return [await desk.step(say(text)) for text in texts]


async def test_asks_for_a_field_of_an_order() -> None:
    """The question is all the model sees of the task."""
    assert await OrderDesk().reset(TASK) == "zip of order 47"


async def test_the_whole_chain_is_rewarded() -> None:
    """Order, buyer, value, answer."""
    result = await replies("order 47", "zip 83", f"say {TASK.answer}")

    assert [step.messages for step in result] == ["user 83", f"zip {TASK.answer}", ()]
    assert [step.reward for step in result] == [0.0, 0.0, 1.0]
    assert [step.done for step in result] == [False, False, True]
    assert (result[-1].outcome, dict(result[-1].metrics)) == (TASK.answer, {"success": True, "malformed": 0})


async def test_a_wrong_answer_ends_without_reward() -> None:
    """The buyer's number is not the buyer's zip."""
    (result,) = await replies("say 83")

    assert result == StepResult(done=True, reward=0.0, metrics={"success": False, "malformed": 0}, outcome="83")


async def test_each_command_the_desk_does_not_know_costs_a_tenth() -> None:
    """Its form is learnt too."""
    result = await replies("order 4", "order  47", "Order 47", "order ٤٧", "say", "")

    assert result == [StepResult("error", reward=-0.1, metrics={"success": False, "malformed": 1})] * 6


async def test_a_wrong_number_finds_wrong_data_that_looks_right() -> None:
    """Only the exact chain tells the answer."""
    result = await replies("order 48", "zip 47", "zip 82")

    for step, table in zip(result, ("user", "zip", "zip"), strict=True):
        name, number = str(step.messages).split(" ")
        assert (name, len(number), number.isdigit()) == (table, 2, True)
    assert str(result[2].messages) != f"zip {TASK.answer}"


async def test_the_same_commands_find_the_same_data() -> None:
    """An episode replays."""
    commands = ("order 11", "zip 83", "age 83", "fax 00", "say 31")

    assert await replies(*commands) == await replies(*commands)


def test_another_task_holds_other_data() -> None:
    """Nothing can be learnt by heart."""
    other = OrderTask(id="zip-46-83", field="zip", order=46, buyer=83)

    noise = [[task.look_up("zip", f"{number:02}") for number in range(100)] for task in (TASK, other)]

    assert sum(left == right for left, right in zip(*noise, strict=True)) < 10


def test_the_readme_shows_this_world() -> None:
    """What a reader copies is what the demo trains on."""
    readme = Path(__file__).parents[2] / "README.md"
    source = inspect.getsource(inspect.getmodule(OrderDesk))

    assert source[source.index("class OrderTask") :].strip() in readme.read_text()
