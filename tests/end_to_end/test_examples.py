"""The examples train on the embedded backend."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    ["sqlite_agent", "jsonl_task", "adapted_rollout", pytest.param("textarena_game", marks=pytest.mark.worlds)],
)
async def test_an_example_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same script as on the scripted server, with a model that learns."""
    monkeypatch.chdir(tmp_path)
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    monkeypatch.setitem(main.__globals__, "STEPS", 2)

    report = await main("embedded")

    assert report.steps == 2
    assert report.final_inference_name.endswith("@3")  # the warm-up made step 1
    assert "step 2/2: reward" in capsys.readouterr().out
