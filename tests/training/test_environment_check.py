"""The environments of a run are played before anything is spent."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import art
import pytest

from artkit import (
    Action,
    AllRolloutsFailedError,
    Environment,
    EnvironmentContractError,
    PromptScenario,
    Rollout,
    ScenarioMixture,
    StepResult,
    TaskRollout,
    Validation,
    capture_partial,
)
from artkit.testing import choice
from artkit.tracking import Warned


class Ones(Environment[PromptScenario]):
    """Whoever says 1 is rewarded; anything may be said."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=float(action.text == "1"))


class Dice(Ones):
    """Draws from the generator that the whole process shares."""

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=random.random())


class Forgetful(Ones):
    """Returns no prompt, so that the model never sees the task."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return []


class Down(Ones):
    """Cannot reach what it needs."""

    async def step(self, action: Action) -> StepResult:
        raise ConnectionError("the sandbox is down")


class Seekable:
    """A source without an end, which can be resumed."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[PromptScenario]:
        return self

    def __next__(self) -> PromptScenario:
        self.position += 1
        name = f"item {self.position}"
        return PromptScenario(id=name, messages=[{"role": "user", "content": name}])

    def seek(self, n: int) -> None:
        self.position = n


def warned(workshop: Any) -> list[str]:
    return [event.text for event in workshop.told.of(Warned)]


@pytest.mark.parametrize(("environment", "why"), [(Dice, "the global generator of `random`"), (Forgetful, "the task")])
async def test_an_environment_that_cannot_be_trained_in_is_refused_before_anything_is_spent(
    workshop: Any, environment: type[Ones], why: str
) -> None:
    """Nothing was asked of the model, and the message says how to go on all the same."""
    with pytest.raises(EnvironmentContractError, match=why) as caught:
        await workshop.trainer(rollout=Rollout(environment)).run()

    assert workshop.answers.asked == []
    assert "check_environment=False" in caught.value.hint
    assert workshop.trained_ids() == []


async def test_the_check_can_be_turned_off_by_name(workshop: Any) -> None:
    """A world that is random on purpose, such as a simulated user, is the user's own choice."""
    settings = {"check_environment": False}

    report = await workshop.trainer(rollout=Rollout(Dice), settings=settings).run()

    assert report.steps == 2


async def test_the_environment_of_every_task_is_checked(workshop: Any) -> None:
    """The one that comes second in the mixture is no better known than the first."""
    mixture = ScenarioMixture({"a": (workshop.scenarios("a"), 1), "b": (workshop.scenarios("b"), 1)}, seed=0)
    rollout = TaskRollout({"a": Rollout(Ones), "b": Rollout(Dice)}, mixture.task_of)

    with pytest.raises(EnvironmentContractError, match="Dice breaks a promise"):
        await workshop.trainer(rollout=rollout, train=mixture).run()


async def test_the_environment_of_a_validation_is_checked(workshop: Any) -> None:
    """What checkpoints are ranked by must not be chance."""
    validation = Validation(workshop.scenarios("v"), rollout=Rollout(Dice))

    with pytest.raises(EnvironmentContractError, match="Dice breaks a promise"):
        await workshop.trainer(rollout=Rollout(Ones), validation=validation).run()


async def test_a_source_that_can_be_resumed_is_looked_into(workshop: Any) -> None:
    """Then it is read from its beginning all the same."""
    settings = {"max_steps": 1}

    with pytest.raises(EnvironmentContractError, match="Dice breaks a promise"):
        await workshop.trainer(rollout=Rollout(Dice), train=Seekable(), settings=settings).run()
    await workshop.trainer(rollout=Rollout(Ones), train=Seekable(), settings=settings).run()

    assert set(workshop.answers.asked) == {"item 1", "item 2"}


async def test_nothing_is_taken_from_a_source_that_cannot_give_it_again(workshop: Any) -> None:
    """What the check took would be missing from the run; so the run says that it has not looked."""
    items = (PromptScenario(id=str(n), messages=[{"role": "user", "content": str(n)}]) for n in itertools.count())
    settings = {"max_steps": 1}

    await workshop.trainer(rollout=Rollout(Dice), train=items, settings=settings).run()

    assert set(workshop.answers.asked) == {"0", "1"}
    assert any(text.startswith("Dice was not checked") for text in warned(workshop))


async def test_a_world_that_fails_is_warned_of_and_left_to_the_failure_policy(workshop: Any) -> None:
    """It may be up again when the rollouts come; how many of them may fail is the policy's to say."""
    with pytest.raises(AllRolloutsFailedError, match="the sandbox is down"):
        await workshop.trainer(rollout=Rollout(Down)).run()

    assert any("Down: " in text and "ConnectionError" in text for text in warned(workshop))


async def test_a_rollout_function_is_not_checked(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """It makes its environments itself, and may have none."""

    async def play(model: Any, scenario: PromptScenario) -> art.Trajectory:
        return art.Trajectory(messages_and_choices=[*scenario.messages, choice("hello")], reward=random.random())

    report = await workshop.trainer(rollout=capture_partial(play)).run()

    assert (report.steps, warned(workshop)) == (2, [])
