"""The JSONL tracker."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from artkit.tracking import (
    JsonlTracker,
    RolloutFinished,
    RunStarted,
    StepFinished,
    Tracker,
    TrackingEvent,
    ValidationFinished,
    Warned,
)


def read(path: Path) -> list[dict[str, Any]]:
    """Read the file as a program would."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_is_a_tracker(tmp_path: Path) -> None:
    """The trainer takes whatever has `handle`."""
    assert isinstance(JsonlTracker(tmp_path / "events.jsonl"), Tracker)


def test_each_event_is_one_line_with_its_class_and_fields(tmp_path: Path) -> None:
    """A program reads the file line by line."""
    path = tmp_path / "deep" / "events.jsonl"
    tracker = JsonlTracker(path)

    tracker.handle(RunStarted(plan_text="one step\nof training", total_steps=1))
    tracker.handle(Warned(text="half \ud800 a pair"))

    assert read(path) == [
        {"event": "RunStarted", "plan_text": "one step\nof training", "total_steps": 1, "start_step": 0},
        {"event": "Warned", "text": "half \ud800 a pair"},
    ]


def test_a_second_tracker_appends(tmp_path: Path) -> None:
    """A resumed run keeps what the first session wrote."""
    path = tmp_path / "events.jsonl"

    JsonlTracker(path).handle(Warned(text="first"))
    JsonlTracker(path).handle(Warned(text="second"))

    assert [event["text"] for event in read(path)] == ["first", "second"]


def test_a_line_cut_by_a_kill_costs_only_itself(tmp_path: Path) -> None:
    """The next event starts on a line of its own."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "War')

    JsonlTracker(path).handle(Warned(text="after"))

    assert path.read_text() == '{"event": "War\n{"event": "Warned", "text": "after"}\n'


def test_each_event_is_in_the_file_when_it_is_handled(tmp_path: Path) -> None:
    """A killed run keeps what it told."""
    tracker = JsonlTracker(tmp_path / "events.jsonl")
    events: list[TrackingEvent] = [
        RunStarted(plan_text="plan"),
        RolloutFinished(split="train", scenario_id="a", member=0, seconds=0.1),
        Warned(text="late"),
    ]

    seen = []
    for event in events:
        tracker.handle(event)
        seen.append(len(read(tracker.path)))

    assert seen == [1, 2, 3]


def test_a_late_validation_stands_at_its_own_step(tmp_path: Path) -> None:
    """It says something about the step that was validated, not about the one that training has come to."""
    tracker = JsonlTracker(tmp_path / "events.jsonl")

    tracker.handle(StepFinished(step=5, epoch=0, index=4, metrics={"train/reward": 0.5}))
    tracker.handle(ValidationFinished(name="val", step=3, metrics={"val/reward": 0.25}))

    assert [(event["step"], event["metrics"]) for event in read(tracker.path)] == [
        (5, {"train/reward": 0.5}),
        (3, {"val/reward": 0.25}),
    ]


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    """Plans, warnings and scenario ids are nobody else's business on a shared machine."""
    path = tmp_path / "events.jsonl"

    JsonlTracker(path).handle(Warned(text="private"))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_json_cannot_hold_becomes_text(tmp_path: Path, value: float) -> None:
    """A bare NaN makes the line unreadable for strict readers."""
    path = tmp_path / "events.jsonl"

    JsonlTracker(path).handle(StepFinished(step=1, epoch=0, index=0, metrics={"train/loss": value}))

    assert read(path)[0]["metrics"] == {"train/loss": str(value)}


def test_an_object_in_an_event_becomes_its_repr(tmp_path: Path) -> None:
    """One odd value loses itself, not the event."""
    path = tmp_path / "events.jsonl"
    lock: Any = threading.Lock()

    JsonlTracker(path).handle(StepFinished(step=1, epoch=0, index=0, metrics={"train/lock": lock}))

    assert read(path)[0]["metrics"] == {"train/lock": repr(lock)}
