"""The W&B run, in processes of its own: W&B leaves a service and threads behind."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artkit import make_trainable_model
from artkit.bridge import wandb_run

# Importing ART and W&B is most of it, and takes long on a busy machine.
pytestmark = pytest.mark.timeout(180)

SCRIPT = """
import asyncio, json, os, signal, sys
import art
from artkit import ConfigurationError, make_trainable_model
from artkit.bridge import wandb_run

told = []

def make_model(run_name="run-1"):
    return make_trainable_model(
        name="agent", run_name=run_name, project="wandb", base_model="b", base_path="art", report_metrics=["wandb"]
    )

async def log(model, split, step, reward, **metrics):
    episode = art.Trajectory(reward=reward, metrics={"turns": 2}, messages_and_choices=[])
    await model.log([art.TrajectoryGroup([episode])], split=split, metrics=metrics, step=step)

async def main():
"""


def play(directory: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the body of `main`; everything that W&B writes stays in the directory."""
    script = SCRIPT + textwrap.indent(textwrap.dedent(body), "    ") + "\nasyncio.run(main())\n"
    places = {f"WANDB_{name}_DIR": str(directory / "home") for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    own = {"HOME": str(directory / "home"), "WANDB_DIR": str(directory), **environment}
    inherited = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        env=inherited | places | own,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def records(path: Path) -> Iterator[Any]:
    """Read a file of W&B's: records in LevelDB's log format, behind a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, block, whole = path.read_bytes(), 7, 32768, b""
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        first, last, alone = kind == 2, kind == 4, kind == 1
        part = data[at + 7 : at + 7 + length]
        whole = part if first or alone else whole + part
        at += 7 + length
        if last or alone:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record


def runs(tmp_path: Path) -> list[list[Any]]:
    return [list(records(path)) for path in sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))]


def curves(run: list[Any]) -> dict[str, list[tuple[int, float]]]:
    """Return each metric of a run over the axis that the run declares, as W&B draws it."""
    metrics = [record.metric for record in run if record.WhichOneof("record_type") == "metric"]
    axes = {metric.name or metric.glob_name: metric.step_metric for metric in metrics}
    drawn: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for record in run:
        if record.WhichOneof("record_type") == "history":
            row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            for name, value in row.items():
                axis = axes.get(name, axes.get("*", ""))
                if axis:
                    drawn[name].append((row[axis], value))
    return dict(drawn)


def ids(found: list[list[Any]]) -> list[str]:
    return [record.run.run_id for run in found for record in run if record.WhichOneof("record_type") == "run"]


def exit_codes(run: list[Any]) -> list[int]:
    return [record.exit.exit_code for record in run if record.WhichOneof("record_type") == "exit"]


@dataclass(frozen=True)
class Played:
    """Three sessions of one run: one without a key, one with a key and weave loaded, and one that raises."""

    directory: Path
    runs: list[list[Any]]
    facts: dict[str, Any]
    stderr: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    directory = tmp_path_factory.mktemp("wandb")
    done = play(
        directory,
        """
        facts = {}
        model = make_model()
        attributes = set(vars(model))
        async with wandb_run(model, tell=told.append):
            await log(model, "train", 5, 0.5, **{"loss/train": 0.5})
            await log(model, "val", 3, 0.25)
            await model.log(None, split="val", metrics={"val/other/reward": 0.125}, step=3)
            facts["seen"] = repr(model._get_wandb_run())
        facts["left"] = sorted(set(vars(model)) - attributes)

        import weave
        os.environ["WANDB_API_KEY"] = "made-up"
        model = make_model()
        async with wandb_run(model, tell=told.append):
            opened = model._wandb_run
            async with wandb_run(model, tell=told.append):
                facts["is_taken_over"] = model._wandb_run is opened
                await log(model, "train", 6, 0.75)

        try:
            async with wandb_run(make_model(), tell=told.append):
                raise ZeroDivisionError
        except ZeroDivisionError as error:
            facts["notes"] = getattr(error, "__notes__", [])
        print(json.dumps({"told": told, **facts}))
        """,
        WANDB_MODE="offline",
    )
    assert done.returncode == 0, done.stderr
    return Played(directory, runs(directory), json.loads(done.stdout), done.stderr)


def test_the_sessions_of_a_run_are_one_wandb_run(played: Played) -> None:
    """With and without a key, for ART asks for one although nothing leaves the machine."""
    assert ids(played.runs) == ["run-1", "run-1", "run-1"]


def test_every_row_stands_at_its_own_step(played: Played) -> None:
    """An older step that is validated late too: W&B drops a row whose step goes back, unless the axis is a metric."""
    first, second, _ = map(curves, played.runs)

    shown = ("/reward", "/turns", "loss/train")
    assert {name: points for name, points in first.items() if name.endswith(shown)} == {
        "train/reward": [(5, 0.5)],
        "train/turns": [(5, 2.0)],
        "loss/train": [(5, 0.5)],
        "val/reward": [(3, 0.25)],
        "val/turns": [(3, 2.0)],
        "val/other/reward": [(3, 0.125)],
    }
    assert second["train/reward"] == [(6, 0.75)]


def test_a_session_that_raises_is_a_failed_run(played: Played) -> None:
    """W&B shows at a glance which ones to look at."""
    assert [exit_codes(run) for run in played.runs] == [[0], [0], [1]]
    assert played.facts["notes"] == []


def test_an_offline_run_is_seen_by_the_log_alone(played: Played) -> None:
    """ART's local backend would ask W&B's server about it after each training, and fail without a key."""
    assert (played.facts["seen"], played.facts["left"]) == ("None", [])


def test_a_run_that_is_open_is_taken_over(played: Played) -> None:
    """With a key, ART's local backend opens it when the model is registered."""
    assert played.facts["is_taken_over"]


def test_it_is_told_where_an_offline_run_is_kept(played: Played) -> None:
    """W&B itself is silent, as nothing prints but the console tracker; weave would ask the terminal for a key."""
    one, two, three = sorted(played.directory.glob("wandb/offline-run-*"))
    told = [
        f"W&B is offline: run 'run-1' is kept in {kept}; `wandb sync` uploads it" for kept in (one, two, two, three)
    ]

    assert (played.facts["told"], played.stderr) == (told, "")


def test_a_killed_session_leaves_what_it_logged(tmp_path: Path) -> None:
    """W&B by itself holds rows back for 15 s, and no later session logs them again."""
    killed = play(
        tmp_path,
        """
        model = make_model()
        async with wandb_run(model, tell=told.append):
            await log(model, "train", 1, 0.5)
            while b"train/reward" not in open(model._wandb_run.settings.sync_file, "rb").read():
                await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        WANDB_MODE="offline",
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [curves(run)["train/reward"] for run in runs(tmp_path)] == [[(1, 0.5)]]


def test_what_cannot_be_opened_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    """ART would find out at the first row. W&B takes no such id, and `wandb disabled` leaves a file with that mode."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nmode = disabled\n")

    done = play(
        tmp_path,
        """
        for run_name in ("run:1", "run-1"):
            try:
                async with wandb_run(make_model(run_name), tell=told.append):
                    raise AssertionError("it was opened")
            except ConfigurationError as error:
                print(error.problem)
        """,
        WANDB_API_KEY="made-up",
    )

    assert done.stdout.splitlines() == [
        "the W&B run 'run:1' of project 'wandb' could not be opened: Run ID cannot contain the characters: :;,#?/'",
        'report_metrics asks for "wandb", and W&B\'s own settings switch it off',
    ], done.stderr


@pytest.mark.parametrize("report_metrics", [None, []])
async def test_who_does_not_ask_is_left_alone(
    report_metrics: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening W&B takes seconds."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    model = make_trainable_model(name="agent", project="wandb", base_model="b", report_metrics=report_metrics)
    told: list[str] = []

    async with wandb_run(model, tell=told.append):
        assert "_get_wandb_run" not in vars(model)

    assert (told, model._wandb_run) == ([], None)
