"""The JSONL tracker."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from artkit.tracking import JsonlTracker, RunStarted, StepFinished, Tracker, Warned


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
