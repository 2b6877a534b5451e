"""Tasks that are played by rollouts of different kinds."""

from __future__ import annotations

from typing import Any

import art
import pytest

from artkit.environments import SingleTurnEnvironment
from artkit.episodes import FailurePolicy
from artkit.errors import ConfigurationError
from artkit.rollouts import (
    Rollout,
    Sampling,
    TaskRollout,
    capture_partial,
    gather_groups,
    rollouts_of,
    takes_sampling,
    with_sampling,
)
from artkit.scenarios import PromptScenario
from artkit.testing import ChatServer

ASKED, CHATTED = (PromptScenario(id=name, messages=name) for name in ("asked", "chatted"))


async def chat(model: art.Model[Any, Any], scenario: PromptScenario) -> art.Trajectory:
    """An agent that somebody has already; it breaks after its second turn."""
    trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": scenario.id}])
    for _ in range(2):
        completion = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=trajectory.messages()
        )
        trajectory.messages_and_choices += [completion.choices[0], {"role": "user", "content": "and?"}]
        trajectory.reward += 0.25
    raise KeyError("door")


def both(**options: Any) -> TaskRollout:
    return TaskRollout(
        {"asked": Rollout(SingleTurnEnvironment, **options), "chatted": capture_partial(chat, **options)},
        lambda scenario: scenario.id,
    )


async def test_an_adapted_agent_is_a_task_among_others() -> None:
    """What exists is mixed with what was written for artkit, and fails by the same rules."""
    rollout = both(failure_policy=FailurePolicy(keep={"environment"}))
    async with ChatServer(lambda body: "yes") as server:
        model = server.model()
        gathered = await gather_groups(rollout, model, [ASKED, CHATTED], rollouts_per_group=2)
        await model.openai_client().close()

    members = [one for group in gathered.groups for one in group.trajectories]
    assert [(one.metadata["task"], one.metrics["turns"], one.reward) for one in members] == [
        ("asked", 1, 0.0), ("asked", 1, 0.0), ("chatted", 2, 0.5), ("chatted", 2, 0.5),
    ]  # fmt: skip


def test_only_rollouts_have_an_environment_and_sampling_that_are_known() -> None:
    """How a function samples, and what it plays in, is its own."""
    rollout = both()

    changed = with_sampling(rollout, lambda sampling: Sampling(seed=7))

    assert isinstance(changed, TaskRollout)
    assert rollouts_of(changed) == {"asked": Rollout(SingleTurnEnvironment, sampling=Sampling(seed=7))}
    assert changed.rollouts["chatted"] is rollout.rollouts["chatted"]
    assert [takes_sampling(one) for one in (rollout, rollout.rollouts["asked"], rollout.rollouts["chatted"])] == [
        False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("one", [chat, Rollout, both(), None], ids=["function", "class", "tasks", "nothing"])
def test_what_is_no_rollout_of_one_task_is_refused(one: Any) -> None:
    """A function is wrapped first, for it has no failure policy; tasks within tasks could not be told apart."""
    with pytest.raises(ConfigurationError, match=r"is no rollout of one task.*or capture_partial\(my_function\)"):
        TaskRollout({"a": one}, str)
