"""Tasks of reasoning-gym, held against the package itself."""

from __future__ import annotations

from typing import Any

import pytest

from artkit.environments import SingleTurnEnvironment, check_environment
from artkit.environments.adapters import reasoning_gym_scenarios, reasoning_gym_score
from artkit.episodes import Episode, read_groups, write_groups
from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import ProgrammaticReward
from artkit.rollouts import Rollout, gather_groups
from artkit.scenarios import PromptScenario
from artkit.testing import ChatServer, choice

pytestmark = pytest.mark.worlds

NAMES = (
    "basic_arithmetic", "chain_sum", "countdown", "knights_knaves", "leg_counting", "letter_counting", "number_sorting",
    "simple_equations", "spell_backward", "word_sorting",
)  # fmt: skip


def episode(task: Any, said: str) -> Episode:
    return Episode(scenario=task, messages_and_choices=[*task.messages, choice(said)])


def replies(answer: str) -> list[str]:
    """What models say: right, right with reasoning, beside it, without the tags, and that they don't know."""
    return [
        f"<answer>{answer}</answer>",
        f"Is it <answer>7</answer>? No.\n<answer> {answer}\n</answer>",
        f"<answer>It is {answer} I think</answer>",
        answer,
        "I do not know.",
    ]


async def test_fifty_tasks_are_scored_as_by_hand() -> None:
    """The package's scoring knows its tasks: partial credit, many right answers, formats."""
    import reasoning_gym
    from reasoning_gym.utils import extract_answer

    scenarios, said, by_hand = [], {}, []
    for name in NAMES:
        dataset = reasoning_gym.create_dataset(name, size=5, seed=7)
        for index, scenario in enumerate(reasoning_gym_scenarios(name, count=5, seed=7)):
            entry = dataset[index]
            scenarios.append(scenario)
            said[entry["question"]] = replies(entry["answer"])[index]
            by_hand.append(dataset.score_answer(extract_answer(said[entry["question"]]), entry))

    async with ChatServer(said) as server:
        model = server.model()
        gathered = await gather_groups(
            Rollout(SingleTurnEnvironment),
            model,
            scenarios,
            rollouts_per_group=1,
            reward=ProgrammaticReward(reasoning_gym_score),
        )
        await model.openai_client().close()

    scored = [(group.metadata["scenario_id"], group.trajectories[0].reward) for group in gathered.groups]
    assert scored == [(scenario.id, score) for scenario, score in zip(scenarios, by_hand, strict=True)]
    assert len(scored) == 50
    assert len(set(by_hand)) > 3


def test_a_task_is_the_question_behind_the_packages_own_prompt() -> None:
    """That prompt asks for the tags that the answer is looked for in."""
    (task,) = reasoning_gym_scenarios("chain_sum", count=1, seed=3, settings={"min_terms": 2, "max_terms": 2})

    assert [message["role"] for message in task.messages] == ["system", "user"]
    assert "<answer>answer here</answer>" in task.messages[0]["content"]
    assert task.messages[1]["content"] == task.entry["question"]
    assert task.label == task.entry["answer"]
    assert task.settings == {"min_terms": 2, "max_terms": 2}


def test_the_same_arguments_make_the_same_tasks() -> None:
    """A run that resumes makes them again; other settings are other tasks."""
    tasks = reasoning_gym_scenarios("chain_sum", count=3)

    assert tasks == reasoning_gym_scenarios("chain_sum", count=3)
    for changes in ({"settings": {"max_terms": 3}}, {"answer_tag": None}, {"system_prompt": ""}):
        other = reasoning_gym_scenarios("chain_sum", count=3, **changes)  # type: ignore[arg-type]
        assert {task.id for task in tasks}.isdisjoint(task.id for task in other)


@pytest.mark.parametrize(
    ("tag", "said", "score"),
    [("answer", "<answer>{}</answer>", 1.0), ("final", "<final>{}</final>", 1.0), (None, " {}\n", 1.0)],
)
def test_the_answer_stands_where_the_task_says(tag: str | None, said: str, score: float) -> None:
    """A model that is trained without tags should not be graded by them."""
    (task,) = reasoning_gym_scenarios("chain_sum", count=1, answer_tag=tag)
    asked = "".join(message["content"] for message in task.messages[:-1])

    assert (f"<{tag}>" in asked) is (tag is not None)
    assert reasoning_gym_score(episode(task, said.format(task.label))) == score


def test_an_episode_without_a_reply_scores_as_no_answer() -> None:
    """Such is what the package does with None."""
    (task,) = reasoning_gym_scenarios("chain_sum", count=1)

    assert reasoning_gym_score(Episode(scenario=task, messages_and_choices=[])) == 0.0


def test_another_task_is_not_scored() -> None:
    """It would be scored 0 for no fault of the model."""
    with pytest.raises(RewardError, match="no task of reasoning-gym"):
        reasoning_gym_score(episode(PromptScenario(id="a", messages="hi"), "ho"))


def test_a_recording_scores_as_it_did(tmp_path) -> None:
    """Entries hold tuples, which JSON does not know; the scenario is handed in again."""
    import art

    (task,) = reasoning_gym_scenarios("spell_backward", count=1)
    played = episode(task, f"<answer>{task.label}</answer>")
    write_groups(tmp_path / "played.jsonl", [art.TrajectoryGroup([played])], [])

    groups, _ = read_groups(tmp_path / "played.jsonl", scenarios=[task])
    assert reasoning_gym_score(groups[0].trajectories[0]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dataset": "chain_sums", "count": 1}, "no dataset 'chain_sums'.*did you mean chain_sum"),
        ({"dataset": "chain_sum", "count": 0}, "count=0"),
        (
            {"dataset": "chain_sum", "count": 1, "settings": {"max_words": 3}},
            "refuses.*max_words.*ChainSumConfig has min_terms, max_terms, ",
        ),
        ({"dataset": "chain_sum", "count": 1, "settings": {"min_terms": 9}}, "refuses.*min_terms"),
    ],
)
def test_what_the_package_does_not_know_is_refused(arguments: dict[str, Any], problem: str) -> None:
    """With its own words, before anything is played."""
    with pytest.raises(ConfigurationError, match=problem):
        reasoning_gym_scenarios(**arguments)


async def test_its_tasks_keep_an_environments_promises() -> None:
    """They are prompts like any other."""
    scenarios = reasoning_gym_scenarios("chain_sum", count=2)
    report = await check_environment(SingleTurnEnvironment, scenarios, fresh_process=False)

    assert report.findings == ()
