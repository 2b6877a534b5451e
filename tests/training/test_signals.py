"""What Ctrl-C and SIGTERM do to a run, and what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from artkit import (
    Action,
    Environment,
    Every,
    Rollout,
    Scenario,
    ScenarioOrder,
    StepResult,
    Trainer,
    Validation,
    read_groups,
)
from artkit.rollouts import gather_groups
from artkit.testing import ChatServer, DiaryBackend
from artkit.tracking import Warned
from artkit.training.signals import STOPPED


def press(number: signal.Signals, *, after_s: float = 0.0) -> None:
    """Send a signal to this process, as the system does: between two instructions."""
    asyncio.get_running_loop().call_later(after_s, signal.raise_signal, number)


class Played(Environment[Any]):
    """Notes in which order what was closed."""

    closed: list[str]

    def __init_subclass__(cls) -> None:
        cls.closed = []

    async def reset(self, scenario: Scenario) -> str:
        self.name = scenario.id
        return scenario.id

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=1.0)

    async def close(self) -> None:
        await asyncio.sleep(0.3)
        self.closed.append(self.name)


def trainer_of(workshop: Any, environment: type[Played], **changes: Any) -> Trainer:
    """A trainer over a to d in that order, two a step, twice each."""
    settings = {"check_environment": False, **changes.pop("settings", {})}
    order = ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), shuffle=False)
    return workshop.trainer(rollout=Rollout(environment), train=order, filters=None, settings=settings, **changes)


def run_by_hand(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in an event loop that the program looks after itself."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def run(work: Coroutine[Any, Any, Any], *, debug: bool = True) -> Any:
    """Run as a program does, in development mode, and see that the handlers are put back."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    threads = {thread.name for thread in threading.enumerate()}
    try:
        return asyncio.run(work, debug=debug)
    finally:
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert {thread.name for thread in threading.enumerate() if thread.name.startswith("artkit")} <= threads


@pytest.mark.parametrize("times", [1, 2, 4])
def test_ctrl_c_ends_a_run_with_everything_closed(own_loops: Any, caplog: Any, times: int) -> None:
    """However often it is pressed; the second time a line says that it was heard."""

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            if self.name == "b":
                for number in range(times):
                    press(signal.SIGINT, after_s=0.1 + 0.05 * number)
                await asyncio.Event().wait()
            return await super().step(action)

    trainer = trainer_of(own_loops, Waits, settings={"rollouts_per_group": 1})
    with caplog.at_level(logging.WARNING, logger="artkit"), pytest.raises(KeyboardInterrupt):
        run(trainer.run())

    assert sorted(Waits.closed) == ["a", "b"]
    assert own_loops.backend.diary[-1].call == "close"
    assert [text for text in caplog.messages if "clean-up" in text] == [
        "clean-up is running: what is open is being closed, and then this ends"
    ] * (times > 1)


def test_what_was_played_when_ctrl_c_came_is_recorded(own_loops: Any) -> None:
    """It was paid for."""

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            if self.name == "b":
                press(signal.SIGINT, after_s=1.0)
                await asyncio.Event().wait()
            return await super().step(action)

    trainer = trainer_of(own_loops, Waits)
    with pytest.raises(KeyboardInterrupt):
        run(trainer.run())

    recordings = own_loops.model_dir / "artkit" / "recordings"
    [path] = recordings.iterdir()
    groups, lost = read_groups(path)
    assert path.name == "interrupted-000000.jsonl"
    assert [event.text for event in own_loops.told.of(Warned)] == [
        f"interrupted; start again and it goes on with the step under way, what was played of it is in {recordings}"
    ]
    assert [[one.metadata["scenario_id"] for one in group.trajectories] for group in groups] == [["a", "a"], []]
    assert lost == []


def test_an_episode_whose_environment_was_still_being_closed_is_recorded(own_loops: Any) -> None:
    """It was played to its end; closing a container takes longer than many an episode."""

    class Closes(Played):
        async def close(self) -> None:
            press(signal.SIGINT, after_s=0.05)
            await super().close()

    trainer = trainer_of(own_loops, Closes, settings={"groups_per_step": 1})
    with pytest.raises(KeyboardInterrupt):
        run(trainer.run())

    [path] = (own_loops.model_dir / "artkit" / "recordings").iterdir()
    [group], lost = read_groups(path)
    assert path.name == "interrupted-000000.jsonl"
    assert [(one.reward, one.metrics["turns"], one.stop_reason) for one in group.trajectories] == [(1.0, 1, "done")] * 2
    assert (lost, Closes.closed) == ([], ["a", "a"])


def test_a_run_that_ctrl_c_ended_goes_on_in_a_second_event_loop(own_loops: Any) -> None:
    """As in the next cell of a notebook, or when the program catches the interrupt."""

    class Once(Played):
        async def step(self, action: Action) -> StepResult:
            if not self.closed:
                press(signal.SIGINT)
                await asyncio.Event().wait()
            return await super().step(action)

    with pytest.raises(KeyboardInterrupt):
        run(trainer_of(own_loops, Once).run())
    report = run(trainer_of(own_loops, Once).run())

    assert report.reason == "finished: all batches were trained"


@pytest.mark.parametrize("during", ["rollouts", "train"])
def test_sigterm_finishes_the_step_saves_and_ends(own_loops: Any, during: str) -> None:
    """A scheduler gives notice before it kills; what is under way would be lost."""
    asked = threading.Event()

    class Noticed(Played):
        async def step(self, action: Action) -> StepResult:
            if during == "rollouts" and not asked.is_set():
                asked.set()
                press(signal.SIGTERM)
            return await super().step(action)

    class Backend(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            if during == "train" and not asked.is_set():
                asked.set()
                signal.raise_signal(signal.SIGTERM)
            return await super().train(model, groups, learning_rate=learning_rate)

    def trainer() -> Trainer:
        return trainer_of(
            own_loops,
            Noticed,
            backend=Backend(own_loops.server),
            validation=[
                Validation(own_loops.scenarios("x"), name="each", schedule=Every(1)),
                Validation(own_loops.scenarios("y"), name="last"),
            ],
        )

    stopped = run(trainer().run())
    resumed = run(trainer().run())

    assert (stopped.reason, stopped.steps) == (STOPPED, 1)
    assert (resumed.reason, resumed.steps) == ("finished: all batches were trained", 2)
    assert own_loops.backend.diary[-1].call == "close"
    validated = [(entry["name"], entry["step"]) for entry in own_loops.journal() if entry["kind"] == "validated"]
    assert validated == [("each", 1), ("each", 2), ("last", 2)]


def test_a_second_sigterm_ends_the_run_at_once(own_loops: Any) -> None:
    """The step may take longer than there is time."""

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            for number in range(2):
                press(signal.SIGTERM, after_s=0.05 + 0.05 * number)
            await asyncio.Event().wait()

    settings = {"groups_per_step": 1, "rollouts_per_group": 1}
    with pytest.raises(KeyboardInterrupt):
        run(trainer_of(own_loops, Waits, settings=settings).run())

    assert (Waits.closed, own_loops.backend.diary[-1].call) == (["a"], "close")


def test_signals_that_the_program_handles_are_left_to_it(own_loops: Any) -> None:
    """What it set up is what it wants."""
    heard = []

    class Played1(Played):
        async def step(self, action: Action) -> StepResult:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            return await super().step(action)

    before = (
        signal.signal(signal.SIGINT, lambda *_: heard.append("SIGINT")),
        signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM")),
    )
    try:
        settings = {"groups_per_step": 4, "rollouts_per_group": 1}
        report = run(trainer_of(own_loops, Played1, settings=settings).run())
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])

    assert (report.reason, heard) == ("finished: all batches were trained", ["SIGINT", "SIGTERM"] * 4)


def test_a_second_ctrl_c_cuts_none_of_two_runs_short(own_loops: Any, tmp_path: Path, caplog: Any) -> None:
    """Also where the run that heard of the first is through with its own clean-up."""

    class Soon(Played):
        close_s = 0.1
        stepping: asyncio.Semaphore

        async def step(self, action: Action) -> StepResult:
            self.stepping.release()
            await asyncio.Event().wait()

        async def close(self) -> None:
            await asyncio.sleep(self.close_s)
            self.closed.append(self.name)

    class Late(Soon):
        close_s = 0.8

    async def main() -> None:
        async with asyncio.TaskGroup() as runs:
            for environment, directory in ((Soon, tmp_path / "soon"), (Late, tmp_path / "late")):
                workshop = dataclasses.replace(own_loops, directory=directory, server=ChatServer(lambda body: "1"))
                settings = {"groups_per_step": 1, "rollouts_per_group": 1}
                runs.create_task(trainer_of(workshop, environment, settings=settings).run())
            for _ in range(2):
                await Soon.stepping.acquire()
            press(signal.SIGINT)
            press(signal.SIGINT, after_s=0.6)

    Soon.stepping = asyncio.Semaphore(0)
    with caplog.at_level(logging.WARNING, logger="artkit"), pytest.raises(KeyboardInterrupt):
        run(main())

    assert (Soon.closed, Late.closed) == (["a"], ["a"])
    assert [text for text in caplog.messages if "clean-up" in text] == [
        "clean-up is running: what is open is being closed, and then this ends"
    ]


class NoHandlers(asyncio.SelectorEventLoop):
    """As on systems where an event loop cannot handle signals."""

    def add_signal_handler(self, *arguments: Any) -> None:
        raise NotImplementedError

    def remove_signal_handler(self, sig: int) -> bool:
        raise NotImplementedError


@pytest.mark.parametrize("has_runner", [True, False])
def test_ctrl_c_works_where_an_event_loop_cannot_handle_signals(own_loops: Any, has_runner: bool) -> None:
    """And in a loop that the program runs by itself, which Python would leave in the middle of everything."""

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            press(signal.SIGINT, after_s=0.05)
            press(signal.SIGINT, after_s=0.15)
            await asyncio.Event().wait()

    settings = {"groups_per_step": 1, "rollouts_per_group": 1}
    trainer = trainer_of(own_loops, Waits, settings=settings)
    if has_runner:
        with asyncio.Runner(loop_factory=NoHandlers) as runner, pytest.raises(KeyboardInterrupt):
            runner.run(trainer.run())
    else:
        loop = NoHandlers()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(trainer.run())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    assert (Waits.closed, own_loops.backend.diary[-1].call) == (["a"], "close")


def test_outside_the_main_thread_a_run_is_cancelled_like_any_other(own_loops: Any) -> None:
    """No handler can be set there; a notebook or a server may run it so."""
    outcomes = []

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            running.set()
            await asyncio.Event().wait()

    running = asyncio.Event()

    async def main() -> None:
        settings = {"groups_per_step": 1, "rollouts_per_group": 1}
        work = asyncio.create_task(trainer_of(own_loops, Waits, settings=settings).run())
        await running.wait()
        work.cancel()
        await asyncio.wait({work})
        outcomes.append(work.cancelled())

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()

    assert (outcomes, Waits.closed) == ([True], ["a"])


def test_a_second_ctrl_c_does_not_cut_short_a_gather_either(caplog: Any) -> None:
    """An impatient one orphaned sandboxes: `asyncio.run` raises KeyboardInterrupt wherever the program is."""

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            if not pressed:
                pressed.append(True)
                press(signal.SIGINT, after_s=0.2)
                press(signal.SIGINT, after_s=0.4)
            await asyncio.Event().wait()

        async def close(self) -> None:
            await asyncio.sleep(1.0)
            self.closed.append(self.name)

    pressed: list[bool] = []

    async def main() -> None:
        async with ChatServer(lambda body: "1") as server:
            await gather_groups(Rollout(Waits), server.model(), [Scenario(id="a"), Scenario(id="b")])

    with caplog.at_level(logging.WARNING, logger="artkit"), pytest.raises(KeyboardInterrupt):
        run(main())

    assert sorted(Waits.closed) == ["a"] * 4 + ["b"] * 4
    assert [text for text in caplog.messages if "clean-up" in text] == [
        "clean-up is running: what is open is being closed, and then this ends"
    ]


@pytest.mark.parametrize("has_runner", [True, False])
def test_ctrl_c_while_something_else_is_cleaned_up_is_heard(has_runner: bool) -> None:
    """A deadline that passed is no interrupt: the program would go on as if nobody had pressed anything."""
    went_on = []

    class Waits(Played):
        async def step(self, action: Action) -> StepResult:
            press(signal.SIGINT, after_s=0.7)
            await asyncio.Event().wait()

        async def close(self) -> None:
            await asyncio.sleep(0.5)
            await super().close()

    async def main() -> None:
        async with ChatServer(lambda body: "1") as server:
            # The first request of a process imports for seconds.
            await Rollout(Played)(server.model(), Scenario(id="w"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await gather_groups(Rollout(Waits), server.model(), [Scenario(id="a")], rollouts_per_group=1)
            await asyncio.sleep(0)
            went_on.append(True)

    Played.closed = []
    with pytest.raises(KeyboardInterrupt):
        (run if has_runner else run_by_hand)(main())

    assert (Waits.closed, went_on) == (["a"], [])
