"""When a run stops before its data ends: what each condition says of a history."""

from __future__ import annotations

import json
import math
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import art
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit import make_trainable_model
from artkit.checkpoints import MetricHistory
from artkit.errors import ConfigurationError
from artkit.training.stopping import (
    AnyCondition,
    MaxCost,
    MaxMinutes,
    NoImprovement,
    NothingToLearn,
    RewardCollapse,
    StopCondition,
    TargetReached,
    as_condition,
    not_finite,
)
from artkit.validation import Progress

NOTHING = MetricHistory()


def history_in(directory: Path) -> Path:
    (path,) = directory.rglob("history.jsonl")
    return path


def at(step: int, **changes: Any) -> Progress:
    return Progress(step=step, **changes)


def val(*rewards: float, every: int = 10) -> MetricHistory:
    """A history with these validations, at step 10, 20, 30 and so on."""
    return MetricHistory.from_values({"val/reward": {every * n: value for n, value in enumerate(rewards, start=1)}})


def train(rewards: list[float]) -> MetricHistory:
    return MetricHistory.from_values({"train/reward": dict(enumerate(rewards, start=1))})


# What all conditions promise.

single = st.one_of(
    st.builds(
        NoImprovement,
        st.integers(1, 3),
        mode=st.sampled_from(["max", "min"]),
        min_delta=st.sampled_from([0.0, 0.3]),
    ),
    st.builds(TargetReached, st.sampled_from([0.25, 0.75]), mode=st.sampled_from(["max", "min"])),
    st.builds(MaxMinutes, st.sampled_from([1, 5])),
    st.builds(MaxCost, st.sampled_from([1, 4])),
    st.builds(NothingToLearn, st.integers(1, 3)),
    st.just(RewardCollapse(window_steps=2, patience=1)),
)
conditions = st.recursive(single, lambda inner: st.builds(lambda one, two: one | two, inner, inner), max_leaves=4)
places = st.builds(Progress, step=st.integers(0, 12), elapsed_s=st.integers(0, 400), empty_in_a_row=st.integers(0, 3))
numbers = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
METRICS = ["val/reward", "train/reward", "train/reward_std_dev", "costs/train", "costs/cum/train", "costs/eval"]
values = st.dictionaries(st.sampled_from(METRICS), st.dictionaries(st.integers(0, 20), numbers))


@given(conditions, conditions, conditions, places, values)
def test_joining_is_associative_and_idempotent(
    one: StopCondition,
    two: StopCondition,
    three: StopCondition,
    progress: Progress,
    logged: dict[str, dict[int, float]],
) -> None:
    """How a user puts the brackets changes neither the condition nor its reason."""
    history = MetricHistory.from_values(logged)
    reasons = [condition.reason(progress, history) for condition in (one, two, three)]

    assert (one | two) | three == one | (two | three)
    assert one | one == one
    assert (one | two | three).reason(progress, history) == next(filter(None, reasons), None)


@given(conditions, places, values)
def test_what_was_logged_for_later_steps_changes_nothing(
    condition: StopCondition, progress: Progress, logged: dict[str, dict[int, float]]
) -> None:
    """A history read after the run answers for each step as it did during the run."""
    so_far = {
        metric: {step: value for step, value in by_step.items() if step <= progress.step}
        for metric, by_step in logged.items()
    }

    assert condition.reason(progress, MetricHistory.from_values(logged)) == condition.reason(
        progress, MetricHistory.from_values(so_far)
    )


def answers(condition: StopCondition, path: Path, rows: list[str], *, since: int, cuts: set[int]) -> list[Any]:
    """What is answered after each row from `since` on, by a session whose history reads on in the growing file.

    Also where it reads in between, at the bytes in `cuts`, and finds half a row.
    """
    history = MetricHistory()
    answered = []
    text = "".join(rows).encode()
    written = sum(len(row.encode()) for row in rows[:since])
    for step, row in enumerate(rows[since:], start=since + 1):
        for cut in sorted(cuts & set(range(written + 1, written + len(row)))):
            path.write_bytes(text[:cut])
            history.read_on(path)
        written += len(row.encode())
        path.write_bytes(text[:written])
        history.read_on(path)
        answered.append(condition.reason(at(step, elapsed_s=50.0 * step), history))
    return answered


@given(conditions, st.lists(st.dictionaries(st.sampled_from(METRICS), numbers), min_size=2, max_size=8), st.data())
def test_a_resumed_run_stops_where_an_uninterrupted_one_does(
    condition: StopCondition, logged: list[dict[str, float]], data: Any
) -> None:
    """Read on row by row, begun again in the middle, or read at once: the answer is in the file, and nowhere else."""
    rows = [json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(logged, start=1)]
    resumed = data.draw(st.integers(1, len(rows) - 1))
    cuts = data.draw(st.sets(st.integers(1, sum(map(len, rows)) - 1), max_size=3))

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        through = answers(condition, path, rows, since=0, cuts=cuts)
        again = answers(condition, path, rows, since=resumed, cuts=cuts)
        whole = MetricHistory.read(path)

    assert again == through[resumed:]
    assert through == [condition.reason(at(step, elapsed_s=50.0 * step), whole) for step in range(1, len(rows) + 1)]


@given(conditions)
def test_a_condition_survives_pickling_and_is_hashable(condition: StopCondition) -> None:
    """Settings travel between processes."""
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert hash(condition) == hash(pickle.loads(pickle.dumps(condition)))


def test_the_first_reason_wins() -> None:
    """The report has one reason, and the order is the user's."""
    condition = MaxMinutes(1) | TargetReached(0.5) | MaxMinutes(1)

    assert condition == AnyCondition((MaxMinutes(1), TargetReached(0.5)))
    assert repr(condition) == "MaxMinutes(1) | TargetReached(value=0.5, metric='val/reward', mode='max')"
    assert condition.reads == {"val/reward"}
    assert condition.reason(at(10, elapsed_s=90), val(0.9)) == "the run has taken 1.5 minutes, and 1 were allowed"
    assert condition.reason(at(10), val(0.9)) == "val/reward was 0.9 at step 10, and 0.5 was the target"


def test_a_condition_joins_only_conditions() -> None:
    """A function joined by mistake would be asked with the wrong arguments."""
    with pytest.raises(TypeError):
        MaxMinutes(1) | (lambda progress, metrics: None)


# NoImprovement and TargetReached


def test_no_improvement_counts_values_and_not_steps() -> None:
    """With a validation every 10 steps, patience 2 is 20 steps."""
    history = val(0.5, 0.75, 0.7, 0.75)

    answers = [NoImprovement(2).reason(at(step), history) for step in (20, 30, 39, 40)]

    assert answers == [None] * 3 + ["val/reward was best with 0.75 at step 20, and the 2 values since were no better"]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (NoImprovement(1), None),
        (NoImprovement(3, min_delta=0.2), None),
        (NoImprovement(1, "val/other"), None),
        (
            NoImprovement(2, min_delta=0.2),
            "val/reward was best with 0.5 at step 10, and the 2 values since were no better by more than 0.2",
        ),
        (
            NoImprovement(2, mode="min"),
            "val/reward was best with 0.5 at step 10, and the 2 values since were no better",
        ),
    ],
)
def test_what_counts_as_better_is_the_users_choice(condition: NoImprovement, reason: str | None) -> None:
    """A loss is better when it is smaller, and a hair's breadth may be chance."""
    assert condition.reason(at(30), val(0.5, 0.6, 0.65)) == reason


def test_small_improvements_add_up() -> None:
    """Held against the last best value and not the last value, slow progress is progress."""
    assert NoImprovement(2, min_delta=0.15).reason(at(40), val(0.5, 0.6, 0.7, 0.8)) is None


@pytest.mark.parametrize(
    ("mode", "step", "reason"),
    [
        ("max", 10, None),
        ("max", 20, "val/reward was 0.9 at step 20, and 0.8 was the target"),
        ("max", 30, "val/reward was 0.9 at step 20, and 0.8 was the target"),
        ("min", 10, "val/reward was 0.5 at step 10, and 0.8 was the target"),
    ],
)
def test_a_target_is_reached_once_and_for_all(mode: Any, step: int, reason: str | None) -> None:
    """A run that is started again after it has reached its target has nothing to do."""
    assert TargetReached(0.8, mode=mode).reason(at(step), val(0.5, 0.9, 0.7)) == reason


def test_without_a_value_nothing_stops() -> None:
    """A metric that was never logged is no evidence."""
    conditions = [NoImprovement(1), TargetReached(0), MaxCost(1), NothingToLearn(1), RewardCollapse(), MaxMinutes(1)]

    assert [condition.reason(at(99), NOTHING) for condition in conditions] == [None] * 6


# MaxCost


def costs(*rows: tuple[int, dict[str, float]], before: float = 0.0) -> MetricHistory:
    """A history as ART writes it, each row with its running sums; the model had cost `before` in "train"."""
    running: dict[str, float] = {"train": before}
    logged: dict[str, dict[int, float]] = {}
    for step, row in rows:
        for name, usd in row.items():
            running[name] = running.get(name, 0.0) + usd
            logged.setdefault(f"costs/{name}", {})[step] = usd
            logged.setdefault(f"costs/{name}/judge", {})[step] = usd
            logged.setdefault(f"costs/cum/{name}", {})[step] = running[name]
        logged.setdefault("costs/all", {})[step] = sum(row.values())
        logged.setdefault("costs/cum/all", {})[step] = sum(running.values())
    return MetricHistory.from_values(logged)


def spent(history: MetricHistory, step: int = 99) -> float:
    """The cost that a condition sees, in US dollars, read from its reason."""
    reason = MaxCost(0.001).reason(at(step), history) or "the run has cost 0"
    return float(reason.split()[4])


def test_the_cost_is_that_of_training_validation_and_gpu_together() -> None:
    """Parents hold what their children hold, and `all` holds everything once more."""
    history = costs((1, {"train": 1.0, "gpu": 0.5}), (1, {"eval": 2.0}), (2, {"train": 1.0, "gpu": 0.5}))

    assert spent(history) == 5
    assert spent(history, step=1) == 3.5
    assert MaxCost(5).reason(at(2), history) == "the run has cost 5.00 USD that ART knows of, and 5 were allowed"


def test_a_step_with_several_rows_of_a_name_counts_them_all() -> None:
    """Each named validation set has a row of its own, and the history keeps one value per step."""
    history = costs((1, {"eval": 1.0}), (2, {"eval": 1.0}), (2, {"eval": 2.0}), (2, {"eval": 3.0}))

    assert spent(history) == 7


def test_what_an_earlier_run_of_the_model_cost_does_not_count() -> None:
    """ART's running sums go on over the runs in one directory."""
    assert spent(costs((6, {"train": 1.0}), (7, {"train": 2.0}), before=50.0)) == 3


def test_a_running_sum_that_a_killed_session_lost_is_made_up_for() -> None:
    """ART saves it after the row is written; a death in between takes it back by one row."""
    history = MetricHistory.from_values(
        {"costs/train": {1: 1.0, 2: 1.0, 3: 1.0}, "costs/cum/train": {1: 1.0, 2: 2.0, 3: 2.0}}
    )

    assert spent(history) == 3


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["train", "eval", "gpu"]), st.integers(0, 100)), max_size=12),
    st.integers(0, 100),
)
def test_the_cost_is_never_overstated(rows: list[tuple[int, str, int]], before: int) -> None:
    """A run must not be stopped for money it has not spent; what a step's row replaced at the start may be missing."""
    step, logged = 0, []
    for ahead, name, usd in rows:
        step += ahead
        logged.append((step, {name: float(usd)}))
    total = sum(usd for *_, usd in rows)

    assert MaxCost(total + 0.5).reason(at(99), costs(*logged, before=float(before))) is None
    if all(ahead for ahead, *_ in rows) and total:
        assert MaxCost(total).reason(at(99), costs(*logged, before=float(before))) is not None


async def test_the_columns_are_those_that_art_writes(tmp_path: Path) -> None:
    """Costs by context with their running sums over sessions, and the spread inside groups."""

    async def session(step: int) -> None:
        model = make_trainable_model(
            name="agent", project="costs", base_model="none", base_path=str(tmp_path), report_metrics=[]
        )
        group = art.TrajectoryGroup(
            [art.Trajectory(messages_and_choices=[{"role": "user", "content": "?"}], reward=0.1) for _ in range(3)]
        )
        # ART asks a backend for the costs of a GPU, and there is none here.
        await model.log([group], split="train", metrics={"costs/train/judge/ruler": 1.0, "costs/gpu": 0.25}, step=step)
        await model.log(metrics={"costs/eval/judge/ruler": 2.0, "val/reward": 0.5}, split="val", step=step)
        await model.log(metrics={"costs/eval/judge/ruler": 4.0}, split="val", step=step)

    await session(1)
    path = history_in(tmp_path)
    before = path.stat().st_size
    await session(2)
    await session(3)

    whole, second = MetricHistory.read(path), MetricHistory.read(path, since_byte=before)
    # Of three rows each, 7.25 USD: of the first step the 2 that the row of the 4 replaced are not known.
    assert (spent(whole, step=1), spent(whole, step=3)) == (5.25, 19.75)
    assert (spent(second, step=2), spent(second, step=3)) == (5.25, 12.5)
    assert NothingToLearn(3).reason(at(3), whole) is not None
    assert NothingToLearn(4).reason(at(3), whole) is None


# NothingToLearn


@pytest.mark.parametrize(
    ("spreads", "empty", "in_a_row"),
    [
        ({1: 0.5, 2: 0.0, 3: 1e-17}, 0, 2),
        ({1: 0.5, 2: 0.0, 3: 0.0}, 3, 5),
        ({1: 0.0, 2: 0.0, 3: 0.1}, 1, 1),
        ({}, 4, 4),
    ],
)
def test_empty_batches_and_equal_groups_are_counted_together(
    spreads: dict[int, float], empty: int, in_a_row: int
) -> None:
    """Which of the two it is depends on the filter, and neither teaches."""
    history = MetricHistory.from_values({"train/reward_std_dev": spreads})
    progress = at(3, empty_in_a_row=empty)

    reason = NothingToLearn(in_a_row).reason(progress, history)

    assert (reason or "").startswith(f"the last {in_a_row} batches taught nothing: {in_a_row - empty} were trained on")
    assert NothingToLearn(in_a_row + 1).reason(progress, history) is None


# RewardCollapse

STEPS = 300


def noise(rng: random.Random) -> list[float]:
    scale, middle = 10 ** rng.uniform(-6, 6), rng.uniform(-100, 100)
    return [scale * (middle + rng.gauss(0, 1)) for _ in range(STEPS)]


def yes_or_no(rng: random.Random) -> list[float]:
    """Means over a few rollouts of a reward of 0 or 1."""
    chance, rollouts = rng.uniform(0.02, 0.98), rng.choice([1, 4, 8, 16])
    return [sum(rng.random() < chance for _ in range(rollouts)) / rollouts for _ in range(STEPS)]


def heavy_tails(rng: random.Random) -> list[float]:
    return [rng.gauss(0, 1) / max(rng.random(), 1e-3) for _ in range(STEPS)]


def dependent(rng: random.Random) -> list[float]:
    """Each step resembles the one before it, as where easy and hard scenarios come in bunches."""
    values = [0.0]
    while len(values) < STEPS:
        values.append(0.3 * values[-1] + rng.gauss(0, 1))
    return values


def slow_drift(rng: random.Random) -> list[float]:
    slope, spread = rng.uniform(-0.003, 0.003), rng.uniform(0.01, 0.2)
    return [0.5 + slope * step + rng.gauss(0, spread) for step in range(STEPS)]


def there_and_back(rng: random.Random) -> list[float]:
    """Learned over 75 steps, and lost over 150: a decline, but no collapse."""
    spread = rng.uniform(0.02, 0.1)
    return [0.5 + 0.2 * math.sin(2 * math.pi * step / STEPS) + rng.gauss(0, spread) for step in range(STEPS)]


def harder_and_harder(rng: random.Random) -> list[float]:
    """What is learned is lost again to harder tasks, a little with each stage."""
    spread = rng.uniform(0.03, 0.1)
    return [
        0.4 + 0.3 * (1 - math.exp(-step / 30)) - 0.06 * (step // 60) + rng.gauss(0, spread) for step in range(STEPS)
    ]


def constant(rng: random.Random) -> list[float]:
    return [rng.choice([0.0, 0.1, 1.0, -3.3])] * STEPS


def alarms(rewards: list[float], condition: StopCondition) -> Iterator[int]:
    """The steps at which a run with these rewards would be stopped."""
    history = train(rewards)
    return (step for step in range(1, len(rewards) + 1) if condition.reason(at(step), history))


@pytest.mark.parametrize(
    ("world", "runs"),
    [
        (noise, 200),
        (yes_or_no, 10),
        (heavy_tails, 10),
        (dependent, 10),
        (slow_drift, 10),
        (there_and_back, 10),
        (harder_and_harder, 10),
        (constant, 4),
    ],
)
def test_a_collapse_is_never_reported_where_there_is_none(
    world: Callable[[random.Random], list[float]], runs: int
) -> None:
    """It stops runs that nobody has asked it to watch, so it must be silent when in doubt."""
    assert [seed for seed in range(runs) if any(alarms(world(random.Random(seed)), RewardCollapse()))] == []


def learned_and_lost(rng: random.Random) -> tuple[int, list[float]]:
    """Learned from 0.2 to 0.8, kept for a while, then 0.0; and after how many steps it was lost."""
    spread = rng.uniform(0.0, 0.05)
    before, learning, kept = rng.randrange(8, 15), rng.randrange(15, 30), rng.randrange(10, 60)
    levels = [0.2] * before + [0.2 + 0.6 * step / learning for step in range(learning)] + [0.8] * kept
    return len(levels), [level + rng.gauss(0, spread) for level in levels + [0.0] * 15]


def test_a_collapse_is_reported_within_15_steps() -> None:
    """Each further step costs money and teaches what is wrong."""
    delays = []
    for seed in range(200):
        lost_after, rewards = learned_and_lost(random.Random(seed))
        first_alarm = next(alarms(rewards, RewardCollapse()), math.inf)
        delays.append(first_alarm - lost_after)

    # A mean over 5 steps is low after 4 at the earliest, and must be low for 5 steps.
    assert min(delays) >= 8
    assert max(delays) <= 15


def test_a_collapse_says_from_where_to_where() -> None:
    """Whoever reads the report looks at these steps first."""
    rewards = [0.25] * 10 + [0.25 + 0.03125 * step for step in range(16)] + [0.75] * 20 + [0.0] * 9

    assert list(alarms(rewards, RewardCollapse())) == [54, 55]
    assert RewardCollapse().reason(at(55), train(rewards)) == (
        "train/reward collapsed: it began with 0.25, was 0.75 by step 31 and is 0 now "
        "(means of 5 steps; a chance difference is about 0.032)"
    )


def test_a_reward_that_recovers_in_time_is_no_collapse() -> None:
    """A bad batch or two may be chance."""
    rewards = [0.2] * 10 + [0.8] * 20 + [0.0] * 6 + [0.8] * 20

    assert list(alarms(rewards, RewardCollapse())) == []


# not_finite


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"loss": float("nan")}, "loss is nan"),
        ({"train/loss": float("-inf"), "kl": float("nan")}, "train/loss is -inf"),
        ({"policy_loss": np.float32("nan"), "grad_norm": np.array(np.inf)}, "policy_loss is nan, grad_norm is inf"),
        ({"loss/train": 0.5, "loss/grad_norm": 1e300, "gradient_norm": 10**400}, None),
        ({"reward_gain": float("nan"), "grade": float("nan"), "upgrades": float("nan"), "glossary": np.nan}, None),
        ({"loss/importance_ratio_p99": float("inf"), "loss/clipped_token_fraction": float("nan")}, None),
        ({"loss/ratio": float("inf"), "loss/ratios/max": float("inf"), "Loss-Fraction": float("nan")}, None),
        *(
            ({name: float("nan")}, f"{name} is nan")
            for name in (
                "generation_loss",
                "calibration_loss",
                "duration_loss",
                "loss/iteration",
                "loss/diffraction",
                "grad_norm/generation",
            )
        ),
        ({"loss": None, "losses": [float("nan")], "grads": np.array([1.0, np.nan]), "loss_name": "nan"}, None),
        ({}, None),
    ],
)
def test_a_loss_that_is_not_finite_is_named(metrics: dict[str, Any], reason: str | None) -> None:
    """Such a step broke the weights; other metrics may be NaN for want of a value."""
    assert not_finite(metrics) == reason


@pytest.mark.torch
def test_a_loss_of_torch_is_read_too() -> None:
    """Backends report what they have."""
    import torch

    assert not_finite({"loss": torch.tensor(float("nan")), "grad_norm": torch.tensor(1.0)}) == "loss is nan"


# as_condition


def test_a_function_is_asked_about_the_present_step() -> None:
    """The short form sees what a user prints: the metrics of this step."""
    seen = []

    def stop(progress: Progress, metrics: Any) -> str | None:
        seen.append((progress.step, metrics))
        return "enough" if progress.step == 20 else None

    condition = as_condition(stop)

    assert [condition.reason(at(step), val(0.5, 0.75)) for step in (10, 15, 20)] == [None, None, "enough"]
    assert seen == [(10, {"val/reward": 0.5}), (15, {}), (20, {"val/reward": 0.75})]
    assert as_condition(condition) is condition
    assert (MaxMinutes(1) | condition).reason(at(20), val(0.5, 0.75)) == "enough"


@pytest.mark.parametrize(("answer", "reason"), [(None, None), ("", None), (False, None), (True, "answered True")])
def test_a_function_that_answers_with_a_truth_value_is_understood(answer: Any, reason: str | None) -> None:
    """A run of hours must not end on a wrong type."""
    said = as_condition(lambda progress, metrics: answer).reason(at(1), NOTHING)

    assert said is None if reason is None else str(said).endswith(reason)


async def _awaited(progress: Progress, metrics: Any) -> str | None:
    return None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, "5 is no stop condition .*give one, such as NoImprovement"),
        (NoImprovement, r"NoImprovement is a class, not a stop condition .*give NoImprovement\(…\)"),
        (_awaited, "_awaited must be awaited.*write it with `def`"),
    ],
)
def test_what_is_no_condition_is_refused(value: Any, problem: str) -> None:
    """Before anything is spent, with what to write instead."""
    with pytest.raises(ConfigurationError, match=problem):
        as_condition(value)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: NoImprovement(0), "NoImprovement(patience=1) is the least"),
        (lambda: NoImprovement(True), "NoImprovement(patience=1) is the least"),
        (lambda: NoImprovement(2.5), "NoImprovement(patience=1) is the least"),
        (lambda: NoImprovement(2, ""), "'val/reward'"),
        (lambda: NoImprovement(2, mode="most"), "mode='max' where more is better"),
        (lambda: NoImprovement(2, min_delta=-0.1), "NoImprovement(min_delta=0.0) is the least"),
        (lambda: NoImprovement(2, min_delta=math.inf), "NoImprovement(min_delta=0.0) is the least"),
        (lambda: TargetReached(math.nan), "TargetReached(0.9)"),
        (lambda: TargetReached("0.9"), "TargetReached(0.9)"),
        (lambda: MaxMinutes(0), "MaxMinutes(minutes=1)"),
        (lambda: MaxMinutes(math.inf), "MaxMinutes(minutes=1)"),
        (lambda: MaxCost(-3), "MaxCost(usd=0.01)"),
        (lambda: NothingToLearn(0), "NothingToLearn(steps=1) is the least"),
        (lambda: RewardCollapse(window_steps=1), "RewardCollapse(window_steps=2) is the least"),
        (lambda: RewardCollapse(patience=0), "RewardCollapse(patience=1) is the least"),
    ],
)
def test_what_cannot_work_is_refused_with_what_can(make: Callable[[], Any], hint: str) -> None:
    """When it is made, before anything expensive starts."""
    with pytest.raises(ConfigurationError) as caught:
        make()

    assert hint in caught.value.hint
