"""The TensorBoard tracker, read back by TensorBoard."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artkit.errors import ConfigurationError
from artkit.tracking import (
    CheckpointsPruned,
    RunFinished,
    RunStarted,
    StepFinished,
    TensorBoardTracker,
    Tracker,
    TrackingEvent,
    ValidationFinished,
    Warned,
)


def step(number: int, **metrics: Any) -> StepFinished:
    return StepFinished(
        step=number, epoch=0, index=number - 1, metrics={f"train/{name}": value for name, value in metrics.items()}
    )


def validation(number: int, reward: float) -> ValidationFinished:
    return ValidationFinished(name="val", step=number, metrics={"val/reward": reward})


def tell(directory: Path, events: Sequence[TrackingEvent]) -> TensorBoardTracker:
    """One session of a run: it ends without closing anything, as a killed one does."""
    tracker = TensorBoardTracker(directory)
    for event in events:
        tracker.handle(event)
    return tracker


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Read the curves as `tensorboard --load_fast=false` does."""
    found = accumulator(directory)
    return {tag: [(point.step, point.value) for point in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def texts(directory: Path) -> dict[str, list[tuple[int, str]]]:
    found = accumulator(directory)
    return {
        tag: [(event.step, event.tensor_proto.string_val[0].decode()) for event in found.Tensors(tag)]
        for tag in found.Tags()["tensors"]
    }


def accumulator(directory: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory))
    found.Reload()
    return found


def test_is_a_tracker(tmp_path: Path) -> None:
    """The trainer takes whatever has `handle`."""
    assert isinstance(TensorBoardTracker(tmp_path), Tracker)


def test_every_number_is_a_point_at_its_own_step(tmp_path: Path) -> None:
    """Late validations too: they say something about the step that was validated."""
    tell(tmp_path, [step(4, reward=0.25), step(5, reward=0.5, turns=3), validation(3, 0.125)])

    assert scalars(tmp_path) == {
        "train/reward": [(4, 0.25), (5, 0.5)],
        "train/turns": [(5, 3.0)],
        "val/reward": [(3, 0.125)],
    }


def test_what_is_no_number_or_is_the_step_itself_is_no_curve(tmp_path: Path) -> None:
    """A row of ART's history has its step, its time and a date beside the metrics."""
    row: dict[str, Any] = {"train/reward": 0.5, "step": 5, "training_step": 5, "recorded_at": "2026-01-01"}

    tell(tmp_path, [StepFinished(step=5, epoch=0, index=4, metrics=row)])

    assert scalars(tmp_path) == {"train/reward": [(5, 0.5)]}


def test_the_pace_of_a_step_is_a_curve(tmp_path: Path) -> None:
    """A run that gets slower shows where."""
    tell(tmp_path, [StepFinished(step=1, epoch=0, index=0, seconds=2.0, tokens_per_s=1024.0)])

    assert scalars(tmp_path) == {"artkit/step_seconds": [(1, 2.0)], "artkit/tokens_per_s": [(1, 1024.0)]}


@pytest.mark.parametrize("value", [float("inf"), 1e300])
def test_a_number_beyond_all_curves_costs_no_event(tmp_path: Path, value: float, caplog: Any) -> None:
    """TensorBoard's numbers are small floats; a user's may be anything."""
    tell(tmp_path, [step(1, loss=value, reward=0.5)])

    assert scalars(tmp_path) == {"train/loss": [(1, float("inf"))], "train/reward": [(1, 0.5)]}
    assert caplog.records == []


def test_each_event_is_on_the_disk_when_it_is_handled(tmp_path: Path) -> None:
    """A killed run keeps its curve."""
    tracker = TensorBoardTracker(tmp_path)

    lengths = []
    for number in (1, 2, 3):
        tracker.handle(step(number, reward=0.5))
        lengths.append(len(scalars(tmp_path)["train/reward"]))

    assert lengths == [1, 2, 3]


def test_the_sessions_of_a_run_are_one_curve(tmp_path: Path) -> None:
    """Also where two of them begin in the same second: neither file replaces the other."""
    tell(tmp_path, [step(1, reward=0.25), step(2, reward=0.5)])
    tell(tmp_path, [step(3, reward=0.75)])

    assert scalars(tmp_path) == {"train/reward": [(1, 0.25), (2, 0.5), (3, 0.75)]}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_closed_tracker_begins_another_file(tmp_path: Path) -> None:
    """One tracker may see two runs, and closing twice is harmless."""
    tracker = tell(tmp_path, [step(1, reward=0.25)])
    tracker.close()
    tracker.close()
    tracker.handle(step(2, reward=0.5))
    tracker.close()

    assert scalars(tmp_path) == {"train/reward": [(1, 0.25), (2, 0.5)]}


def test_plan_warnings_and_report_are_text(tmp_path: Path) -> None:
    """Beside its curves stands what the run was and how it ended; of a step, all warnings."""
    tell(
        tmp_path,
        [
            RunStarted(plan_text="the plan\nof two lines", start_step=0),
            Warned(text="first"),
            Warned(text="half \ud800 a pair"),
            step(1),
            Warned(text="later"),
            CheckpointsPruned(step=1, kept={1: "current"}),
            RunFinished(report_text="done"),
        ],
    )

    assert texts(tmp_path) == {
        "plan/text_summary": [(0, "~~~\nthe plan\nof two lines\n~~~")],
        "warnings/text_summary": [
            (0, "~~~\nfirst\n~~~"),
            (0, "~~~\nfirst\nhalf ? a pair\n~~~"),
            (1, "~~~\nlater\n~~~"),
        ],
        "report/text_summary": [(1, "~~~\ndone\n~~~")],
    }


def test_a_run_that_tells_nothing_leaves_nothing(tmp_path: Path) -> None:
    """A trainer that is made and not run is no run in TensorBoard's list."""
    TensorBoardTracker(tmp_path / "run").close()

    assert list(tmp_path.iterdir()) == []


def test_a_late_validation_leaves_the_later_points_of_its_curve(tmp_path: Path) -> None:
    """TensorBoard's own loader drops what a curve has beyond a step that goes back."""
    tell(tmp_path, [validation(5, 0.5), validation(7, 0.75), validation(3, 0.25)])

    assert shown(tmp_path) == [(3, 0.25), (5, 0.5), (7, 0.75)]


def shown(directory: Path) -> list[tuple[int, float]]:
    """Read `val/reward` as the loader does that TensorBoard starts by default: a program of its own, asked by gRPC."""
    script = Path(__file__).with_name("tensorboard_loader.py")
    done = subprocess.run([sys.executable, script, directory], capture_output=True, text=True, check=True, timeout=50)
    return [(int(at), float(value)) for at, value in (line.split() for line in done.stdout.splitlines())]


def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found when the tracker is made, not after the first step was paid for."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboardX"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'artkit-rl\[tensorboard\]'"):
        TensorBoardTracker(tmp_path)
