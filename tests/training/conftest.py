"""A small run on the doubles, of which each test changes what it is about."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from artkit import (
    Action,
    AtEnd,
    Environment,
    EnvironmentReward,
    PromptScenario,
    Rollout,
    Sampling,
    StepResult,
    Trainer,
    TrainerSettings,
    Validation,
    make_trainable_model,
)
from artkit.testing import ChatServer, DiaryBackend, Reply

if TYPE_CHECKING:
    from artkit.tracking import TrackingEvent


def scenarios(*names: str) -> list[PromptScenario]:
    return [PromptScenario(id=name, messages=[{"role": "user", "content": name}]) for name in names]


class Numbers(Environment[PromptScenario]):
    """The model says a number, and that is the reward; "broken" breaks it, and all else is worth nothing."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        if action.text == "broken":
            raise RuntimeError("it broke")
        try:
            number = float(action.text)
        except ValueError:
            number = 0.0
        return StepResult(done=True, reward=number, metrics={"is_high": number > 1})


def text_of(body: dict[str, Any]) -> str:
    return body["messages"][0]["content"]


class Answers:
    """Answers each scenario's members with 0, 1, 0, 1, … ; `replies` says otherwise, by the text of the scenario."""

    def __init__(self) -> None:
        self.replies: dict[str, str | Reply | Sequence[str | Reply]] = {}
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        text = text_of(body)
        number = self.asked.count(text)
        self.asked.append(text)
        reply = self.replies.get(text, ["0", "1"])
        return reply if isinstance(reply, str | Reply) else reply[number % len(reply)]


class Told:
    """A tracker that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[TrackingEvent] = []

    def handle(self, event: TrackingEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Workshop:
    """Makes trainers that share a directory, a server and a diary."""

    directory: Path
    server: ChatServer
    answers: Answers
    told: Told = field(default_factory=Told)
    backend: Any = None

    Numbers = Numbers
    scenarios = staticmethod(scenarios)

    @property
    def model_dir(self) -> Path:
        return self.directory / "art" / "workshop" / "models" / "agent"

    def model(self, **changes: Any) -> Any:
        return make_trainable_model(
            **{
                "name": "agent",
                "project": "workshop",
                "base_model": "none",
                "base_path": str(self.directory / "art"),
                "report_metrics": [],
                **changes,
            }
        )

    def trainer(self, *, settings: dict[str, Any] | None = None, **changes: Any) -> Trainer:
        """A trainer over the scenarios a to d in steps of two, with the changes."""
        self.backend = changes.pop("backend", None) or DiaryBackend(self.server)
        parts: dict[str, Any] = {
            "model": self.model(),
            "backend": self.backend,
            "rollout": Rollout(Numbers, sampling=Sampling(seed=0)),
            "train": scenarios("a", "b", "c", "d"),
            "reward": EnvironmentReward(),
            "trackers": (self.told,),
            "settings": TrainerSettings(**{"groups_per_step": 2, "rollouts_per_group": 2, **(settings or {})}),
        }
        return Trainer(**{**parts, **changes})

    def rows(self, split: str | None = None) -> list[dict[str, Any]]:
        path = self.model_dir / "history.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [row for row in rows if split is None or any(key.startswith(f"{split}/") for key in row)]

    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.model_dir / "artkit" / "journal.jsonl").read_text().splitlines()]

    def trained_ids(self) -> list[list[str]]:
        """The scenarios of each call of `train`, in order."""
        return [[group["scenario_id"] for group in call["groups"]] for call in self.backend.calls("train")]


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    answers = Answers()
    async with ChatServer(answers) as server:
        yield Workshop(directory=tmp_path, server=server, answers=answers)


@pytest.fixture
def own_loops(tmp_path: Path) -> Workshop:
    """A workshop for tests that run event loops of their own, as a program does; the model says "1"."""
    answers = Answers()
    return Workshop(directory=tmp_path, server=ChatServer(lambda body: "1"), answers=answers)


@pytest.fixture
def held_out() -> Callable[..., Validation]:
    """Makes a validation over x and y."""

    def make(*names: str, **arguments: Any) -> Validation:
        return Validation(scenarios(*(names or ("x", "y"))), **{"schedule": AtEnd(), **arguments})

    return make
