"""The report: how a run ended, and what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artkit import Every, KeepLatest, RunReport, Validation
from artkit.testing import DiaryBackend
from artkit.tracking import RunFinished

BACKEND = '''
from artkit.testing import ChatServer, DiaryBackend


class ScriptedBackend(DiaryBackend):
    """Answers every question alike."""

    def __init__(self, answer: str = "nothing") -> None:
        super().__init__(ChatServer(lambda body: answer + str(len(body["messages"]))))
        self._answer = answer
'''


async def test_the_report_says_how_the_run_ended_and_what_it_left(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Reason, steps, the best and the last checkpoint, where the history is, and what became of the rollouts."""
    workshop.answers.replies = {"x": ["5", "1"], "y": ["5", "1"]}

    report = await workshop.trainer(validation=held_out(schedule=Every(1))).run()

    assert (report.reason, report.steps, report.best_step, report.best_value) == (
        "finished: all batches were trained", 2, 1, 5.0,
    )  # fmt: skip
    assert report.final_inference_name == "agent"
    assert report.history == workshop.model_dir / "history.jsonl"
    assert report.counts == {
        "groups_submitted": 4.0,
        "groups_trainable": 4.0,
        "groups_dropped": 0.0,
        "rollouts_started": 8.0,
        "rollouts_grouped": 8.0,
    }
    assert report.wall_s > 0


async def test_the_report_prints_as_a_short_summary_that_ends_with_the_usage(workshop: Any) -> None:
    """It is the last thing on the screen, and what one does next."""
    report = await workshop.trainer().run()

    lines = str(report).splitlines()
    assert lines[0].startswith("finished: all batches were trained (2 steps, ")
    assert lines[1:3] == ["model: agent", f"history: {report.history}"]
    assert str(report).endswith(report.usage)
    assert [event.report_text for event in workshop.told.of(RunFinished)] == [str(report)]


def test_the_report_says_what_was_lost() -> None:
    """Nobody reads a week's log for it."""
    counts = {"rollouts_started": 8.0, "rollouts_grouped": 5.0, "rollouts_lost_tool": 1.0, "rollouts_failed_fatal": 0.0}
    facts = {
        "reason": "finished",
        "steps": 2,
        "best_step": None,
        "best_value": None,
        "history": Path("h"),
        "usage": "u",
    }
    report = RunReport(final_inference_name="m", counts=counts | {"rollouts_failed_environment": 2.0}, **facts)  # type: ignore[arg-type]

    assert str(report).splitlines()[1] == "rollouts of this session: 8, 1 lost (tool), 2 failed (environment)"


async def test_the_wall_time_counts_all_sessions(workshop: Any) -> None:
    """A run that was resumed did not take only its last minute."""
    first = await workshop.trainer(settings={"max_steps": 1}).run()

    assert (await workshop.trainer().run()).wall_s > first.wall_s


@pytest.mark.timeout(180)  # it imports ART in a process of its own
async def test_the_usage_example_runs_after_the_backend_was_closed(
    workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens the backend again, with the arguments that this one was made with."""
    (tmp_path / "my_backend.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(str(tmp_path))
    from my_backend import ScriptedBackend

    report = await workshop.trainer(backend=ScriptedBackend(answer="7")).run()
    done = await _run(report.usage, tmp_path)

    assert "ScriptedBackend(answer='7')" in report.usage
    assert (done.stdout, done.stderr) == ("71\n", "")


async def _run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    import asyncio

    environment = {**os.environ, "PYTHONPATH": str(path), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script],
        env=environment,
        cwd=path,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_a_report_is_made_also_where_the_recordings_are_gone(workshop: Any) -> None:
    """Somebody made room on the disk; the run is not lost for that."""
    await workshop.trainer().run()
    for path in (workshop.model_dir / "artkit" / "recordings").iterdir():
        path.unlink()

    report = await workshop.trainer().run()

    assert "'Hello'" in report.usage


async def test_the_best_step_is_one_that_can_still_be_opened(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The policy looks at the whole history and deletes what is not best in it; the report must not name that."""
    workshop.answers.replies = {"x": ["5", "1"], "y": ["5", "1"]}
    policy = KeepLatest()

    report = await workshop.trainer(validation=held_out(schedule=Every(1)), checkpoint_policy=policy).run()

    assert workshop.backend.checkpoint_steps(workshop.model()) == {2}
    assert (report.best_step, report.best_value) == (2, 1.0)


async def test_a_run_that_begins_anew_ranks_its_own_steps_and_leaves_those_of_earlier_runs_alone(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """They may have been validated on another set; and nobody asked it to delete their best."""
    workshop.answers.replies = {"x": ["5", "1"], "y": ["5", "1"]}
    validation = held_out(schedule=Every(1))
    await workshop.trainer(validation=validation).run()

    report = await workshop.trainer(validation=validation, resume="never").run()

    assert workshop.backend.checkpoint_steps(workshop.model()) == {1, 2, 3, 4}
    assert (report.best_step, report.best_value, report.best_metric) == (3, 5.0, "val/reward")


async def test_a_backend_that_does_not_answer_at_the_end_does_not_cost_the_report(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The run is done by then."""

    class Silent(DiaryBackend):
        def checkpoint_steps(self, model: Any) -> frozenset[int]:
            if self.calls("train"):
                raise TimeoutError("busy")
            return super().checkpoint_steps(model)

        def _step(self, model: Any) -> int:
            return max(DiaryBackend.checkpoint_steps(self, model), default=0)

    report = await workshop.trainer(backend=Silent(workshop.server), validation=held_out()).run()

    assert (report.steps, report.best_step) == (2, 2)
