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
    capture_partial,
)


class Doubled(Environment[PromptScenario]):
    """Rewards a 1 twice over."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Any) -> StepResult:
        return StepResult(done=True, reward=2.0 * (action.text == "1"))


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


async def test_a_sampling_that_does_not_reach_every_task_is_refused(workshop: Any) -> None:
    """How a function samples is its own, also where only one task is played by one."""
    mixture = tasks(workshop)
    rollouts = {**both(workshop, mixture).rollouts, "double": capture_partial(Rollout(Doubled))}
    validation = Validation(mixture.scenarios, schedule=AtEnd(), sampling=Sampling(temperature=0.5))

    with pytest.raises(ConfigurationError, match="sampling= does not reach a rollout function"):
        await workshop.trainer(
            train=workshop.scenarios("x"), rollout=TaskRollout(rollouts, lambda _: "single"), validation=validation
        ).run()


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


async def test_a_held_out_scenario_of_no_known_task_is_refused_before_anything_is_spent(workshop: Any) -> None:
    """What is held out is seldom part of the mixture that names the tasks."""
    mixture = tasks(workshop)
    validation = Validation(workshop.scenarios("held out"), schedule=AtEnd())

    with pytest.raises(ConfigurationError, match=r"'held out'.* those held out for validation too"):
        await workshop.trainer(train=mixture, rollout=both(workshop, mixture), validation=validation).run()

    assert workshop.answers.asked == []


async def test_each_task_has_its_own_mean_reward_in_the_rows(workshop: Any) -> None:
    """The mean over all tasks hides which of them learns."""
    mixture = tasks(workshop)
    known = TaskRollout(
        both(workshop, mixture).rollouts, lambda scenario: "double" if scenario.id in "cdy" else "single"
    )
    validation = Validation(workshop.scenarios("x", "y"), schedule=AtEnd(), rollouts_per_scenario=2)

    await workshop.trainer(train=mixture, rollout=known, validation=validation, settings={"groups_per_step": 4}).run()

    (train,), (val,) = workshop.rows("train"), workshop.rows("val")
    assert [train[f"train/reward{of}"] for of in ("", "_of_single", "_of_double")] == [0.75, 0.5, 1.0]
    assert [val[f"val/reward{of}"] for of in ("", "_of_single", "_of_double")] == [0.75, 0.5, 1.0]


async def test_a_scenario_that_no_task_is_known_of_is_named(workshop: Any) -> None:
    """A table of the training data does not know what is validated on, and a bare KeyError says neither."""
    mixture = tasks(workshop)
    rollout = TaskRollout(both(workshop, mixture).rollouts, lambda scenario: {}[scenario.id])

    with pytest.raises(ConfigurationError, match=r"task_of raised .* for scenario 'a'"):
        await rollout(workshop.model(), mixture.scenarios[0])


@pytest.mark.parametrize(
    ("rollouts", "task_of", "message"),
    [
        ({}, str, "names no task"),
        ({"a": Doubled}, str, "is no rollout of one task"),
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
