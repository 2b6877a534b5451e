"""An agent that answers questions from a SQLite database by calling tools.

python examples/sqlite_agent.py                       # a scripted model: nothing is learnt, all of it runs
python examples/sqlite_agent.py --backend embedded    # trains a small model for a few steps; needs the `torch` extra

The small model cannot call tools, so on the embedded backend it types the same calls as text.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

# Before torch is loaded: threads that spin while they wait slow a model this small down many times on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import art
from openai.types.chat import ChatCompletionMessage, ChatCompletionToolParam

from artkit import (
    Action,
    Episode,
    ProgrammaticReward,
    Rollout,
    RunReport,
    Sampling,
    Scenario,
    StepResult,
    ToolEnvironment,
    ToolError,
    Trainer,
    TrainerSettings,
    make_trainable_model,
    tool,
)
from artkit.testing import ChatServer, DiaryBackend, Reply

DATABASE = Path("shop.sqlite")
ITEMS = ("bed", "box", "bowl", "cup", "desk", "fork", "jug", "lamp", "mug", "pan", "pot", "rug", "sofa", "tray", "vase")
STEPS = 3
WARM_UP_BATCHES = 100


def make_database(path: Path) -> None:
    rng = random.Random(0)
    rows = [(item, rng.randint(10, 99), rng.randint(10, 99)) for item in ITEMS]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS items (name TEXT PRIMARY KEY, price INTEGER, stock INTEGER)")
        database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)


class Question(Scenario):
    field: str
    item: str
    answer: str


def make_questions(path: Path) -> list[Question]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name, price, stock FROM items ORDER BY name").fetchall()
    return [
        Question(id=f"{field}-{name}", field=field, item=name, answer=str(value))
        for name, price, stock in rows
        for field, value in (("price", price), ("stock", stock))
    ]


class Shop(ToolEnvironment[Question]):
    max_turns = 4

    async def reset(self, scenario: Question) -> Any:
        # Each episode has a connection of its own, which can only read. Tools run in threads, and SQLite wants to know.
        self.database = sqlite3.connect(f"file:{DATABASE}?mode=ro", uri=True, check_same_thread=False)
        return [
            {"role": "system", "content": "You answer questions about a shop. Look it up, then answer."},
            {"role": "user", "content": f"What is the {scenario.field} of the {scenario.item}?"},
        ]

    @tool
    def price(self, item: str) -> str:
        """Look up what an item costs, in euros."""
        return self.look_up("SELECT price FROM items WHERE name = ?", item)

    @tool
    def stock(self, item: str) -> str:
        """Look up how many of an item there are."""
        return self.look_up("SELECT stock FROM items WHERE name = ?", item)

    @tool(final=True)
    def answer(self, item: str) -> str:
        """Answer the question with a number; this ends the conversation."""
        return item

    def look_up(self, query: str, item: str) -> str:
        row = self.database.execute(query, (item,)).fetchone()
        if row is None:
            raise ToolError(f"no {item}")
        return str(row[0])

    async def close(self) -> None:
        self.database.close()


class TypedShop(Shop):
    """The same shop for a model that cannot call tools: it types `price lamp`, then `answer 42`."""

    async def reset(self, scenario: Question) -> Any:
        await super().reset(scenario)
        return f"{scenario.field} {scenario.item}?"

    def tools(self) -> list[ChatCompletionToolParam]:
        return []

    async def step(self, action: Action) -> StepResult:
        name, _, item = action.text.partition(" ")
        function = {"name": name, "arguments": json.dumps({"item": item})}
        call = {"id": "typed", "type": "function", "function": function}
        message = ChatCompletionMessage.model_validate({"role": "assistant", "tool_calls": [call]})
        result = await super().step(Action(message, action.finish_reason))
        answers: Any = result.messages
        return dataclasses.replace(result, messages=answers[0]["content"])


def grade(episode: Episode) -> float:
    return float(episode.outcome == episode.scenario.answer)


def scripted_model(body: dict[str, Any]) -> Reply:
    """Looks things up, and sometimes answers without."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return Reply(tool_calls=[("answer", {"item": last["content"]})])
    words = last["content"].rstrip("?").split()
    if random.Random(body["seed"]).random() < 0.5:
        return Reply(tool_calls=[("answer", {"item": "42"})])
    return Reply(tool_calls=[(words[3], {"item": words[-1]})])


def demonstration(question: Question, rng: random.Random) -> art.Trajectory:
    """What a novice does, who answers with the right number half of the time."""
    found = question.answer
    said = found if rng.random() < 0.5 else str(rng.randint(10, 99))
    return art.Trajectory(
        messages_and_choices=[
            {"role": "user", "content": f"{question.field} {question.item}?"},
            {"role": "assistant", "content": f"{question.field} {question.item}"},
            {"role": "user", "content": found},
            {"role": "assistant", "content": f"answer {said}"},
        ]
    )


async def main(backend_name: str = "scripted") -> RunReport:
    make_database(DATABASE)
    questions = make_questions(DATABASE)
    model = make_trainable_model(
        name=f"shop-{backend_name}", project="examples", base_model="artkit/micro", report_metrics=[]
    )
    backend: Any
    if backend_name == "scripted":
        backend, world = DiaryBackend(ChatServer(scripted_model)), Shop
    else:
        from artkit.backends.torch import TorchBackend

        backend, world = TorchBackend(), TypedShop
        await model.register(backend)
        if await model.get_step() == 0:
            # A model that has seen nothing says nothing that could be rewarded: imitation first.
            rng = random.Random(0)
            shown = [demonstration(rng.choice(questions), rng) for _ in range(16 * WARM_UP_BATCHES)]
            await model.train_sft(shown, art.TrainSFTConfig(learning_rate=3e-3, batch_size=16))

    trainer = Trainer(
        model=model,
        backend=backend,
        rollout=Rollout(world, sampling=Sampling(seed=0, max_completion_tokens=16)),
        train=questions,
        reward=ProgrammaticReward(grade),
        settings=TrainerSettings(learning_rate=5e-4, groups_per_step=4, rollouts_per_group=8, max_steps=STEPS),
    )
    return await trainer.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent that answers questions from a SQLite database.")
    parser.add_argument("--backend", choices=("scripted", "embedded"), default="scripted")
    asyncio.run(main(parser.parse_args().backend))
