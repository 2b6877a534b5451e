"""What a validation came to, from its groups."""

from __future__ import annotations

import art
import pytest

from artkit.rollouts import GatherCounts
from artkit.training.validation_result import ValidationResult


def result(*groups: art.TrajectoryGroup, lost: int = 0, **changes: object) -> ValidationResult:
    grouped = sum(len(group.trajectories) for group in groups)
    for number, group in enumerate(groups):
        group.metadata["scenario_id"] = f"s-{number}"
    parts = {
        "name": "val",
        "groups": list(groups),
        "lost": [art.Trajectory() for _ in range(lost)],
        "counts": GatherCounts(started=grouped + lost, grouped=grouped, lost={"environment": lost}),
        "seconds": 1.0,
    }
    return ValidationResult(**{**parts, **changes})


def group(*rewards: float, **metrics: float) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([art.Trajectory(reward=reward, metrics=dict(metrics)) for reward in rewards])


def test_metrics_that_differ_between_episodes_are_means_over_those_that_have_them_with_their_counts() -> None:
    """A missing value is no zero and no None, and a metric called `reward` is not the reward."""
    members = [{"turns": 3}, {"turns": 4, "won": True, "reward": 9.0}, {}]
    groups = [art.TrajectoryGroup([art.Trajectory(reward=0.5, metrics=dict(metrics)) for metrics in members])]

    metrics = result(*groups).metrics

    assert {name: metrics[name] for name in ("reward", "turns", "turns_count", "won", "won_count")} == {
        "reward": 0.5,
        "turns": 3.5,
        "turns_count": 2.0,
        "won": 1.0,
        "won_count": 1.0,
    }
    assert metrics["metric_reward"] == 9.0


def test_scores_are_the_means_of_the_scenarios_that_could_be_scored() -> None:
    """They are what two validations are compared by."""
    assert result(group(0.0, 1.0), group(), group(2.0)).scores == {"s-0": 0.5, "s-2": 2.0}


@pytest.mark.parametrize(
    ("groups", "changes", "passes"),
    [
        ([group(1.0), group(0.0)], {}, {}),
        ([group(1.0, 0.0, 0.0), group(0.0, 0.0, 0.0)], {}, {"pass@1": 1 / 6, "pass@2": 1 / 3, "pass@3": 0.5}),
        ([group(1.0, 0.5)], {}, {}),
        ([group(1.0, 0.5)], {"pass_at": (2,)}, {"pass@2": 1.0}),
        ([group(1.0, 0.5)], {"pass_at": (1,), "success_threshold": 0.5}, {"pass@1": 1.0}),
        ([group(1.0, 0.5)], {"success_threshold": 0.75}, {"pass@1": 0.5, "pass@2": 1.0}),
        ([group(1.0, 0.5), group(0.0, 0.2)], {"success_threshold": 0.2}, {"pass@1": 0.75, "pass@2": 1.0}),
        ([group(0.5)], {"success_threshold": 0.2}, {}),
        ([group(1.0)], {"pass_at": (2,)}, {}),
        ([group()], {"pass_at": (1,)}, {}),
    ],
)
def test_pass_at_k_is_there_where_it_can_be_estimated(groups, changes, passes) -> None:
    """By itself only where a reward says yes or no, or it was said which is a success: else nobody knows."""
    metrics = result(*groups, **changes).metrics

    assert {name: value for name, value in metrics.items() if "pass@" in name} == pytest.approx(passes)


@pytest.mark.parametrize(
    ("whole", "passes"), [(9, {"pass@1": 0.1, "pass@2": 0.0}), (8, {"pass@1": 0.2}), (0, {"pass@1": 1.0})]
)
def test_pass_at_k_is_not_the_mean_of_the_easy_scenarios(whole: int, passes: dict[str, float]) -> None:
    """Those that lost a rollout may be the hard ones: without a tenth of the scenarios it is not logged."""
    groups = [*(group(0.0, 0.0) for _ in range(whole)), *(group(1.0) for _ in range(10 - whole))]

    metrics = result(*groups, lost=10 - whole, pass_at=(1, 2)).metrics

    assert {name: value for name, value in metrics.items() if "pass@" in name} == pytest.approx(passes)


@pytest.mark.parametrize(
    ("grouped", "lost", "alike", "ranks"), [(9, 1, 0, True), (8, 2, 0, False), (8, 2, 2, True), (0, 0, 0, False)]
)
def test_what_could_score_nine_tenths_ranks(grouped: int, lost: int, alike: int, ranks: bool) -> None:
    """What a relative reward found alike could not have been scored."""
    counts = GatherCounts(started=grouped + lost, grouped=grouped, lost={"reward": lost}, alike=alike)

    assert result(group(*[1.0] * grouped), counts=counts).ranks is ranks


def test_nothing_that_is_scored_leaves_nothing_to_say_of_the_mean() -> None:
    """No mean, no interval; the counts are there."""
    empty = result(group(), lost=2, cause="RuntimeError: no table")

    assert empty.metrics == {
        "error_rate": 0.0,
        "truncated_rate": 0.0,
        "scenarios": 1.0,
        "scored_share": 0.0,
        "rollouts_lost": 2.0,
        "rollouts_failed": 0.0,
    }
    assert str(empty) == "val: nothing could be scored: RuntimeError: no table"
