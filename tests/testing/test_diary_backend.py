"""A backend that trains nothing, keeps steps and checkpoints like a real one, and writes down every call."""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import art
import pytest
from art.backend import Backend

from artkit.bridge import make_trainable_model, storage_dir
from artkit.errors import BackendError, ConfigurationError
from artkit.testing import ChatServer, DiaryBackend, DiaryEntry, episode, read_diary


def make(base_path: Path) -> art.TrainableModel[Any, Any]:
    return make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(base_path), report_metrics=[]
    )


def test_it_has_every_method_of_art_s_protocol() -> None:
    """The installed version's, whichever that is."""
    methods = {name for name in vars(Backend) if not name.startswith(("__", "_abc", "_is_"))}

    assert {name for name in methods if not callable(getattr(DiaryBackend, name, None))} == set()


async def test_every_call_is_written_down_in_order(tmp_path: Path) -> None:
    """What a loop did, and when, is what a test asks."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    await model.get_step()
    await backend.close()

    assert backend.diary == (
        DiaryEntry("register", {"model": "agent"}),
        DiaryEntry("prepare", {"model": "agent"}),
        DiaryEntry("get_step", {"model": "agent"}),
        DiaryEntry("close"),
    )


async def test_train_writes_down_what_it_was_given(tmp_path: Path) -> None:
    """Groups in their order, with rewards, what was lost, and the options."""
    model, backend = make(tmp_path), DiaryBackend(train_metrics={"loss/train": 0.5})
    await model.register(backend)
    group = art.TrajectoryGroup(
        [episode("q", reward=1.0), episode("q", reward=0.0), ValueError("lost")], metadata={"scenario_id": "s1"}
    )
    result = await backend.train(model, [group], learning_rate=1e-3)
    (call,) = backend.calls("train")

    assert (result.step, result.metrics) == (1, {"loss/train": 0.5})
    assert (call["step"], call["groups"], call["options"]["learning_rate"]) == (
        1,
        [{"scenario_id": "s1", "rewards": [1.0, 0.0], "exceptions": ["lost"]}],
        1e-3,
    )


async def test_train_takes_finished_groups_only(tmp_path: Path) -> None:
    """A rollout that is awaited late is trained on by nobody."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    with pytest.raises(BackendError, match="Trajectory"):
        await backend.train(model, [episode("q")])  # type: ignore[list-item]


def test_train_names_its_options() -> None:
    """So that a wrong option is found, as with ART's own backends."""
    parameters = inspect.signature(DiaryBackend.train).parameters.values()

    assert all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters)


async def test_each_step_leaves_a_checkpoint_that_another_process_finds(tmp_path: Path) -> None:
    """Resuming is tested on the disk."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    await backend.train(model, [])
    await backend.train(model, [])
    again, later = make(tmp_path), DiaryBackend()
    await again.register(later)

    assert (await again.get_step(), later.checkpoint_steps(again)) == (2, frozenset({0, 1, 2}))


async def test_deleted_checkpoints_are_gone(tmp_path: Path) -> None:
    """The step stays the latest that is left."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    for _ in range(3):
        await backend.train(model, [])
    await backend._delete_checkpoint_files(model, [1, 3])

    assert (backend.checkpoint_steps(model), await model.get_step()) == (frozenset({1, 3}), 3)


async def test_supervised_training_is_a_step_too(tmp_path: Path) -> None:
    """ART's train_sft goes through the same backend."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    await model.train_sft([episode("q"), episode("q")], art.TrainSFTConfig(learning_rate=1e-3, batch_size=2))
    (call,) = backend.calls("train_sft")

    assert (await model.get_step(), call["trajectories"], call["options"]) == (
        1,
        2,
        {"learning_rate": 1e-3, "batch_size": 2},
    )


async def test_the_server_is_started_for_the_model_and_closed_with_the_backend(tmp_path: Path) -> None:
    """One object to close."""
    server = ChatServer(["ok"])
    model, backend = make(tmp_path), DiaryBackend(server)
    await model.register(backend)
    client = model.openai_client()
    reply = await client.chat.completions.create(
        model=model.get_inference_name(), messages=[{"role": "user", "content": "go"}]
    )
    await client.close()
    await backend.close()

    assert (reply.choices[0].message.content, reply.model, server.is_running) == ("ok", "agent", False)


async def test_a_server_that_ran_before_is_left_running(tmp_path: Path) -> None:
    """Whoever started it closes it."""
    async with ChatServer([]) as server:
        backend = DiaryBackend(server)
        await make(tmp_path).register(backend)
        await backend.close()

        assert server.is_running


async def test_a_step_has_its_own_inference_name(tmp_path: Path) -> None:
    """`name@step`, as ART's local backend serves it; a lease makes it the one that is meant."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    async with backend.exact_adapter_lease(model, 3):
        leased = model.get_inference_name()

    assert (model.get_inference_name(), model.get_inference_name(step=2), leased) == ("agent", "agent@2", "agent@3")


@pytest.mark.parametrize(
    "call", ["register", "prepare", "get_step", "train", "train_sft", "delete_checkpoints", "close"]
)
async def test_any_call_can_be_made_to_fail(call: str, tmp_path: Path) -> None:
    """Once, and it is written down; then all goes well."""
    model, backend = make(tmp_path), DiaryBackend(fail={call: OSError("disk full")})

    async def everything() -> None:
        await model.register(backend)
        await model.get_step()
        await backend.train(model, [])
        await model.train_sft([])
        await backend._delete_checkpoint_files(model, [1])
        await backend.close()

    with pytest.raises(OSError, match="disk full"):
        await everything()
    failed = backend.diary[-1].call
    await everything()

    assert (failed, backend.diary[-1].call) == (call, "close")


async def test_failures_come_in_the_order_they_are_given(tmp_path: Path) -> None:
    """None is a call that goes well."""
    model, backend = make(tmp_path), DiaryBackend(fail={"train": [None, OSError("second")]})
    await model.register(backend)
    first = await backend.train(model, [])
    with pytest.raises(OSError, match="second"):
        await backend.train(model, [])
    third = await backend.train(model, [])

    assert (first.step, third.step) == (1, 2)


def test_a_failure_of_no_call_is_refused() -> None:
    """A misspelt one would never happen, and the test would pass."""
    with pytest.raises(ConfigurationError, match="tarin"):
        DiaryBackend(fail={"tarin": OSError()})


KILLED = """
import asyncio, os, signal, sys
from artkit.bridge import make_trainable_model
from artkit.testing import DiaryBackend, diary_backend

async def main():
    model = make_trainable_model(name="agent", project="demo", base_model="none", base_path=sys.argv[1])
    backend = DiaryBackend(diary_path=sys.argv[2])
    await model.register(backend)
    await backend.train(model, [])
    write = diary_backend.Path.write_text
    def die(self, *args, **kwargs):
        write(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
    diary_backend.Path.write_text = die
    await backend.train(model, [])

asyncio.run(main())
"""


async def test_a_process_killed_within_train_leaves_a_whole_step_and_its_diary(tmp_path: Path) -> None:
    """There is a whole checkpoint or none, and the last entry of a step is the one that counts."""
    diary = tmp_path / "diary.jsonl"
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, diary], check=False, timeout=50)  # noqa: ASYNC221
    model, backend = make(tmp_path), DiaryBackend(diary_path=diary)
    await model.register(backend)
    resumed_at = await model.get_step()
    await backend.train(model, [])
    steps = [entry.arguments["step"] for entry in read_diary(diary) if entry.call == "train"]

    assert (killed.returncode, resumed_at, steps) == (-signal.SIGKILL, 1, [1, 2, 2])
    assert backend.checkpoint_steps(model) == frozenset({0, 1, 2})


def test_a_cut_off_line_of_a_diary_is_left_out(tmp_path: Path) -> None:
    """The process died while it wrote it."""
    path = tmp_path / "diary.jsonl"
    whole = json.dumps({"call": "close", "arguments": {}})
    path.write_text(f'{whole}\n{{"call": "tra')

    assert read_diary(path) == (DiaryEntry("close", {}),)


async def test_checkpoints_lie_where_art_keeps_the_model(tmp_path: Path) -> None:
    """Beside history and trajectories, so that a copy of the directory is a copy of the run."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)

    assert [path.name for path in (storage_dir(model) / "checkpoints").iterdir()] == ["0000"]
