"""The examples run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "order_desk.py"


@pytest.mark.timeout(180)
async def test_the_example_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that a reader starts from must start."""
    monkeypatch.chdir(tmp_path)
    main = runpy.run_path(str(EXAMPLE))["main"]
    monkeypatch.setitem(main.__globals__, "WARM_UP_BATCHES", 40)
    monkeypatch.setitem(main.__globals__, "STEPS", 2)
    monkeypatch.setitem(main.__globals__, "HELD_OUT", 16)

    await main()

    out = capsys.readouterr().out
    assert "step 2/2: reward" in out
    assert out.splitlines()[-1].startswith("best: step ")
