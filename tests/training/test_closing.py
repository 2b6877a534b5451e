"""The backend is closed however a run ends, and the journal is true."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artkit import ConfigurationError, KeepLatest, Rollout
from artkit.testing import DiaryBackend, read_diary
from artkit.tracking import Warned


async def test_the_backend_is_closed_on_success(workshop: Any) -> None:
    """It may hold a GPU, or processes."""
    await workshop.trainer().run()

    assert [entry.call for entry in workshop.backend.diary].count("close") == 1
    assert workshop.backend.diary[-1].call == "close"


@pytest.mark.parametrize("call", ["register", "prepare", "get_step", "train"])
async def test_the_backend_is_closed_on_an_error_and_the_error_comes_through(workshop: Any, call: str) -> None:
    """Whoever reads the trace sees what went wrong, not what closing made of it."""
    backend = DiaryBackend(workshop.server, fail={call: RuntimeError("it broke")})

    with pytest.raises(RuntimeError, match="it broke"):
        await workshop.trainer(backend=backend, checkpoint_policy=KeepLatest()).run()

    assert workshop.backend.diary[-1].call == "close"


async def test_the_backend_is_closed_when_the_run_was_refused(workshop: Any) -> None:
    """A script that ends with an error has no other place to do it."""
    with pytest.raises(ConfigurationError):
        await workshop.trainer(settings={"train_options": {"nothing": 1}}).run()

    assert [entry.call for entry in workshop.backend.diary] == ["close"]


async def test_an_error_in_closing_is_a_note_on_the_error_before_it(workshop: Any) -> None:
    """The first one is the cause."""
    backend = DiaryBackend(workshop.server, fail={"train": ValueError("first"), "close": OSError("second")})

    with pytest.raises(ValueError, match="first") as caught:
        await workshop.trainer(backend=backend).run()

    assert caught.value.__notes__ == ["closing DiaryBackend failed too: OSError('second')"]


async def test_an_error_in_closing_after_success_does_not_cost_the_report(workshop: Any) -> None:
    """The run is done; that something was left behind is a warning."""
    backend = DiaryBackend(workshop.server, fail={"close": OSError("stuck")})

    report = await workshop.trainer(backend=backend).run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert (report.steps, warnings) == (2, ["closing DiaryBackend failed: OSError('stuck')"])


async def test_a_cancelled_run_closes_its_backend_and_can_be_resumed(workshop: Any) -> None:
    """Cancelling is how a person, a time-out or a task group stops a run."""
    arrived = asyncio.Event()

    class Slow(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            result = await super().train(model, groups, learning_rate=learning_rate)
            arrived.set()
            await asyncio.sleep(60)
            return result

    run = asyncio.create_task(workshop.trainer(backend=Slow(workshop.server)).run())
    await arrived.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    last = workshop.backend.diary[-1].call

    report = await workshop.trainer().run()

    assert last == "close"
    assert report.steps == 2
    assert [row.get("train/recovered") for row in workshop.rows("train")] == [1.0, None]


async def test_a_run_cancelled_while_it_samples_has_trained_nothing(workshop: Any) -> None:
    """Every rollout is cancelled at once; the batch is played again on resume."""
    is_asked = asyncio.Event()

    class Waiting(workshop.Numbers):
        async def reset(self, scenario: Any) -> Any:
            is_asked.set()
            await asyncio.sleep(60)

    settings = {"check_environment": False}  # it would wait as well
    run = asyncio.create_task(workshop.trainer(rollout=Rollout(Waiting), settings=settings).run())
    await is_asked.wait()
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run

    assert [entry["kind"] for entry in workshop.journal()] == ["began"]
    assert workshop.backend.diary[-1].call == "close"


SCRIPT = """
import asyncio, sys
from artkit import *
from artkit.testing import ChatServer, DiaryBackend, Reply

class Numbers(Environment):
    async def reset(self, scenario): return scenario.messages
    async def step(self, action): return StepResult(done=True, reward=float(action.text))

def reply(body):
    print("asked", flush=True)
    return Reply("1", delay_s=60)

model = make_trainable_model(name="a", project="p", base_model="none", base_path=sys.argv[1], report_metrics=[])
trainer = Trainer(
    model=model, backend=DiaryBackend(ChatServer(reply), diary_path=sys.argv[1] + "/diary.jsonl"),
    rollout=Rollout(Numbers), train=[PromptScenario(id="a", messages=[{"role": "user", "content": "a"}])],
    reward=EnvironmentReward(), trackers=(),
)
asyncio.run(trainer.run())
"""


@pytest.mark.timeout(180)  # it imports ART in a process of its own
def test_the_backend_is_closed_on_ctrl_c(tmp_path: Path) -> None:
    """The first Ctrl-C has an effect, and the process ends as one that was interrupted."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)

    assert errors.decode().rstrip().endswith("KeyboardInterrupt")
    assert read_diary(tmp_path / "diary.jsonl")[-1].call == "close"
