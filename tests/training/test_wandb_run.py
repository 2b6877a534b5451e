"""A run that logs to W&B, offline, in processes of its own: W&B leaves a service and threads behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artkit import ConfigurationError

# Importing ART and W&B is most of it, and takes long on a busy machine.
pytestmark = pytest.mark.timeout(180)

SCRIPT = """
import asyncio, sys
from artkit import *
from artkit.testing import ChatServer, DiaryBackend

class Numbers(Environment[PromptScenario]):
    async def reset(self, scenario):
        return scenario.messages

    async def step(self, action):
        return StepResult(done=True, reward=float(action.text))

async def main():
    said = iter(range(1000))
    async with ChatServer(lambda body: str(next(said) % 2)) as server:
        report = await Trainer(
            model=make_trainable_model(
                name="agent", project="offline", base_model="b", base_path="art", report_metrics=["wandb"]
            ),
            backend=DiaryBackend(server),
            rollout=Rollout(Numbers),
            train=[PromptScenario(id=name, messages=[{"role": "user", "content": name}]) for name in "abcd"],
            reward=EnvironmentReward(),
            trackers=(),
            settings=TrainerSettings(groups_per_step=1, rollouts_per_group=2, max_steps=int(sys.argv[1])),
        ).run()
        print(report.reason)

asyncio.run(main())
"""


def session(directory: Path, max_steps: int) -> str:
    places = {f"WANDB_{name}_DIR": str(directory / "home") for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    own = {"HOME": str(directory / "home"), "WANDB_DIR": str(directory), "WANDB_MODE": "offline"}
    inherited = {name: value for name, value in os.environ.items() if name != "WANDB_API_KEY"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(max_steps)],
        cwd=directory,
        env=inherited | places | own,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    return done.stdout if done.returncode == 0 else done.stderr


def test_the_sessions_of_a_run_are_one_run_of_wandb_and_need_no_key_offline(tmp_path: Path) -> None:
    """A resume that began another curve would look like another run."""
    reasons = [session(tmp_path, 2), session(tmp_path, 4)]

    kept = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert [reason.strip() for reason in reasons] == [f"finished: max_steps={n} were trained" for n in (2, 4)]
    assert [path.name for path in kept] == ["run-agent.wandb"] * 2
    assert all(b"train/reward" in path.read_bytes() for path in kept)


async def test_wandb_that_is_asked_for_and_cannot_work_is_an_error(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ART alone would train for days and log nothing, without a word."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)

    with pytest.raises(ConfigurationError, match="WANDB_API_KEY"):
        await workshop.trainer(model=workshop.model(report_metrics=["wandb"])).run()

    assert workshop.answers.asked == []
