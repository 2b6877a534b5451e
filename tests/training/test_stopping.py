"""When a run stops before its data ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from artkit import Every, OutageError, ProgrammaticReward, Progress, RewardError, ScenarioOrder, Validation
from artkit.testing import Reply
from artkit.tracking import Warned


async def test_nothing_trainable_does_not_call_train_and_the_run_goes_on(workshop: Any) -> None:
    """The cursor advances, and the counts go to the next row."""
    workshop.answers.replies = {"a": "1", "b": "1"}
    data = ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), shuffle=False)

    report = await workshop.trainer(train=data).run()

    (row,) = workshop.rows("train")
    assert workshop.trained_ids() == [["c", "d"]]
    assert (row["step"], row["train/groups_submitted"], row["train/groups_trainable"]) == (1, 4.0, 2.0)
    assert [entry["kind"] for entry in workshop.journal()] == [
        "began", "emptied", "intended", "trained", "logged", "ended",
    ]  # fmt: skip
    assert report.counts["groups_submitted"] == 4.0


async def test_too_many_empty_batches_in_a_row_stop_the_run(workshop: Any) -> None:
    """A reward that is always the same teaches nothing however long it goes on."""
    workshop.answers.replies = dict.fromkeys("abcd", "0")

    report = await workshop.trainer(settings={"num_epochs": 9}).run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert report.reason == "stopped: 3 batches in a row held nothing to learn from"
    assert workshop.backend.calls("train") == ()
    assert [text for text in warnings if "batch 0 holds nothing to learn from: 2 groups: " in text] != []


async def test_a_reward_that_scores_nobody_stops_the_run_with_its_cause(workshop: Any) -> None:
    """A bug in a grader must not look like a model with nothing left to learn."""

    def grade(episode: Any) -> float:
        raise AttributeError("no such field: sekret")

    with pytest.raises(RewardError, match=r"no episode of the last 3 batches could be scored.*no such field: sekret"):
        await workshop.trainer(reward=ProgrammaticReward(grade), settings={"num_epochs": 9}).run()


async def test_only_unscored_batches_that_follow_each_other_stop_the_run(workshop: Any) -> None:
    """What the error promises to play again is what has not been passed over."""
    names = [*"abcdefgh"]
    workshop.answers.replies = dict.fromkeys("cf", "1")
    unscored = {"a", "b", "d", "e", "g", "h"}
    reward = ProgrammaticReward(lambda episode: None if episode.scenario.id in unscored else 1.0)
    data = ScenarioOrder(workshop.scenarios(*names), shuffle=False)
    settings = {"groups_per_step": 1, "max_empty_steps": 3}

    report = await workshop.trainer(train=data, reward=reward, settings=settings).run()
    again = await workshop.trainer(train=data, settings=settings).run()

    assert report.reason == "finished, but for the last 2 batches, which could not be scored; start again"
    assert again.steps == 2
    assert workshop.trained_ids() == [["g"], ["h"]]
    assert workshop.rows("train")[0]["train/groups_submitted"] == 7.0


async def test_what_a_broken_reward_could_not_score_is_played_again(workshop: Any) -> None:
    """What these batches would have taught is not lost with the bug."""
    with pytest.raises(RewardError):
        await workshop.trainer(reward=ProgrammaticReward(lambda _: None), settings={"num_epochs": 2}).run()

    report = await workshop.trainer(settings={"num_epochs": 2}).run()

    assert report.steps == 4
    assert sorted(name for step in workshop.trained_ids() for name in step) == sorted("abcd" * 2)


async def test_a_run_whose_last_batch_could_not_be_scored_says_so_and_plays_it_again(workshop: Any) -> None:
    """One bad batch at the end must not be taken for a finished run."""
    data = ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), shuffle=False)
    broken = ProgrammaticReward(lambda episode: None if episode.scenario.id in "cd" else float(episode.member))
    first = await workshop.trainer(train=data, reward=broken).run()

    again = await workshop.trainer(train=data).run()

    assert first.reason == "finished, but for the last batch, which could not be scored; start again"
    assert (again.reason, workshop.trained_ids()) == ("finished: all batches were trained", [["c", "d"]])


async def test_each_batch_that_loses_episodes_says_why(workshop: Any) -> None:
    """A run in which half of everything breaks ends well, and nobody would know."""

    def grade(episode: Any) -> float:
        if episode.member == 0:
            raise AttributeError("db is down")
        return float(episode.member)

    await workshop.trainer(reward=ProgrammaticReward(grade), settings={"rollouts_per_group": 3}).run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert [text for text in warnings if text.startswith("batch 0: ") and "db is down" in text] != []


async def test_a_run_that_has_trained_nothing_takes_other_settings(workshop: Any) -> None:
    """Mending a wrong option after the first refusal must not cost a new run name."""
    with pytest.raises(RewardError):
        await workshop.trainer(reward=ProgrammaticReward(lambda _: None), settings={"num_epochs": 2}).run()

    report = await workshop.trainer(settings={"num_epochs": 2, "groups_per_step": 4}).run()

    assert report.steps == 2
    assert "data or settings changed, and nothing was trained yet: the run begins anew" in [
        event.text for event in workshop.told.of(Warned)
    ]


async def test_a_run_that_stopped_on_empty_batches_may_be_started_again(workshop: Any) -> None:
    """Whoever starts it again has mended the reward."""
    workshop.answers.replies = dict.fromkeys("abcd", "0")
    await workshop.trainer(settings={"num_epochs": 2}).run()
    workshop.answers.replies = {}

    report = await workshop.trainer(settings={"num_epochs": 2}).run()

    assert (report.reason, report.steps) == ("finished: all batches were trained", 1)


async def test_a_trained_batch_starts_the_count_of_empty_ones_anew(workshop: Any) -> None:
    """Only batches in a row tell that nothing is left to learn."""
    workshop.answers.replies = {"a": "1"}
    data = ScenarioOrder(workshop.scenarios("a", "b"), shuffle=False)

    report = await workshop.trainer(
        train=data, settings={"groups_per_step": 1, "num_epochs": 4, "max_empty_steps": 2}
    ).run()

    assert (report.reason, report.steps) == ("finished: all batches were trained", 4)


async def test_a_group_of_one_trains_nothing_and_says_so(workshop: Any) -> None:
    """Elsewhere the deviation of one value is NaN, and so is every loss."""
    report = await workshop.trainer(settings={"rollouts_per_group": 1, "num_epochs": 9}).run()

    assert report.steps == 0
    assert report.reason == "stopped: 3 batches in a row held nothing to learn from"
    assert "rollouts_per_group=1" in workshop.told.of(Warned)[0].text


async def test_too_many_failures_among_the_last_100_episodes_stop_the_run(workshop: Any) -> None:
    """Half of the rollouts lost is an outage, although each step could still train."""
    refused = Reply(status=400, error="half broken")
    workshop.answers.replies = {key: ["0", "1", refused, refused, refused] for key in "abcd"}

    with pytest.raises(OutageError, match=r"of the last 100 episodes failed, more than max_failure_rate=0.5.*half bro"):
        await workshop.trainer(settings={"rollouts_per_group": 10, "num_epochs": 9}).run()


async def test_judge_failures_count_among_the_last_100_episodes(workshop: Any) -> None:
    """A dead judge stops the run too."""

    async def judge(group: Any) -> Any:
        if group.metadata["scenario_id"] != "a":
            raise RuntimeError("no judge")
        return group

    with pytest.raises(OutageError, match="no judge"):
        await workshop.trainer(reward=judge, settings={"rollouts_per_group": 10, "num_epochs": 9}).run()


async def test_stop_when_is_asked_once_after_each_step_with_what_was_logged(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Training and validation both, by ART's names."""
    seen: list[tuple[int, float, float]] = []

    def stop(progress: Progress, metrics: Mapping[str, float]) -> str | None:
        seen.append((progress.step, metrics["train/reward"], metrics["val/reward"]))
        return "good enough" if progress.step == 2 else None

    report = await workshop.trainer(
        stop_when=stop,
        validation=held_out(schedule=Every(1)),
        settings={"num_epochs": 9},
    ).run()

    assert seen == [(1, 0.5, 0.0), (2, 0.5, 1.0)]
    assert (report.reason, report.steps) == ("stopped: good enough", 2)


async def test_a_stopped_run_is_validated_at_its_end(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """The last model is the one that is used."""
    await workshop.trainer(
        stop_when=lambda progress, metrics: "enough", validation=held_out(), settings={"num_epochs": 9}
    ).run()

    assert [row["step"] for row in workshop.rows("val")] == [1]
