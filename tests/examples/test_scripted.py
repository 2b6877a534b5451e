"""The examples run on the scripted server: they need no model, and no torch."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name",
    ["sqlite_agent", "jsonl_task", "adapted_rollout", pytest.param("textarena_game", marks=pytest.mark.worlds)],
)
async def test_an_example_runs_without_a_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that a reader starts from must start, and go through every part that it shows."""
    monkeypatch.chdir(tmp_path)

    report = await runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]("scripted")

    assert report.steps == 3
    assert "step 3/3: reward" in capsys.readouterr().out
