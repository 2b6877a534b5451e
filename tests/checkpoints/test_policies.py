"""Which checkpoints to keep."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.checkpoints import (
    CheckpointPolicy,
    Decision,
    KeepAll,
    KeepBest,
    KeepEvery,
    KeepLatest,
    MetricHistory,
    Verdict,
)
from artkit.errors import ConfigurationError

METRIC = "val/reward"
NOTHING = MetricHistory()

ranking = st.builds(
    KeepBest,
    st.sampled_from([METRIC, "val/cost"]),
    mode=st.sampled_from(["max", "min"]),
    count=st.integers(1, 4),
    bound=st.sampled_from(["mean", "lower"]),
)
single = st.one_of(
    ranking,
    st.builds(KeepLatest, st.integers(1, 4)),
    st.builds(KeepEvery, st.integers(1, 5)),
    st.just(KeepAll()),
)
policies = st.recursive(single, lambda inner: st.builds(lambda left, right: left | right, inner, inner), max_leaves=4)
steps = st.frozensets(st.integers(0, 20), min_size=1)
values = st.dictionaries(st.integers(0, 25), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
columns = [name + end for name in (METRIC, "val/cost") for end in ("", "_low", "_high")]
logs = st.fixed_dictionaries(dict.fromkeys(columns, values))
histories = logs.map(MetricHistory.from_values)


def history(**rewards: float) -> MetricHistory:
    return MetricHistory.from_values({METRIC: {int(name[1:]): value for name, value in rewards.items()}})


@given(policies, steps, histories)
def test_a_decision_never_invents_a_step_and_always_keeps_the_newest(
    policy: CheckpointPolicy, saved: frozenset[int], logged: MetricHistory
) -> None:
    """Every step that was there gets a reason, and none that was not."""
    decision = policy.decide(saved, logged)

    assert decision.keep <= saved
    assert max(saved) in decision.keep
    assert list(decision.why) == sorted(saved)
    assert all(decision.why.values())
    assert decision.delete(saved) == saved - decision.keep


@given(policies, steps, histories)
def test_deciding_again_on_what_was_kept_deletes_nothing(
    policy: CheckpointPolicy, saved: frozenset[int], logged: MetricHistory
) -> None:
    """Pruning twice is pruning once."""
    kept = policy.decide(saved, logged).keep

    assert policy.decide(kept, logged).keep == kept


@given(ranking, policies, steps, logs, st.floats(0.01, 9))
def test_adding_a_worse_step_never_deletes_the_best(
    best: KeepBest, policy: CheckpointPolicy, saved: frozenset[int], log: dict[str, dict[int, float]], much: float
) -> None:
    """Training on never costs what was reached, whatever the policy is joined with."""
    sign = 1 if best.mode == "min" else -1
    ranked = sorted((sign * value, step) for step, value in log[best.column].items() if step in saved)
    new = max(saved) + 1
    worse = 1 + much if best.mode == "min" else -much
    later = MetricHistory.from_values({name: by_step | {new: worse} for name, by_step in log.items()})

    # The new step may fill a free place: what was best keeps its own.
    assert {step for _, step in ranked[: best.count]} <= (best | policy).decide(saved | {new}, later).keep


@given(policies, policies, steps, histories)
def test_joined_policies_keep_what_either_keeps(
    left: CheckpointPolicy, right: CheckpointPolicy, saved: frozenset[int], logged: MetricHistory
) -> None:
    """In either order."""
    union = left.decide(saved, logged).keep | right.decide(saved, logged).keep

    # So joining only ever keeps more.
    assert (left | right).decide(saved, logged).keep == union == (right | left).decide(saved, logged).keep
    assert (left | right).ranks_by == left.ranks_by | right.ranks_by


@given(policies, policies, policies)
def test_how_joins_are_bracketed_makes_no_difference(
    one: CheckpointPolicy, two: CheckpointPolicy, three: CheckpointPolicy
) -> None:
    """They read as one list."""
    assert (one | two) | three == one | (two | three)


@given(ranking, policies, steps)
def test_without_the_metric_nothing_is_deleted(best: KeepBest, policy: CheckpointPolicy, saved: frozenset[int]) -> None:
    """Whatever it is joined with: deleting needs evidence."""
    others = {"val/rewrad", *columns} - {best.column}
    logged = MetricHistory.from_values({name: dict.fromkeys(saved, 0.5) for name in others})

    assert (best | policy).decide(saved, logged).keep == saved


def test_where_the_metric_is_missing_the_reason_names_those_that_exist() -> None:
    """A wrong name is the usual cause."""
    logged = MetricHistory.from_values({"val/accuracy": {1: 0.5}, "train/reward": {1: 0.5}})
    nothing = "no val/reward for any checkpoint, so nothing is deleted; the history holds"

    assert KeepBest().decide({1, 2}, logged).why[1] == f"{nothing} val/accuracy and 1 other"
    assert KeepBest().decide({1}, NOTHING).why[1].startswith(f"{nothing} nothing")


def test_of_many_metrics_the_reason_names_the_nearest() -> None:
    """A run logs dozens, and the reason stands beside each checkpoint."""
    names = ["val/reward", *(f"val/metric_{number}" for number in range(40)), *(f"train/m{n}" for n in range(30))]
    why = KeepBest("val/rewards").decide({1, 2}, MetricHistory.from_values({name: {1: 0.5} for name in names})).why[1]

    assert why.startswith("no val/rewards for any checkpoint, so nothing is deleted; did you mean 'val/reward'? ")
    assert why.endswith(" and 63 others")
    assert len(why) < 300


def test_before_the_first_validation_no_metric_of_training_is_taken_for_a_misspelling() -> None:
    """The name is right, and the value comes later."""
    why = KeepBest().decide({1, 2}, MetricHistory.from_values({"train/reward": {1: 0.5}})).why[1]

    assert why == "no val/reward for any checkpoint, so nothing is deleted; the history holds no val/… but 1 other"


def intervals(**ends: tuple[float, float, float]) -> MetricHistory:
    """A history of `s1=(low, mean, high)`."""
    by_name = {"val/reward_low": 0, METRIC: 1, "val/reward_high": 2}
    return MetricHistory.from_values(
        {name: {int(step[1:]): three[place] for step, three in ends.items()} for name, place in by_name.items()}
    )


def test_the_lower_bound_ranks_by_the_worse_end_of_the_interval() -> None:
    """A lucky validation of few scenarios has a high mean and a wide interval."""
    logged = intervals(s1=(0.6, 0.7, 0.8), s2=(0.3, 0.9, 1.0), s3=(0.5, 0.6, 0.7))
    decision = KeepBest(bound="lower").decide({1, 2, 3}, logged)

    assert KeepBest().decide({1, 2, 3}, logged).keep == {2, 3}
    assert decision == Decision(
        keep=frozenset({1, 3}),
        why={
            1: "val/reward_low is 0.6, the best",
            2: "val/reward_low is 0.3, the best is 0.6 at step 1",
            3: "the newest is always kept",
        },
    )


def test_where_less_is_better_the_worse_end_is_the_high_one() -> None:
    """A cost is at least as low as that."""
    policy = KeepBest(mode="min", bound="lower")

    assert policy.decide({1, 2, 3}, intervals(s1=(0.1, 0.2, 0.9), s2=(0.2, 0.3, 0.4), s3=(1, 1, 1))).keep == {2, 3}
    assert (KeepBest(bound="lower").ranks_by, policy.ranks_by) == ({"val/reward_low"}, {"val/reward_high"})


def test_without_the_interval_nothing_is_deleted_and_the_reason_says_who_logs_it() -> None:
    """A history of before validation logged intervals has only means."""
    decision = KeepBest(bound="lower").decide({1, 2}, history(s1=0.5, s2=0.75))

    assert decision.keep == {1, 2}
    assert decision.why[1] == (
        "no val/reward_low for any checkpoint, so nothing is deleted (validation logs it beside val/reward); "
        "the history holds val/reward"
    )


def test_a_ranking_tells_its_order() -> None:
    """Whoever looks for the best checkpoint asks the policy that kept it."""
    logged = history(s1=0.5, s2=0.75, s3=0.75, s9=1.0)

    assert list(KeepBest().rank({1, 2, 3, 4}, logged).items()) == [(2, 0.75), (3, 0.75), (1, 0.5)]
    assert list(KeepBest(mode="min").rank({1, 2, 4}, logged)) == [1, 2]
    assert KeepBest("val/rewrad").rank({1, 2}, logged) == {}


def test_a_metric_of_steps_that_are_gone_is_no_evidence() -> None:
    """A run before this one logged them."""
    assert KeepBest().decide({5, 6}, history(s1=0.9)).keep == {5, 6}


def test_the_best_and_the_latest_are_kept() -> None:
    """Best 5, latest 9."""
    decision = (KeepBest() | KeepLatest()).decide({3, 5, 7, 9}, history(s3=0.25, s5=0.75, s9=0.5))

    assert decision == Decision(
        keep=frozenset({5, 9}),
        why={
            3: "val/reward is 0.25, the best is 0.75 at step 5; not among the latest 1",
            5: "val/reward is 0.75, the best",
            7: "no val/reward to rank it by; not among the latest 1",
            9: "among the latest 1; the newest is always kept",
        },
    )
    assert str(decision).splitlines()[:2] == [
        "delete 3: val/reward is 0.25, the best is 0.75 at step 5; not among the latest 1",
        "keep 5: val/reward is 0.75, the best",
    ]


def test_among_equals_the_earliest_is_the_best() -> None:
    """A later one has to be better to replace it."""
    assert KeepBest().decide({1, 2, 3, 4}, history(s1=0.5, s2=0.75, s3=0.75, s4=0.25)).keep == {2, 4}


def test_less_is_better_in_mode_min() -> None:
    """A cost, or a loss."""
    assert KeepBest(mode="min", count=2).decide({1, 2, 3, 4}, history(s1=0.5, s2=0.75, s3=0.25, s4=1)).keep == {1, 3, 4}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (KeepLatest(), {10}),
        (KeepLatest(count=3), {7, 9, 10}),
        (KeepLatest(count=9), {0, 2, 4, 7, 9, 10}),
        (KeepEvery(4), {0, 4, 10}),
        (KeepEvery(3) | KeepLatest(2), {0, 9, 10}),
        (KeepAll(), {0, 2, 4, 7, 9, 10}),
    ],
)
def test_policies_without_a_metric(policy: CheckpointPolicy, kept: set[int]) -> None:
    """They need no history."""
    assert policy.decide({0, 2, 4, 7, 9, 10}, NOTHING).keep == kept


def test_no_checkpoint_is_no_decision() -> None:
    """A run that has saved nothing yet."""
    assert (KeepBest() | KeepLatest()).decide(frozenset(), NOTHING) == Decision(keep=frozenset(), why={})


def test_what_was_saved_after_the_decision_is_not_deleted() -> None:
    """Nothing was decided about it."""
    decision = KeepLatest().decide({1, 2}, NOTHING)

    assert decision.delete({1, 2, 3}) == {1}


def test_a_policy_of_ones_own_says_what_it_keeps() -> None:
    """The rest follows: the newest is kept, the others are not."""

    class KeepRound(CheckpointPolicy):
        def judge(self, saved, history):
            return {step: Verdict(keep=True, why="a round number") for step in (*saved, 1000) if step % 100 == 0}

        def __repr__(self) -> str:
            return "KeepRound()"

    assert KeepRound().decide({99, 100, 101}, NOTHING) == Decision(
        keep=frozenset({100, 101}),
        why={99: "KeepRound() does not ask for it", 100: "a round number", 101: "the newest is always kept"},
    )
    assert (KeepRound() | KeepEvery(99)).decide({99, 100, 101}, NOTHING).keep == {99, 100, 101}


@given(policies, policies)
def test_repr_is_the_policy_in_words(left: CheckpointPolicy, right: CheckpointPolicy) -> None:
    """The plan prints it, and it can be pasted into a script."""
    names = {kind.__name__: kind for kind in (KeepAll, KeepBest, KeepEvery, KeepLatest)}

    assert eval(repr(left | right), names) == left | right
    assert pickle.loads(pickle.dumps(left | right)) == left | right
    assert left | left == left


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: KeepBest(""), "names no metric"),
        (lambda: KeepBest(mode="best"), "mode='best'.*mode='max' where more is better"),
        (lambda: KeepBest(bound="upper"), "bound='upper'.*bound='mean' compares means"),
        (lambda: KeepBest(count=0), r"KeepBest\(count=0\) is no whole number of 1 or more"),
        (lambda: KeepLatest(0), r"KeepLatest\(count=0\)"),
        (lambda: KeepLatest(True), r"KeepLatest\(count=True\)"),
        (lambda: KeepEvery(2.5), r"KeepEvery\(steps=2.5\)"),
    ],
)
def test_policies_that_cannot_work_are_refused_when_made(make, problem: str) -> None:
    """Not when the first checkpoint is to be deleted."""
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_only_policies_can_be_joined() -> None:
    """A number says nothing about checkpoints."""
    with pytest.raises(TypeError, match="unsupported operand"):
        KeepLatest() | 5
