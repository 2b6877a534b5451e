"""The `artkit` command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from artkit.cli import main
from artkit.cli.demo.record import DemoRecord

PROBE = """
import contextlib, sys
from artkit.cli import main
with contextlib.suppress(SystemExit):
    main(["demo", "--help"])
print(sorted({"art", "torch", "openai", "rich"} & set(sys.modules)), file=sys.stderr)
"""


def test_help_loads_nothing_heavy() -> None:
    """Torch and ART take seconds; a question about options must not wait for them."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)

    assert "--held-out" in done.stdout
    assert done.stderr == "[]\n"


def test_an_error_is_text_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person at a shell wants a way out, not a traceback."""
    DemoRecord(seed=3, held_out=512, steps=50).save(tmp_path)

    code = main(["demo", "--dir", str(tmp_path), "--seed", "4"])

    assert code == 1
    assert capsys.readouterr().err == (
        f"artkit: {str(tmp_path)!r} holds a run with --seed 3, not 4\n"
        "hint: go on with --seed 3, choose another directory with --dir, or delete this one\n"
    )


def test_a_finished_run_says_so_and_repeats_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is trained twice by accident."""
    DemoRecord(seed=0, held_out=512, steps=50, figures={"success_after": 0.95}, farewell="it got better").save(tmp_path)
    path = tmp_path / "new" / "figures.json"

    code = main(["demo", "--dir", str(tmp_path), "--json", str(path)])

    assert (code, json.loads(path.read_text())) == (0, {"success_after": 0.95})
    assert "is finished" in (out := capsys.readouterr().out)
    assert out.endswith("it got better\n")


@pytest.mark.parametrize("option", ["--held-out=0", "--held-out=1521", "--held-out=many", "--steps=0", "--seed=x"])
def test_an_option_that_cannot_work_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There are 1,520 held-out tasks, and no run is shorter than a step."""
    with pytest.raises(SystemExit) as stopped:
        main(["demo", option])

    assert stopped.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    """Reports of bugs name it."""
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("artkit 0.")
