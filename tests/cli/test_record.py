"""What the demo remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from artkit import ResumeError
from artkit.cli.demo.record import DemoRecord


def test_an_empty_directory_begins_a_record(tmp_path: Path) -> None:
    """The first run finds nothing."""
    assert DemoRecord.open(tmp_path / "new", seed=1, held_out=64, steps=50) == DemoRecord(seed=1, held_out=64, steps=50)


def test_a_record_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    """A resumed run prints what the first session measured."""
    record = DemoRecord(
        seed=1,
        held_out=64,
        steps=50,
        elapsed_s=12.5,
        success_untrained=0.0,
        episode_before="  user  zip",
        figures={"seed": 1, "tokens_per_s": None},
        farewell="bye\n",
    )

    record.save(tmp_path / "new")

    assert DemoRecord.open(tmp_path / "new", seed=1, held_out=64, steps=50) == record


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [("seed", 2, "--seed 1, not 2"), ("held_out", 65, "--held-out 64, not 65"), ("steps", 9, "--steps 50, not 9")],
)
def test_another_run_in_the_directory_is_refused(tmp_path: Path, name: str, value: int, named: str) -> None:
    """Its weights would be trained on as this run's."""
    DemoRecord(seed=1, held_out=64, steps=50).save(tmp_path)

    with pytest.raises(ResumeError, match=named):
        DemoRecord.open(tmp_path, **({"seed": 1, "held_out": 64, "steps": 50} | {name: value}))


@pytest.mark.parametrize("text", ["{", "[]", '{"colour": 1}', "{}"])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    """It is somebody else's; it is not written over."""
    (tmp_path / "demo.json").write_text(text)

    with pytest.raises(ResumeError, match="no record of this demo"):
        DemoRecord.open(tmp_path, seed=1, held_out=64, steps=50)

    assert (tmp_path / "demo.json").read_text() == text
