"""RULER, and rewards that fail, in a whole run of the trainer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from artkit import (
    AtEnd,
    DropFailures,
    DropZeroVariance,
    OutageError,
    ProgrammaticReward,
    RulerReward,
    ScenarioOrder,
    Score,
    Validation,
    WeightedReward,
)
from artkit.episodes import read_groups
from artkit.tracking import Warned

BLOCK = re.compile(r'<trajectory id="(\d+)">\n(.*)\n</trajectory>')


async def judge(messages: Sequence[dict[str, Any]]) -> str:
    """Score each transcript by half of the number it ends in."""
    shown = BLOCK.findall(messages[1]["content"])
    scores = {name: float(json.loads(text)[-1]["content"]) / 2 for name, text in shown}
    return json.dumps({"scores": [{"trajectory_id": n, "explanation": "", "score": s} for n, s in scores.items()]})


async def no_judge(messages: Sequence[dict[str, Any]]) -> str:
    return "I would rather not."


def data(workshop: Any, *names: str) -> ScenarioOrder[Any]:
    return ScenarioOrder(workshop.scenarios(*names), shuffle=False)


async def test_a_run_is_rewarded_by_a_judge(workshop: Any) -> None:
    """Training and validation alike, with the environment's own reward beside it."""
    validation = Validation(workshop.scenarios("x", "y"), schedule=AtEnd())

    report = await workshop.trainer(reward=RulerReward(judge=judge), validation=validation).run()

    trained = [sorted(group["rewards"]) for call in workshop.backend.calls("train") for group in call["groups"]]
    rows = workshop.rows("train")
    assert trained == [[0.0, 0.5]] * 4
    assert [(row["train/ruler_score"], row["train/independent_reward"]) for row in rows] == [(0.25, 0.5)] * 2
    assert [row["val/reward"] for row in workshop.rows("val")] == [0.25]
    assert report.best_step is None  # a relative reward ranks nothing


async def test_groups_with_nothing_to_compare_are_no_failures(workshop: Any) -> None:
    """A policy that has settled on one reply has nothing to learn; nothing of the run is broken."""
    names = [f"{number:02}" for number in range(60)]
    workshop.answers.replies = dict.fromkeys(names[:-1], "1")

    report = await workshop.trainer(
        train=data(workshop, *names),
        reward=RulerReward(judge=judge),
        settings={"rollouts_per_group": 4, "max_empty_steps": 30, "max_failure_rate": 0.1},
    ).run()

    (row,) = workshop.rows("train")
    assert report.reason == "finished: all batches were trained"
    assert (row["train/rollouts_alike"], row["train/rollouts_lost_reward"]) == (236.0, 236.0)
    assert (row["train/groups_submitted"], row["train/groups_dropped_zero_variance"]) == (60.0, 59.0)


async def test_what_had_nothing_to_compare_is_neither_a_failure_to_filters_nor_a_cause(workshop: Any) -> None:
    """Else the log would blame the judge for what an environment did."""
    names = [f"{number:02}" for number in range(4)]
    workshop.answers.replies = dict.fromkeys(names[1:], "1") | {"00": ["broken", "1"]}
    filters = DropFailures({"reward"}) | DropZeroVariance()

    await workshop.trainer(
        train=data(workshop, *names), reward=RulerReward(judge=judge), filters=filters, settings={"groups_per_step": 4}
    ).run()

    (counts,) = [entry["metrics"] for entry in workshop.journal() if entry["kind"] == "emptied"]
    assert {name: count for name, count in counts.items() if "dropped_" in name} == {"groups_dropped_zero_variance": 4}
    (text,) = [text for event in workshop.told.of(Warned) if "rollouts grouped" in (text := event.text)]
    assert "environment failure, RuntimeError: it broke" in text


async def test_a_validation_may_hold_groups_with_nothing_to_compare(workshop: Any) -> None:
    """They are left out of what it could have scored; one that holds nothing else has no mean."""
    workshop.answers.replies = {"x": "1"}
    validations = [
        Validation(workshop.scenarios("x", "y"), schedule=AtEnd()),
        Validation(workshop.scenarios("x"), schedule=AtEnd(), name="alike"),
    ]

    await workshop.trainer(reward=RulerReward(judge=judge), validation=validations).run()

    first, second = workshop.rows("val")
    assert (first["val/reward"], first["val/scored_share"]) == (0.25, 1.0)
    assert "val/alike/reward" not in second


async def test_a_judge_that_always_fails_stops_the_run_with_its_last_words(workshop: Any) -> None:
    """Twenty-seven steps without a reward must not look like training."""
    names = [f"{number:02}" for number in range(60)]
    reward = RulerReward(judge=no_judge, max_reasks=0)

    with pytest.raises(OutageError, match="I would rather not"):
        await workshop.trainer(train=workshop.scenarios(*names), reward=reward, settings={"groups_per_step": 30}).run()

    assert workshop.backend.calls("train") == ()


async def test_a_reward_that_fails_for_most_stops_the_run_with_its_cause(workshop: Any) -> None:
    """The few that it can score are no fair sample."""
    names = [f"{number:02}" for number in range(60)]

    def grade(episode: Any) -> float:
        if int(episode.metadata["scenario_id"]) % 4:
            raise KeyError("label")
        return float(episode.environment_reward)

    with pytest.raises(OutageError, match=r"90 of the last 120 episodes failed.*max_failure_rate=0.5.*KeyError"):
        await workshop.trainer(
            train=data(workshop, *names), reward=ProgrammaticReward(grade), settings={"groups_per_step": 30}
        ).run()


async def test_what_a_judge_in_a_sum_could_not_score_keeps_its_own_reward(workshop: Any) -> None:
    """In the recording, with the failure counted in the log, as where the judge stands alone."""
    calls: list[int] = []

    async def judge_of_the_second(messages: Sequence[dict[str, Any]]) -> str:
        calls.append(len(calls))
        return await (no_judge if len(calls) == 1 else judge)(messages)

    check = ProgrammaticReward(lambda episode: Score(1.0, metrics={"checked": True}))
    ruler = RulerReward(judge=judge_of_the_second, max_reasks=0, max_cached_groups=0)
    reward = WeightedReward({"ruler": (ruler, 2.0), "check": (check, 1.0)})

    await workshop.trainer(train=data(workshop, "a", "b"), reward=reward, settings={"max_concurrent": 1}).run()

    (row,) = workshop.rows("train")
    groups, lost = read_groups(workshop.model_dir / "artkit" / "recordings" / "batch-000000.jsonl")
    assert [[member.reward for member in group.trajectories] for group in groups] == [[], [1.0, 2.0]]
    assert [(member.reward, member.metrics["independent_reward"]) for member in lost] == [(0.0, 0.0), (1.0, 1.0)]
    assert [group.metrics for group in groups] == [{"judge_errors": 1}, {}]
    assert row["train/rollouts_lost_reward"] == 2.0
    assert [text for event in workshop.told.of(Warned) if "I would rather not" in (text := event.text)] != []
