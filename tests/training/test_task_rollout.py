"""Several tasks in one run, each with an environment of its own."""

from __future__ import annotations

from typing import Any

import pytest

from artkit import (
    AtEnd,
    ConfigurationError,
    Environment,
    FailurePolicy,
    Limits,
    PromptScenario,
    ResumeError,
    Rollout,
    Sampling,
    ScenarioMixture,
    StepResult,
    TaskRollout,
    Validation,
)


class Doubled(Environment[PromptScenario]):
    """Rewards twice the number that the model says."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Any) -> StepResult:
        return StepResult(done=True, reward=2 * float(action.text))


def tasks(workshop: Any) -> ScenarioMixture[Any]:
    return ScenarioMixture(
        {"single": (workshop.scenarios("a", "b"), 1), "double": (workshop.scenarios("c", "d"), 1)}, seed=0
    )


def both(workshop: Any, mixture: ScenarioMixture[Any], **changes: Any) -> TaskRollout:
    single = Rollout(workshop.Numbers, sampling=Sampling(seed=0))
    return TaskRollout({"single": single, "double": Rollout(Doubled, **changes)}, mixture.task_of)


async def test_each_scenario_is_played_in_the_environment_of_its_task(workshop: Any) -> None:
    """In one run, with one model, in the proportions of the mixture."""
    mixture = tasks(workshop)

    await workshop.trainer(train=mixture, rollout=both(workshop, mixture)).run()

    groups = [group for call in workshop.backend.calls("train") for group in call["groups"]]
    rewards = {group["scenario_id"]: sorted(group["rewards"]) for group in groups}
    assert rewards == {"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 2.0], "d": [0.0, 2.0]}


async def test_validation_samples_alike_in_every_task(workshop: Any) -> None:
    """Each task's own rollout, with the seed of the trainer or the sampling of the validation."""
    mixture = tasks(workshop)
    held_out = ScenarioMixture({"single": (workshop.scenarios("x"), 1), "double": (workshop.scenarios("y"), 1)})
    tasks_of = {scenario.id: order.task_of(scenario) for order in (mixture, held_out) for scenario in order.scenarios}
    rollout = TaskRollout(both(workshop, mixture).rollouts, lambda scenario: tasks_of[scenario.id])
    validation = Validation(held_out.scenarios, schedule=AtEnd(), sampling=Sampling(temperature=0.5))

    await workshop.trainer(train=mixture, rollout=rollout, validation=validation).run()

    asked = [body for body in workshop.server.requests if body["messages"][0]["content"] in "xy"]
    assert [(body["temperature"], "seed" in body) for body in asked] == [(0.5, True)] * 2


async def test_the_sampling_of_every_task_is_part_of_the_run(workshop: Any) -> None:
    """It decides what is trained on, so it must not change unnoticed."""
    mixture = tasks(workshop)
    settings = {"num_epochs": 2}
    await workshop.trainer(train=mixture, rollout=both(workshop, mixture), settings={**settings, "max_steps": 1}).run()

    changed = both(workshop, mixture, limits=Limits(max_turns=3))
    with pytest.raises(ResumeError, match="max_turns of double was None and is 3"):
        await workshop.trainer(train=mixture, rollout=changed, settings=settings).run()


def test_tasks_that_sample_unlike_training_are_warned_about_by_name(workshop: Any) -> None:
    """ART's importance ratios assume temperature 1 in each of them."""
    mixture = tasks(workshop)
    rollout = both(workshop, mixture, sampling=Sampling(temperature=0.5))

    (warning,) = workshop.trainer(train=mixture, rollout=rollout).plan().warnings

    assert warning.startswith("training of task 'double' samples at temperature 0.5")


async def test_a_task_without_a_rollout_stops_the_run_and_is_named(workshop: Any) -> None:
    """None of its scenarios could ever be played."""
    mixture = tasks(workshop)
    rollout = TaskRollout({"single": Rollout(workshop.Numbers)}, mixture.task_of)

    with pytest.raises(ConfigurationError, match=r"is of task 'double', which has no rollout .*beside 'single'"):
        await workshop.trainer(train=mixture, rollout=rollout).run()


@pytest.mark.parametrize(
    ("rollouts", "task_of", "message"),
    [
        ({}, str, "names no task"),
        ({"a": Doubled}, str, "is no Rollout"),
        (
            {"a": Rollout(Doubled), "b": Rollout(Doubled, failure_policy=FailurePolicy(max_retries=9))},
            str,
            "differ in their failure_policy",
        ),
        ({"a": Rollout(Doubled)}, "a", "is no function"),
    ],
)
def test_what_cannot_be_played_is_refused_when_it_is_made(rollouts: Any, task_of: Any, message: str) -> None:
    """Before anything is spent."""
    with pytest.raises(ConfigurationError, match=message):
        TaskRollout(rollouts, task_of)
