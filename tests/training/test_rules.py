"""The rules that a run keeps, each named after the rule."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import art
import pytest

from artkit import (
    Action,
    AllRolloutsFailedError,
    AtStart,
    ConfigurationError,
    Episode,
    Every,
    FailurePolicy,
    KeepBest,
    KeepLatest,
    ProgrammaticReward,
    Rollout,
    Sampling,
    ScenarioOrder,
    Score,
    StepResult,
    StopReason,
    Validation,
)
from artkit.episodes import read_groups
from artkit.rewards import RewardAdapter
from artkit.testing import DiaryBackend, Reply


async def test_groups_reach_art_as_finished_groups_in_order(workshop: Any) -> None:
    """Rollouts awaited one by one, or groups in the order they happened to finish, make steps that can't be repeated."""
    workshop.answers.replies = {"a": [Reply("0", delay_s=0.2), "1"]}
    data = workshop.scenarios("a", "b", "c")

    await workshop.trainer(train=ScenarioOrder(data, shuffle=False)).run()

    (first, second) = workshop.backend.calls("train")
    assert workshop.trained_ids() == [["a", "b"], ["c"]]
    assert [sorted(group["rewards"]) for group in (*first["groups"], *second["groups"])] == [[0.0, 1.0]] * 3


class Marking(RewardAdapter):
    """Scores, and leaves a mark of every kind on the group."""

    async def score(self, group: art.TrajectoryGroup) -> Sequence[Score]:
        group.metadata["mark"] = 1
        group.metrics["mark"] = 2.0
        group.logs.append("marked")
        return [Score(trajectory.reward, metrics={"signal": 7}) for trajectory in group.trajectories]


class Seeing(DiaryBackend):
    """Keeps the groups that it was given."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[art.TrajectoryGroup] = []

    async def train(self, model: Any, trajectory_groups: Any, *, learning_rate: float = 0.0) -> Any:
        self.seen += trajectory_groups
        return await super().train(model, trajectory_groups, learning_rate=learning_rate)


async def test_exceptions_metadata_metrics_and_logs_of_a_group_survive_scoring_and_filtering(workshop: Any) -> None:
    """What is dropped on the way (ART's own RULER helper drops all four) is missing from the log, and rates lie."""
    workshop.answers.replies = {"a": ["0", "1", Reply(status=400, error="no")]}
    backend = Seeing(workshop.server)

    await workshop.trainer(
        backend=backend, train=workshop.scenarios("a"), reward=Marking(), settings={"rollouts_per_group": 3}
    ).run()

    (group,) = backend.seen
    assert len(group.exceptions) == 1
    assert "no" in group.exceptions[0].message
    assert group.metadata.items() >= {"scenario_id": "a", "mark": 1}.items()
    assert group.metrics["mark"] == 2.0
    assert group.logs == ["marked"]


async def test_an_error_before_the_first_turn_is_an_exception_in_the_group(workshop: Any) -> None:
    """There is nothing to train on; only that it failed, which the rate counts."""
    workshop.answers.replies = {"a": ["0", "1", "0", Reply(status=400, error="refused")]}

    await workshop.trainer(train=workshop.scenarios("a"), settings={"rollouts_per_group": 4}).run()

    (row,) = workshop.rows("train")
    assert row["train/exception_rate"] == 0.25
    assert row["train/rollouts_failed_infrastructure"] == 1.0
    assert row["train/reward"] == pytest.approx(1 / 3)


def breaking(workshop: Any) -> type[Any]:
    """An environment that breaks on the second turn where the model says 9."""

    class Breaking(workshop.Numbers):
        async def step(self, action: Action) -> StepResult:
            if action.text == "9":
                raise OSError("the world is gone")
            return StepResult(messages=[{"role": "user", "content": "more"}], reward=float(action.text))

    return Breaking


async def test_an_error_after_the_first_turn_gives_a_partial_episode_that_leaves_the_group(workshop: Any) -> None:
    """Its turns are kept with numeric and bool metrics, but it enters no mean and never becomes reward 0."""
    # Members play one after the other: the third says 9 in its second turn.
    workshop.answers.replies = {"a": ["1"] * 10 + ["2"] * 10 + ["1", "9"]}

    await workshop.trainer(
        rollout=Rollout(breaking(workshop), sampling=Sampling(seed=0)),
        train=workshop.scenarios("a"),
        settings={"rollouts_per_group": 3, "max_concurrent": 1},
    ).run()

    _, lost = read_groups(workshop.model_dir / "artkit" / "recordings" / "batch-000000.jsonl")
    (episode,) = lost
    (row,) = workshop.rows("train")
    assert episode.metrics.items() >= {"turns": 2, "error": True, "truncated": False, "tool_errors": 0}.items()
    assert episode.stop_reason is StopReason.ERROR
    assert row["train/exception_rate"] == pytest.approx(1 / 3)
    assert row["train/reward"] == 15.0
    assert row["train/rollouts_lost_environment"] == 1.0


async def test_a_partial_episode_of_a_kept_kind_stays_and_is_scored(workshop: Any) -> None:
    """Whether a crash is the model's fault is for the user to say."""
    workshop.answers.replies = {"a": ["1"] * 10 + ["9"]}
    rollout = Rollout(breaking(workshop), failure_policy=FailurePolicy(keep={"environment"}))

    await workshop.trainer(
        rollout=rollout,
        train=workshop.scenarios("a"),
        reward=ProgrammaticReward(lambda episode: 0.0 if episode.metrics["error"] else 1.0),
        settings={"max_concurrent": 1},
    ).run()

    (row,) = workshop.rows("train")
    assert row["train/exception_rate"] == 0.0
    assert row["train/error"] == 0.5
    assert row["train/reward"] == 0.5


async def test_the_reward_holds_the_score_and_extra_signals_go_to_the_metrics(workshop: Any) -> None:
    """One number is trained on; the others are only looked at."""

    def grade(episode: Episode) -> Score:
        return Score(episode.environment_reward * 10, metrics={"length": 3})

    await workshop.trainer(train=workshop.scenarios("a"), reward=ProgrammaticReward(grade)).run()

    (row,) = workshop.rows("train")
    assert workshop.backend.calls("train")[0]["groups"][0]["rewards"] == [0.0, 10.0]
    assert row["train/reward"] == 5.0
    assert row["train/length"] == 3.0


async def test_the_outcome_stays_on_the_episode_and_in_the_recording(workshop: Any) -> None:
    """It is what a person looks at later, and nothing that ART's log has a column for."""

    class Solving(workshop.Numbers):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, reward=float(action.text), outcome={"answer": action.text})

    seen = []

    async def look(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        seen.extend(episode.outcome for episode in group.trajectories)
        return group

    await workshop.trainer(rollout=Rollout(Solving), train=workshop.scenarios("a"), reward=look).run()

    groups, _ = read_groups(workshop.model_dir / "artkit" / "recordings" / "batch-000000.jsonl")
    assert sorted(outcome["answer"] for outcome in seen) == ["0", "1"]
    assert [episode.outcome for episode in groups[0].trajectories] == seen


async def test_every_group_carries_its_scenario_id(workshop: Any) -> None:
    """Without it nobody can say which scenario a row of ART's log is about."""
    await workshop.trainer().run()

    assert sorted(itertools.chain(*workshop.trained_ids())) == ["a", "b", "c", "d"]


async def test_all_scored_groups_are_logged_and_the_filtered_ones_trained(workshop: Any) -> None:
    """A mean over what was trained on alone would hide what the model can do already."""
    workshop.answers.replies = {"b": "1"}

    await workshop.trainer(train=ScenarioOrder(workshop.scenarios("a", "b"), shuffle=False)).run()

    (row,) = workshop.rows("train")
    assert workshop.trained_ids() == [["a"]]
    assert row["train/reward"] == 0.75
    assert {name: row[f"train/groups_{name}"] for name in ("submitted", "trainable", "dropped")} == {
        "submitted": 2.0,
        "trainable": 1.0,
        "dropped": 1.0,
    }


async def test_max_exceptions_scales_with_the_batch_the_last_short_one_included(workshop: Any) -> None:
    """A fixed number that fits a full batch lets a short one fail in silence."""
    workshop.answers.replies = dict.fromkeys("abc", Reply(status=400, error="down"))
    data = ScenarioOrder(workshop.scenarios("a", "b", "c"), shuffle=False)
    workshop.answers.replies |= {"a": ["0", "1"], "b": Reply(status=400, error="down")}

    with pytest.raises(AllRolloutsFailedError, match=r"2/2 rollouts failed \(2 infrastructure\); .*down"):
        await workshop.trainer(train=data).run()

    assert workshop.trained_ids() == [["a"]]


async def test_a_step_in_which_every_rollout_failed_stops_the_run_with_the_first_cause_and_the_counts(
    workshop: Any,
) -> None:
    """Training goes on through anything else; an outage that looks like training costs a night."""
    workshop.answers.replies = dict.fromkeys("abcd", Reply(status=400, error="the GPU is on fire"))

    with pytest.raises(AllRolloutsFailedError, match=r"4/4 rollouts failed .*the GPU is on fire") as caught:
        await workshop.trainer().run()

    assert type(caught.value.__cause__).__name__ == "BadRequestError"
    assert workshop.backend.calls("train") == ()
    assert workshop.backend.diary[-1].call == "close"


async def test_the_row_of_a_step_is_logged_at_the_result_s_step(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Logged at the step before, a metric ranks the wrong checkpoint."""
    await workshop.trainer(validation=held_out(schedule=Every(1))).run()

    assert [(row["step"], "train/reward" in row, "val/reward" in row) for row in workshop.rows()] == [
        (1, True, False),
        (1, False, True),
        (2, True, False),
        (2, False, True),
    ]


async def test_the_options_reach_train_beside_the_learning_rate(workshop: Any) -> None:
    """They are the backend's own; artkit passes them on and has none."""
    await workshop.trainer(settings={"learning_rate": 0.25, "train_options": {"ppo": True}, "max_steps": 1}).run()

    (call,) = workshop.backend.calls("train")
    assert call["options"].items() >= {"learning_rate": 0.25, "ppo": True}.items()


async def test_no_validation_at_step_0_unless_asked(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """It costs as much as any other and often tells nothing new."""
    await workshop.trainer(validation=held_out(schedule=Every(1)), settings={"max_steps": 1}).run()
    without = [row["step"] for row in workshop.rows("val")]

    trainer = workshop.trainer(
        model=workshop.model(name="other"), validation=held_out(schedule=AtStart()), settings={"max_steps": 1}
    )
    report = await trainer.run()

    assert without == [1]
    assert '"val/reward"' in report.history.read_text().splitlines()[0]
    assert '"step": 0' in report.history.read_text().splitlines()[0]


async def test_validation_is_capped_and_periodic(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """A held-out set of thousands would take longer than the training."""
    validation = held_out("v", "w", "x", "y", "z", schedule=Every(2), max_scenarios=3)

    await workshop.trainer(
        train=workshop.scenarios("a", "b", "c"), validation=validation, settings={"groups_per_step": 1}
    ).run()

    assert [(row["step"], row["val/scenarios"]) for row in workshop.rows("val")] == [(2, 3.0)]
    assert sorted(text for text in workshop.answers.asked if text > "u") == sorted(
        scenario.id for scenario in validation.selected
    )


async def test_checkpoints_are_pruned_only_after_training_and_validation_were_logged(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A checkpoint is deleted by evidence that is on the disk already."""
    seen = []

    class Watching(DiaryBackend):
        async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
            seen.append([(row["step"], "val/reward" in row) for row in workshop.rows()])
            await super()._delete_checkpoint_files(model, steps_to_keep)

    await workshop.trainer(
        backend=Watching(workshop.server),
        validation=held_out(schedule=Every(1)),
        checkpoint_policy=KeepLatest(),
    ).run()

    assert seen == [[(1, False), (1, True)], [(1, False), (1, True), (2, False), (2, True)]]


async def test_without_the_metric_nothing_is_deleted(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """No evidence, no deletion; and it is said which metrics there are."""
    policy = KeepBest("val/wins") | KeepLatest()

    report = await workshop.trainer(validation=held_out(schedule=Every(1)), checkpoint_policy=policy).run()

    warnings = [event.text for event in workshop.told.events if type(event).__name__ == "Warned"]
    assert workshop.backend.checkpoint_steps(workshop.model()) == {0, 1, 2}
    assert [text for text in warnings if "val/wins" in text and "val/reward" in text] != []
    assert report.best_step is None


async def test_pruning_never_calls_art_s_own_delete_checkpoints(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It deletes the best checkpoint where the history or the metric is missing."""

    async def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("delete_checkpoints was called")

    monkeypatch.setattr(art.TrainableModel, "delete_checkpoints", refuse)

    await workshop.trainer(checkpoint_policy=KeepLatest()).run()

    assert workshop.backend.checkpoint_steps(workshop.model()) == {2}


async def test_a_policy_that_ranks_by_what_no_validation_logs_is_refused_before_the_run(workshop: Any) -> None:
    """`val/reward` has to be there whenever the policy ranks by it."""
    with pytest.raises(ConfigurationError, match=r"ranks by 'val/reward', which no validation will log"):
        await workshop.trainer(checkpoint_policy=KeepBest()).run()

    assert workshop.answers.asked == []


async def test_a_missing_reward_is_never_zero(workshop: Any) -> None:
    """A member without a score leaves its group; its siblings are trained on without it."""
    workshop.answers.replies = {"a": ["0", "1", "2"]}

    def grade(episode: Episode) -> float:
        return float("nan") if episode.environment_reward == 2 else episode.environment_reward

    await workshop.trainer(
        train=workshop.scenarios("a"),
        reward=ProgrammaticReward(grade),
        settings={"rollouts_per_group": 3},
    ).run()

    (row,) = workshop.rows("train")
    assert sorted(workshop.backend.calls("train")[0]["groups"][0]["rewards"]) == [0.0, 1.0]
    assert row["train/reward"] == 0.5
    assert row["train/rollouts_lost_reward"] == 1.0
    assert row["train/exception_rate"] == pytest.approx(1 / 3)


async def test_a_judge_that_fails_costs_its_group_and_not_the_others(workshop: Any) -> None:
    """ART's own gather loses every group of a step to one error in `after_each`."""

    async def judge(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        if group.metadata["scenario_id"] == "a":
            raise RuntimeError("the judge is tired")
        return group

    await workshop.trainer(train=workshop.scenarios("a", "b"), reward=judge).run()

    (row,) = workshop.rows("train")
    assert workshop.trained_ids() == [["b"]]
    assert row["train/exception_rate"] == 0.5


async def test_metrics_that_differ_between_episodes_are_means_over_those_that_have_them(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A missing value is no zero, and a metric called `reward` is not the reward."""

    def grade(episode: Episode) -> Score:
        return Score(1.0 if episode.member else 0.0, metrics={"won": 1.0} if episode.member else {"reward_ish": 4.0})

    await workshop.trainer(train=workshop.scenarios("a"), reward=ProgrammaticReward(grade)).run()

    (row,) = workshop.rows("train")
    assert (row["train/won"], row["train/reward_ish"], row["train/reward"]) == (1.0, 4.0, 0.5)
    assert (row["train/won_count"], row["train/reward_ish_count"]) == (1.0, 1.0)
    assert "train/turns_count" not in row


async def test_a_metric_of_an_environment_that_is_named_like_the_trainer_s_is_logged_under_another_name(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Neither may be lost, and a resumed run knows its rows by its own."""

    class Naming(workshop.Numbers):
        async def step(self, action: Any) -> Any:
            names = ("epoch", "batch_index", "recovered", "scenarios", "rollouts_grouped")
            return dataclasses.replace(await super().step(action), metrics=dict.fromkeys(names, 7.0))

    await workshop.trainer(rollout=Rollout(Naming), validation=[held_out(), held_out("z", name="more")]).run()

    train, val = workshop.rows("train")[0], {k: v for row in workshop.rows("val") for k, v in row.items()}
    assert (train["train/epoch"], train["train/batch_index"], train["train/rollouts_grouped"]) == (0.0, 0.0, 4.0)
    assert "train/recovered" not in train
    assert {train[f"train/metric_{name}"] for name in ("epoch", "batch_index", "recovered", "rollouts_grouped")} == {
        7.0
    }
    assert (val["val/scenarios"], val["val/metric_scenarios"]) == (2.0, 7.0)
    assert (val["val/more/scenarios"], val["val/more/metric_scenarios"]) == (1.0, 7.0)
