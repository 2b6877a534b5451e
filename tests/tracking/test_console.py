"""The console tracker."""

from __future__ import annotations

import io

import pytest

from artkit.tracking import (
    CheckpointsPruned,
    ConsoleTracker,
    RolloutFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    Tracker,
    TrackingEvent,
    ValidationFinished,
    Warned,
)


def rollout(failure: str | None = None, *, split: str = "train") -> RolloutFinished:
    """Make a rollout of training, or of a validation."""
    return RolloutFinished(split=split, scenario_id="a", member=0, seconds=0.1, failure=failure)


def step(index: int, *, total_steps: int | None = 3, seconds: float = 2.0) -> StepFinished:
    """Make a step with the metrics that the demo logs."""
    return StepFinished(
        step=index + 1,
        epoch=0,
        index=index,
        total_steps=total_steps,
        metrics={"train/reward": 0.25, "train/success": 0.5, "train/turns": 3.0},
        tokens_per_s=1234.0,
        seconds=seconds,
    )


def plain(*events: TrackingEvent) -> list[str]:
    """Return the lines written where there is no terminal."""
    file = io.StringIO()
    tracker = ConsoleTracker(file=file)
    for event in events:
        tracker.handle(event)
    return file.getvalue().splitlines()


@pytest.fixture(autouse=True)
def _ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine's own environment says about terminals is not under test."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_is_a_tracker() -> None:
    """The trainer takes whatever has `handle`."""
    assert isinstance(ConsoleTracker(file=io.StringIO()), Tracker)


def test_without_a_terminal_each_step_is_a_line() -> None:
    """A log file holds neither a redrawn line nor escape codes."""
    lines = plain(
        RunStarted(plan_text="the plan", total_steps=3),
        rollout(),
        step(0),
        step(1, seconds=4.0),
        ValidationFinished(name="val", step=2, metrics={"val/reward": 0.75}, seconds=1.25),
        CheckpointsPruned(step=2, kept={2: "current", 1: "best"}, deleted=(0,), why_deleted={0: "2nd of 2"}),
        RunFinished(report_text="done\nwell"),
    )

    assert lines == [
        "the plan",
        "step 1/3: reward 0.250  success 0.500  1,234 tok/s  0:04 left",
        "step 2/3: reward 0.250  success 0.500  1,234 tok/s  0:03 left",
        "val at step 2: reward 0.750  (1.2 s)",
        "checkpoints at step 2: kept 1 (best), 2 (current); deleted 0 (2nd of 2)",
        "done",
        "well",
    ]


def test_an_open_ended_run_shows_no_time_left() -> None:
    """Nobody knows it."""
    lines = plain(RunStarted(plan_text="endless"), step(0, total_steps=None))

    assert lines == ["endless", "step 1: reward 0.250  success 0.500  1,234 tok/s"]


def test_failed_rollouts_are_counted_in_the_step_line() -> None:
    """A run that loses rollouts must not look healthy."""
    lost = rollout("TimeoutError: 60 s")
    of_a_validation = rollout("TimeoutError: 60 s", split="val")

    lines = plain(RunStarted(plan_text="plan", total_steps=3), lost, step(0), lost, lost, of_a_validation, step(1))

    assert [line.rsplit("  ", 1)[-1] for line in lines] == ["plan", "1 rollout failed", "2 rollouts failed"]


def test_a_resumed_run_says_where_it_goes_on() -> None:
    """Whether anything of before is left is the first thing that one wants to know."""
    lines = plain(RunStarted(plan_text="plan", total_steps=3, start_step=1), step(5))

    assert lines[1] == "goes on after step 1 of 3"


def test_a_resumed_run_counts_on() -> None:
    """Its first step is not the run's."""
    lines = plain(RunStarted(plan_text="plan", total_steps=3, start_step=1), step(5))

    assert lines[-1].startswith("step 2/3: ")


def test_text_is_shown_as_it_is() -> None:
    """What a model wrote is neither markup nor an emoji code."""
    assert plain(Warned(text="[bold]no[/] :smile: [/oops]")) == ["warning: [bold]no[/] :smile: [/oops]"]


def test_the_metrics_to_show_are_the_users_choice() -> None:
    """Not every environment has `success`."""
    file = io.StringIO()

    ConsoleTracker(file=file, show=("turns", "absent")).handle(step(0))

    assert file.getvalue() == "step 1/3: turns 3.000  1,234 tok/s  0:04 left\n"


def pruning(at: int) -> CheckpointsPruned:
    """Make a pruning after which one checkpoint is left."""
    return CheckpointsPruned(step=at, kept={at: "current"}, deleted=(at - 1,), why_deleted={at - 1: "not the latest"})


def test_pruning_is_told_once_for_each_validation() -> None:
    """It happens at every step; what is best changes with a validation. None goes untold."""
    validation = ValidationFinished(name="val", step=3)

    lines = plain(*map(pruning, (1, 2, 3)), validation, *map(pruning, (4, 5)), RunFinished(report_text="done"))

    assert [line for line in lines if line.startswith("checkpoints")] == [
        "checkpoints at step 1: kept 1 (current); deleted 0 (not the latest)",
        "checkpoints at step 4: kept 4 (current); deleted 1-3 (not the latest)",
        "checkpoints by step 5: deleted 4 (not the latest)",
    ]


def test_what_was_kept_is_told_only_while_it_is_true() -> None:
    """Deletions are told late; a checkpoint that came since is kept as well."""
    lines = plain(pruning(1), pruning(2), step(2), RunFinished(report_text="done"))

    assert lines[-2:] == ["checkpoints by step 2: deleted 1 (not the latest)", "done"]


def test_after_an_error_no_deletion_goes_untold() -> None:
    """A run that is interrupted sends no last event: its trackers are closed, also more than once."""
    file = io.StringIO()
    tracker = ConsoleTracker(file=file)
    for at in (1, 2):
        tracker.handle(pruning(at))

    tracker.close()
    tracker.close()

    assert file.getvalue().splitlines()[1:] == ["checkpoints by step 2: deleted 1 (not the latest)"]


@pytest.mark.parametrize(
    ("metrics", "facts"),
    [
        ({"val/reward": 0.225}, "reward 0.225"),
        ({"val/reward": 0.225, "val/reward_low": 0.18, "val/reward_high": 0.27}, "reward 0.225 (0.18 to 0.27)"),
        (
            {"val/reward": 0.25, "val/success": 0.5, "val/pass@1": 0.25, "val/pass@4": 0.31, "val/pass@16": 0.4},
            "reward 0.250  success 0.500  pass@16 0.40",
        ),
        ({"val/reward_incomplete": 0.75, "val/scored_share": 0.5}, "reward_incomplete 0.750"),
        ({"val/reward": 0.5, "val/hard/reward": 0.25, "val/hard/pass@2": 0.31}, "reward 0.250  pass@2 0.31"),
    ],
)
def test_a_validation_says_how_far_to_trust_it(metrics: dict[str, float], facts: str) -> None:
    """Beside the mean stand its interval and pass@k; the mean of what was left after losses is not called reward."""
    name = "hard" if any("hard" in key for key in metrics) else "val"

    assert plain(ValidationFinished(name=name, step=3, metrics=metrics)) == [f"{name} at step 3: {facts}  (0.0 s)"]


def test_deleted_checkpoints_stand_by_their_reasons() -> None:
    """Many of them share one, and a line is to be read."""
    why = {1: "bad", 2: "bad", 3: "no value", 4: "bad", 5: "bad", 6: "bad"}

    lines = plain(CheckpointsPruned(step=8, kept={7: "best", 8: "current"}, deleted=tuple(why), why_deleted=why))

    assert lines == ["checkpoints at step 8: kept 7 (best), 8 (current); deleted 1-2, 4-6 (bad), 3 (no value)"]


def test_pruning_that_deleted_nothing_is_silent() -> None:
    """Nothing happened."""
    assert plain(CheckpointsPruned(step=1, kept={1: "current"})) == []


@pytest.mark.parametrize("end", [RunFinished(report_text="done"), None])
def test_a_terminal_gets_its_cursor_back(end: RunFinished | None) -> None:
    """A run that ends in an error sends no last event."""
    file = Terminal()
    tracker = ConsoleTracker(file=file)
    tracker.handle(RunStarted(plan_text="plan", total_steps=3))
    tracker.handle(rollout())
    tracker.handle(step(0))

    if end is not None:
        tracker.handle(end)
    del tracker

    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert file.getvalue().count(hidden) == file.getvalue().count(shown) == 1


def test_a_closed_tracker_shows_its_cursor_before_the_traceback() -> None:
    """Whoever sees the error may still hold the tracker."""
    file = Terminal()
    tracker = ConsoleTracker(file=file)
    tracker.handle(RunStarted(plan_text="plan", total_steps=3))

    tracker.close()
    tracker.close()

    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert file.getvalue().count(hidden) == file.getvalue().count(shown) == 1


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot redraw a line."""
    monkeypatch.setenv("TERM", "dumb")
    file = Terminal()
    tracker = ConsoleTracker(file=file)

    tracker.handle(RunStarted(plan_text="plan", total_steps=3))
    tracker.handle(step(0))

    assert file.getvalue().splitlines()[1].startswith("step 1/3: reward 0.250")


def test_a_terminal_shows_the_last_step_in_one_line() -> None:
    """Steps redraw a line instead of filling the screen."""
    file = Terminal()
    tracker = ConsoleTracker(file=file)

    tracker.handle(RunStarted(plan_text="plan", total_steps=3))
    tracker.handle(step(0))
    tracker.handle(RunFinished(report_text="done"))

    assert "step 1/3" in file.getvalue()
    assert file.getvalue().endswith("done\n")
