"""A recording that grows, and one in many forms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import art
import pytest

from artkit.episodes import (
    Episode,
    FailureKind,
    FailureRecord,
    iter_episodes,
    load_groups,
    read_groups,
    record,
    write_groups,
)
from artkit.errors import ConfigurationError
from artkit.scenarios import Scenario
from artkit.testing import choice, episode

RUN = """
import sys
from artkit.episodes import record
from artkit.testing import choice, episode
with record(sys.argv[1]) as recording:
    played = 0
    for member in range(10):
        if ("s", member) in recording.finished:
            continue
        if played == int(sys.argv[2]):
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        one = episode("hi", choice(f"reply {member}"))
        one.metadata["scenario_id"], one.member = "s", member
        recording.add(one)
        played += 1
    print(played)
"""


def named(name: str, member: int = 0, reward: float = 0.0) -> Episode:
    one = episode("hi", choice(f"{name} {member}"), reward=reward)
    one.metadata["scenario_id"], one.member = name, member
    return one


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "episodes.jsonl"


@pytest.mark.timeout(180)
def test_a_run_that_was_killed_plays_only_what_is_missing(tmp_path: Path) -> None:
    """A long evaluation that dies near its end must not cost all of it."""
    path = tmp_path / "episodes.jsonl"

    def run(dies_after: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RUN, str(path), str(dies_after)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    killed = run(7)
    with path.open("ab") as file:
        file.write(b'{"format": 1, "place": "alone", "epi')
    finished = run(99)

    assert (killed.returncode, finished.stdout) == (-9, "3\n")
    [group], lost = read_groups(path)
    assert ([member.member for member in group.trajectories], lost) == (list(range(10)), [])  # type: ignore[attr-defined]


def test_episodes_come_back_in_one_group_per_scenario(path: Path) -> None:
    """They were played one by one, and are compared with their siblings."""
    episodes = [named("a"), named("b"), named("a", 1)]

    with record(path) as recording:
        for one in episodes:
            recording.add(one)

    groups, lost = read_groups(path)
    assert [group.metadata for group in groups] == [{"scenario_id": "a"}, {"scenario_id": "b"}]
    assert [group.trajectories for group in groups] == [[episodes[0], episodes[2]], [episodes[1]]]
    assert lost == []


def test_groups_are_added_as_they_are(path: Path) -> None:
    """A loop that gathers groups records them so, over as many sessions as it takes."""
    group = art.TrajectoryGroup([named("a"), named("a", 1)], metadata={"scenario_id": "a"}, metrics={"m": 1.0})
    other = art.TrajectoryGroup([named("b")], metadata={"scenario_id": "b"})
    failed = named("b", 1)
    failed.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")

    with record(path) as recording:
        recording.add(group)
    with record(path) as recording:
        recording.add(other)
        recording.add(failed)
        finished = recording.finished

    assert read_groups(path) == ([group, other], [failed])
    assert finished == {("a", 0), ("a", 1), ("b", 0)}


def test_what_failed_is_not_finished(path: Path) -> None:
    """It is to be played again."""
    failed = named("a")
    failed.failure = FailureRecord(kind=FailureKind.INFRASTRUCTURE, type="ConnectionError", message="refused")
    kept = named("a", 1)
    kept.failure = failed.failure

    with record(path) as recording:
        recording.add(failed)
        recording.add(kept, is_lost=False)

    with record(path) as recording:
        assert recording.finished == {("a", 1)}


def test_a_last_line_without_its_end_is_kept_where_it_is_whole(path: Path) -> None:
    """Only the line's end was lost."""
    with record(path) as recording:
        recording.add(named("a"))
    path.write_bytes(path.read_bytes()[:-1])

    with record(path) as recording:
        recording.add(named("a", 1))

    assert len(read_groups(path)[0][0].trajectories) == 2


def test_a_full_disk_costs_one_episode_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line before the next one would spoil both."""
    with record(path) as recording:
        recording.add(named("a"))
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", _full_disk)
            with pytest.raises(OSError, match="no space"):
                recording.add(named("a", 1))
        recording.add(named("a", 2))

    assert [one.member for one in read_groups(path)[0][0].trajectories] == [0, 2]  # type: ignore[attr-defined]


def test_a_growing_recording_is_the_users_own(path: Path) -> None:
    """Episodes may hold what customers wrote."""
    with record(path):
        pass

    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ['{"name": "Ada"}\n', "a line of notes", "a line of notes\n"])
def test_what_is_no_recording_is_left_alone(path: Path, content: str) -> None:
    """Somebody mistyped the name of a file that they need."""
    path.parent.mkdir()
    path.write_text(content)

    with pytest.raises(ConfigurationError, match="is no recording"):
        record(path)

    assert path.read_text() == content


@pytest.mark.parametrize("tail", [b'{"format": 1, "place": "al\n', bytes(100), bytes(100) + b"\n"])
def test_a_broken_last_line_is_cut_off_however_it_ends(path: Path, tail: bytes) -> None:
    """A machine that lost its power leaves zeros, and an editor adds a line's end; what comes next must be readable."""
    with record(path) as recording:
        recording.add(named("a"))
    path.write_bytes(path.read_bytes() + tail)

    with record(path) as recording:
        recording.add(named("a", 1))

    assert [one.member for one in read_groups(path)[0][0].trajectories] == [0, 1]  # type: ignore[attr-defined]


def test_a_closed_recorder_takes_nothing(path: Path) -> None:
    """What it took would be lost."""
    recording = record(path)
    recording.close()
    recording.close()

    with pytest.raises(ValueError, match="is closed"):
        recording.add(named("a"))


def test_episodes_are_read_one_by_one(path: Path) -> None:
    """A recording of a whole run need not fit into memory; a broken line is met when its turn comes."""
    write_groups(path, [art.TrajectoryGroup([named("a"), named("a", 1)])], [named("b")])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"{broken\n", *lines[2:]]))

    episodes = iter_episodes(path)

    assert next(episodes).metadata == {"scenario_id": "a"}
    with pytest.raises(ValueError, match="Expecting"):
        next(episodes)


def test_recordings_are_taken_in_any_form(path: Path) -> None:
    """A path, several, groups, episodes: what is at hand."""
    group = art.TrajectoryGroup([named("a")], metadata={"scenario_id": "a"})
    lost = named("a", 1)
    lost.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")
    write_groups(path, [group], [lost])

    everything = [str(path), read_groups(path), [group, lost], lost, named("b")]

    names = [(one.metadata["scenario_id"], one.member) for one in iter_episodes(everything)]  # type: ignore[attr-defined]
    assert names == [("a", 0), ("a", 1), ("a", 0), ("a", 1), ("a", 0), ("a", 1), ("a", 1), ("b", 0)]
    groups, lost_ones = load_groups(everything)
    assert [each.metadata["scenario_id"] for each in groups] == ["a", "a", "a", "b"]
    assert [one.member for one in lost_ones] == [1, 1, 1, 1]  # type: ignore[attr-defined]


def test_scenario_objects_reach_episodes_that_were_loaded_before(path: Path) -> None:
    """A class that is not loaded, or a file that another program wrote, leaves fields; what was given stays as it is."""
    one = named("a")
    one.scenario = {"id": "a"}
    lost = named("a", 1)
    lost.scenario, lost.failure = {"id": "a"}, FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="")
    scenario = Scenario(id="a")

    episodes = list(iter_episodes([art.TrajectoryGroup([one]), lost], [scenario]))
    groups, lost_ones = load_groups([art.TrajectoryGroup([one]), lost], [scenario])

    assert [each.scenario for each in [*episodes, *groups[0].trajectories, *lost_ones]] == [scenario] * 4  # type: ignore[attr-defined]
    assert one.scenario == lost.scenario == {"id": "a"}


def test_what_is_no_recording_is_refused() -> None:
    """To read nothing from it in silence would pass for an empty recording."""
    with pytest.raises(ConfigurationError, match="3 is no recording"):
        list(iter_episodes(3))  # type: ignore[arg-type]  # that is what is wrong


def _full_disk(descriptor: int) -> None:
    raise OSError("no space left on device")
