"""A run that was killed ends as one that was not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kill_resume import KillServer, Outcome, check, events_of, missing_rows, outcome_of

pytestmark = pytest.mark.timeout(300)

SHARES = [random.Random(number).random() for number in range(10)]
STALENESS = 2  # of which what a batch leaves over takes one


@dataclass(frozen=True)
class Kills:
    """A server of processes, and what a run leaves that nobody kills."""

    server: KillServer
    whole: Outcome
    seconds: float
    events: list[str]


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kills]:
    with KillServer() as server:
        events = events_of(server, tmp_path_factory.mktemp("events"))
        directory = tmp_path_factory.mktemp("whole")
        seconds = server.run(directory)["seconds"]
        yield Kills(server=server, whole=outcome_of(directory), seconds=seconds, events=events)


def kill_and_resume(kills: Kills, directory: Path, **moment: Any) -> list[str]:
    """Kill a run, resume it to its end, and return what is wrong with it then."""
    assert kills.server.run(directory, **moment)["code"] == -9
    missing = missing_rows(directory)
    kills.server.run(directory)
    return check(outcome_of(directory), kills.whole, missing)


def test_the_run_that_is_killed_holds_everything_that_can_go_wrong(kills: Kills) -> None:
    """Trained and empty batches, one refilled, groups kept, two validations, pruning, a best step before the last."""
    assert sorted(kills.whole.trained) == [1, 2, 3, 4]
    assert kills.whole.batches == dict.fromkeys(range(6), 1)
    batches = [["flat one", "one"], ["two"], ["flat two"]] * 2
    assert kills.whole.scenarios == dict(enumerate(batches))
    assert sorted(kills.whole.rows) == ["further 3", "train 1", "train 2", "train 3", "train 4", "val 2", "val 4"]
    assert kills.whole.checkpoints == [2, 4]
    assert kills.whole.doubled == []
    assert kills.whole.recovered == frozenset()


@pytest.mark.parametrize("share", SHARES)
def test_a_run_killed_at_a_random_moment_ends_as_one_that_was_not(kills: Kills, tmp_path: Path, share: float) -> None:
    """The same batches, every scenario in one finished step per epoch, no row twice, owed rows written and marked."""
    after_s = share * kills.seconds
    number = 0
    while kills.server.run(tmp_path / f"{number}", after_s=after_s)["code"] == 0:
        after_s, number = after_s / 2, number + 1  # that run was over before the moment

    missing = missing_rows(tmp_path / f"{number}")
    kills.server.run(tmp_path / f"{number}")

    assert check(outcome_of(tmp_path / f"{number}"), kills.whole, missing) == []


def test_a_run_killed_at_any_boundary_of_a_step_ends_as_one_that_was_not(kills: Kills, tmp_path: Path) -> None:
    """Random moments seldom hit between two files; here each file operation of a whole step is one."""
    starts = [number for number, event in enumerate(kills.events) if event.startswith("open") and "/.batch-" in event]
    validated = next(number for number, event in enumerate(kills.events) if "/.validation-val-000002" in event)
    step = range(max(n for n in starts if n < validated), min(n for n in starts if n > validated))

    wrong = {kills.events[number]: kill_and_resume(kills, tmp_path / f"{number}", at_event=number) for number in step}

    assert {name for name, problems in wrong.items() if problems} == set()
    assert len(step) > 20


def test_a_run_killed_again_while_it_recovers_ends_as_one_that_was_not(kills: Kills, tmp_path: Path) -> None:
    """Recovery is work like any other: it may die too, and must not be half done."""
    before_row = next(number for number, event in enumerate(kills.events) if "history.jsonl" in event)
    kills.server.run(tmp_path, at_event=before_row)
    missing = missing_rows(tmp_path)

    deaths = 0
    while kills.server.run(tmp_path, at_event=6 + deaths)["code"] == -9:
        deaths += 1

    outcome = outcome_of(tmp_path)
    assert missing == {"train 1"}
    assert check(outcome, kills.whole, frozenset(n for n in outcome.recovered if n.startswith("train"))) == []
    assert outcome.recovered >= missing
    assert deaths > 10


def test_a_run_that_is_killed_while_it_plays_ahead_ends_as_one_that_was_not(kills: Kills, tmp_path: Path) -> None:
    """What was played ahead dies with it: no scenario is trained on twice for that, none is skipped, none is too old."""
    seconds = kills.server.run(tmp_path / "whole", max_staleness=STALENESS)["seconds"]
    whole = outcome_of(tmp_path / "whole")

    deaths, wrong = 0, []
    for number, share in enumerate(SHARES[:4]):
        directory = tmp_path / f"{number}"
        deaths += kills.server.run(directory, after_s=share * seconds, max_staleness=STALENESS)["code"] != 0
        missing = missing_rows(directory)
        kills.server.run(directory, max_staleness=STALENESS)
        wrong += check(outcome_of(directory), whole, missing, STALENESS)

    assert wrong == []
    assert deaths > 0
    assert whole.age == 1
    assert (whole.batches, whole.scenarios) == (kills.whole.batches, kills.whole.scenarios)
