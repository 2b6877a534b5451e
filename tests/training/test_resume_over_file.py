"""Runs over a file that is read one scenario at a time, and what may become of it before they are resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from artkit import ResumeError, stream_jsonl


def write(path: Path, names: Iterable[str]) -> Path:
    path.write_text("".join(json.dumps({"id": name, "prompt": name}) + "\n" for name in names))
    return path


async def test_a_run_goes_on_over_a_file_that_grew(workshop: Any, tmp_path: Path) -> None:
    """New tasks are collected while a run waits, and the rows that it has seen are as they were."""
    file = write(tmp_path / "tasks.jsonl", "abc")
    await workshop.trainer(train=stream_jsonl(file), settings={"max_steps": 9}).run()
    first = workshop.trained_ids()

    await workshop.trainer(train=stream_jsonl(write(file, "abcde")), settings={"max_steps": 9}).run()

    assert first + workshop.trained_ids() == [["a", "b"], ["c"], ["d", "e"]]


@pytest.mark.parametrize("names", ["bacdef", "acdef", "xabcdef", "a"])
async def test_a_run_is_refused_over_a_file_that_begins_otherwise(workshop: Any, tmp_path: Path, names: str) -> None:
    """Some scenarios would be trained on twice and others never, in silence."""
    file = write(tmp_path / "tasks.jsonl", "abcdef")
    await workshop.trainer(train=stream_jsonl(file), settings={"max_steps": 1}).run()

    with pytest.raises(ResumeError, match=r"the first 2 scenarios of the source are others .*resume=\"never\""):
        await workshop.trainer(train=stream_jsonl(write(file, names)), settings={"max_steps": 2}).run()

    assert workshop.backend.calls("train") == ()


async def test_a_run_is_refused_over_a_file_that_is_read_otherwise(workshop: Any, tmp_path: Path) -> None:
    """The same rows with another prompt are other tasks."""
    file = write(tmp_path / "tasks.jsonl", "abcdef")
    await workshop.trainer(train=stream_jsonl(file), settings={"max_steps": 1}).run()

    with pytest.raises(ResumeError, match="the first 2 scenarios of the source are others"):
        await workshop.trainer(train=stream_jsonl(file, prompt_key="id"), settings={"max_steps": 2}).run()
