"""An episode among ART's own objects."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import art
import pyarrow.parquet as pq
import pytest

from artkit.episodes import Episode, FailureKind, FailureRecord, StopReason
from artkit.scenarios import Scenario
from artkit.testing import choice

OWN_FIELDS = ("scenario", "outcome", "stop_reason", "environment_reward", "failure", "member")


def whole_episode() -> Episode:
    return Episode(
        messages_and_choices=[{"role": "user", "content": "2+3="}, choice("5")],
        reward=1.0,
        scenario=Scenario(id="2+3"),
        outcome={"answer": 5},
        stop_reason=StopReason.DONE,
        environment_reward=0.5,
        failure=FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'"),
        member=2,
    )


def logged_columns(path: Path) -> set[str]:
    [file] = path.rglob("*.parquet")
    return set(pq.read_schema(file).names)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda episode: pickle.loads(pickle.dumps(episode)), lambda e: e.model_copy(deep=True)],
    ids=["copy", "deepcopy", "pickle", "model_copy"],
)
def test_a_copy_remembers_where_it_came_from(copied) -> None:
    """ART and its backends copy and pickle trajectories on their way to the trainer."""
    episode = whole_episode()

    assert copied(episode) == episode


def test_a_group_keeps_the_very_object() -> None:
    """A group that rebuilt its members would forget their scenarios."""
    episode = whole_episode()

    assert art.TrajectoryGroup([episode]).trajectories[0] is episode


def test_what_arts_log_and_upload_get_holds_none_of_our_fields() -> None:
    """A scenario may hold the label, or what is nobody's business outside this machine."""
    dumped = whole_episode().model_dump()

    assert set(OWN_FIELDS).isdisjoint(dumped)


async def test_arts_log_takes_an_episode_and_writes_none_of_our_fields(tmp_path: Path) -> None:
    """The log is where a field that ART doesn't know would break or leak."""
    model = art.Model(name="m", project="p", base_path=str(tmp_path), report_metrics=[])

    await model.log([art.TrajectoryGroup([whole_episode()])], split="train", step=0)

    columns = logged_columns(tmp_path)
    assert "reward" in columns
    assert set(OWN_FIELDS).isdisjoint(columns)
