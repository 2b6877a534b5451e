"""Files that were cut off, a disk that is full, a directory that cannot be written."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from artkit import (
    Action,
    ConfigurationError,
    Environment,
    EnvironmentReward,
    PromptScenario,
    Rollout,
    Sampling,
    StepResult,
    Trainer,
    TrainerSettings,
    make_trainable_model,
)
from artkit.testing import ChatServer, DiaryBackend
from artkit.tracking import Warned


class Numbers(Environment[PromptScenario]):
    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=float(action.text))


class Told:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def handle(self, event: Any) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.text)


def trainer(directory: Path, *, max_steps: int = 3, told: Told | None = None, backend: Any = None) -> Trainer:
    return Trainer(
        model=make_trainable_model(
            name="agent", project="disk", base_model="none", base_path=str(directory), report_metrics=[]
        ),
        backend=backend or DiaryBackend(ChatServer(lambda body: str(body["seed"]))),
        rollout=Rollout(Numbers, sampling=Sampling(seed=0)),
        train=[PromptScenario(id=name, messages=[{"role": "user", "content": name}]) for name in "abc"],
        reward=EnvironmentReward(),
        trackers=(told or Told(),),
        settings=TrainerSettings(groups_per_step=1, rollouts_per_group=2, max_steps=max_steps),
    )


def files(directory: Path) -> Path:
    return directory / "disk" / "models" / "agent"


def steps(directory: Path) -> list[tuple[int, bool]]:
    rows = [json.loads(line) for line in (files(directory) / "history.jsonl").read_text().splitlines()]
    return [(row["step"], "train/recovered" in row) for row in rows]


async def test_a_row_that_was_cut_off_is_written_again_and_nothing_grows_onto_it(tmp_path: Path) -> None:
    """ART appends to its history: behind half a line the next row would be lost too."""
    await trainer(tmp_path, max_steps=2).run()
    history, journal = files(tmp_path) / "history.jsonl", files(tmp_path) / "artkit" / "journal.jsonl"
    history.write_bytes(history.read_bytes()[:-40])
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]))  # neither logged nor ended

    await trainer(tmp_path).run()

    assert steps(tmp_path) == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize("torn", [b"", b'{"_metrics": {"cum'])
async def test_a_state_file_that_was_cut_off_is_put_back_from_its_copy(tmp_path: Path, torn: bytes) -> None:
    """ART rewrites it in place, and with half of it every later log fails."""
    await trainer(tmp_path, max_steps=2).run()
    state, told = files(tmp_path) / "state.json", Told()
    whole = state.read_bytes()
    state.write_bytes(torn)

    await trainer(tmp_path, told=told).run()

    scenarios = [json.loads(line).get("data/cum/num_unique_scenarios") for line in _rows(tmp_path)]
    assert [text for text in told.warnings if "put back from the last step's copy" in text] != []
    assert (files(tmp_path) / "state.torn").read_bytes() == torn != whole
    assert scenarios == [1.0, 2.0, 3.0]


async def test_a_state_file_that_was_cut_off_and_has_no_copy_begins_anew(tmp_path: Path) -> None:
    """A sum is lost, not the run; and it is said."""
    await trainer(tmp_path, max_steps=2).run()
    (files(tmp_path) / "state.json").write_bytes(b"{")
    (files(tmp_path) / "artkit" / "state.json").unlink()
    told = Told()

    report = await trainer(tmp_path, told=told).run()

    assert report.steps == 3
    assert [text for text in told.warnings if "had no copy" in text] != []


async def test_a_table_of_trajectories_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    """ART writes it before the row and in place; the row being missing, both are made again."""
    import pyarrow.parquet as pq

    await trainer(tmp_path, max_steps=1).run()
    table = files(tmp_path) / "trajectories" / "train" / "0001.parquet"
    table.write_bytes(table.read_bytes()[:100])
    (files(tmp_path) / "history.jsonl").write_bytes(b"")
    journal = files(tmp_path) / "artkit" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))

    await trainer(tmp_path).run()

    assert pq.read_table(table).num_rows == 2
    assert steps(tmp_path)[0] == (1, True)


def _rows(directory: Path) -> list[str]:
    return (files(directory) / "history.jsonl").read_text().splitlines()


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """What a write beyond it gets is what a full disk gives: an OSError in the middle of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Filling(DiaryBackend):
    """The disk fills up while it trains for the second time."""

    limit: Any = None

    async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
        result = await super().train(model, groups, learning_rate=learning_rate)
        if result.step == 2:
            type(self).limit = files_no_larger_than(1)
            self.limit.__enter__()
        return result


async def test_a_full_disk_is_a_clear_error_and_the_next_run_settles_it(tmp_path: Path) -> None:
    """What was trained is not trained again, and its row is written."""
    backend = Filling(ChatServer(lambda body: str(body["seed"])))
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011  # its number and note are looked at below
            await trainer(tmp_path, backend=backend).run()
    finally:
        backend.limit.__exit__(None, None, None)

    report = await trainer(tmp_path).run()

    assert caught.value.errno == errno.EFBIG
    assert caught.value.__notes__ == [
        f"the run keeps its files in {files(tmp_path)}; make room, or let it be written, and start again: it resumes"
    ]
    assert backend.diary[-1].call == "close"
    assert (report.steps, steps(tmp_path)) == (3, [(1, False), (2, True), (3, False)])


async def test_a_row_without_its_line_end_is_kept_and_not_written_twice(tmp_path: Path) -> None:
    """All of it is there; and the next row must not grow onto it."""
    await trainer(tmp_path, max_steps=2).run()
    history, journal = files(tmp_path) / "history.jsonl", files(tmp_path) / "artkit" / "journal.jsonl"
    history.write_bytes(history.read_bytes()[:-1])
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))

    await trainer(tmp_path).run()

    assert steps(tmp_path) == [(1, False), (2, False), (3, False)]


async def test_a_row_is_on_the_disk_before_the_journal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the journal would tell of a row that nobody can find."""
    synced: list[str] = []
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        by_inode = {path.stat().st_ino: path.name for path in files(tmp_path).rglob("*")}
        synced.append(by_inode.get(os.fstat(descriptor).st_ino, ""))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await trainer(tmp_path, max_steps=1).run()

    interesting = [name for name in synced if name in ("artkit", "journal.jsonl", "history.jsonl", "recordings")]
    began, recorded = ["journal.jsonl", "artkit"], ["recordings"]
    intended_and_trained, logged_and_ended = ["journal.jsonl"] * 2, ["artkit", "journal.jsonl", "journal.jsonl"]
    assert interesting == [*began, *recorded, *intended_and_trained, "history.jsonl", *logged_and_ended]


async def test_a_directory_that_cannot_be_written_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """And named; the same run in another place works."""
    blocked = tmp_path / "blocked"
    if os.geteuid() == 0:
        blocked.write_text("root may write everywhere, but not below a file")
    else:
        blocked.mkdir(mode=0o500)

    with pytest.raises(ConfigurationError, match=r"the run cannot keep its files in .*blocked.* base_path"):
        await trainer(blocked).run()

    assert (await trainer(tmp_path / "free").run()).steps == 3
