"""What artkit relies on in ART, held against the version that is installed.

A failure here says that ART has changed under artkit, before anything else says it less clearly.
"""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import art
import numpy as np
import pytest
from art.backend import Backend
from art.trajectories import PydanticException

from artkit.bridge import make_trainable_model, storage_dir
from artkit.episodes import Episode, StopReason
from artkit.testing import ChatServer, DiaryBackend, choice, episode

PROTOCOL = {
    "_model_inference_name",
    "close",
    "register",
    "_get_step",
    "_delete_checkpoint_files",
    "_prepare_backend_for_training",
    "train",
    "_train_sft",
}
SINCE_0_5_23 = {"exact_adapter_lease"}


async def registered(tmp_path: Path, server: ChatServer | None = None) -> art.TrainableModel[Any, Any]:
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    await model.register(DiaryBackend(server))
    return model


async def row(tmp_path: Path, *groups: art.TrajectoryGroup, **arguments: Any) -> dict[str, Any]:
    """Return the line that `model.log` writes into the history."""
    model = await registered(tmp_path)
    await model.log(groups or None, **arguments)
    (line,) = (storage_dir(model) / "history.jsonl").read_text().splitlines()
    return json.loads(line)  # type: ignore[no-any-return]


def two(reward: float = 1.0) -> art.TrajectoryGroup:
    return art.TrajectoryGroup(
        [episode("q", choice("a"), reward=reward), episode("q", choice("b"), reward=0.0)],
        metadata={"scenario_id": "s"},
    )


def test_the_backend_protocol_is_the_one_that_we_implement() -> None:
    """A new method would be missing on every backend of ours."""
    methods = {name for name in vars(Backend) if not name.startswith(("__", "_abc", "_is_"))}

    assert methods - SINCE_0_5_23 == PROTOCOL


async def test_a_registered_model_takes_its_endpoint_and_step_from_the_backend(tmp_path: Path) -> None:
    """Sampling and resuming start from these."""
    async with ChatServer([]) as server:
        model = await registered(tmp_path, server)
        endpoint = (model.inference_base_url, model.inference_api_key, model.get_inference_name())

        assert (endpoint, await model.get_step()) == ((server.base_url, server.api_key, "agent"), 0)


def test_an_unregistered_model_says_so_with_a_value_error() -> None:
    """What sessions take for "sample over HTTP"."""
    with pytest.raises(ValueError, match="register"):
        art.Model[Any, Any](name="m", project="p").backend()


def test_a_group_of_finished_trajectories_is_made_at_once_and_in_order() -> None:
    """Not an awaitable; the members are the same objects."""
    members = [episode("q", choice("a")), episode("q", choice("b"))]
    group = art.TrajectoryGroup(members)

    assert isinstance(group, art.TrajectoryGroup)
    assert [each is member for each, member in zip(group.trajectories, members, strict=True)] == [True, True]


def test_an_empty_group_keeps_what_was_lost() -> None:
    """The exceptions of a scenario whose rollouts all failed."""
    group = art.TrajectoryGroup([], metadata={"scenario_id": "s"})
    group.exceptions = [PydanticException(type="ValueError", message="x", traceback="")]

    assert (group.trajectories, len(group.exceptions), group.metadata) == ([], 1, {"scenario_id": "s"})


def test_the_exceptions_of_a_group_can_be_set_to_records() -> None:
    """0.5.18 takes no records when a group is made; setting them works in both."""
    group, other = art.TrajectoryGroup([ValueError("x")]), two()
    other.exceptions = list(group.exceptions)

    assert [exception.message for exception in other.exceptions] == ["x"]


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_an_episode_survives_being_copied_with_everything_it_remembers(copier: Any) -> None:
    """Its fields beyond ART's are excluded from logs, not from copies."""
    original = Episode(
        messages_and_choices=[{"role": "user", "content": "q"}, choice("a")],
        scenario={"id": "s"},
        outcome=[1],
        stop_reason=StopReason.DONE,
        member=2,
    )
    copied = copier(original)

    assert (type(copied), copied.scenario, copied.outcome, copied.stop_reason, copied.member) == (
        Episode,
        {"id": "s"},
        [1],
        StopReason.DONE,
        2,
    )


def test_what_an_episode_remembers_is_not_uploaded() -> None:
    """ART dumps whole groups to its service and its log."""
    added = {"scenario", "outcome", "stop_reason", "environment_reward", "failure", "member"}

    assert (
        added & set(art.TrajectoryGroup([episode("q", choice("a"), outcome=1)]).model_dump()["trajectories"][0])
        == set()
    )


async def test_a_logged_split_has_its_reward_under_the_splits_name(tmp_path: Path) -> None:
    """What checkpoints are ranked by."""
    logged = await row(tmp_path, two(), split="val", step=3)

    assert {key: logged[key] for key in ("step", "training_step", "val/reward", "val/exception_rate")} == {
        "step": 3,
        "training_step": 3,
        "val/reward": 0.5,
        "val/exception_rate": 0.0,
    }


async def test_exceptions_count_in_the_exception_rate(tmp_path: Path) -> None:
    """One lost of three."""
    group = two()
    group.exceptions = [PydanticException(type="ValueError", message="x", traceback="")]

    assert (await row(tmp_path, group, split="train", step=1))["train/exception_rate"] == pytest.approx(1 / 3)


async def test_metrics_of_trajectories_are_averaged_over_those_that_have_them(tmp_path: Path) -> None:
    """Numbers and bools; a missing one is not a zero."""
    group = two()
    group.trajectories[0].metrics.update(turns=3, won=True)
    group.trajectories[1].metrics.update(turns=5)
    logged = await row(tmp_path, group, split="train", step=1)

    assert (logged["train/turns"], logged["train/won"]) == (4.0, 1.0)


async def test_metrics_given_to_log_join_the_row(tmp_path: Path) -> None:
    """Those of ART's own sections keep their names."""
    logged = await row(tmp_path, two(), split="train", step=1, metrics={"loss/train": 0.5, "lost": 2.0})

    assert (logged["loss/train"], logged["train/lost"]) == (0.5, 2.0)


async def test_scenarios_are_counted_by_their_id_in_the_groups_metadata(tmp_path: Path) -> None:
    """Every group carries it."""
    logged = await row(tmp_path, two(), two(), split="train", step=1)

    assert (logged["data/step_num_groups_submitted"], logged["data/cum/num_unique_scenarios"]) == (2.0, 1.0)


async def test_a_group_without_variance_counts_as_untrainable(tmp_path: Path) -> None:
    """ART's own count, which the filters must agree with."""
    logged = await row(tmp_path, two(1.0), two(0.0), split="train", step=1)

    assert logged["data/step_num_groups_trainable"] == 1.0


async def test_trajectories_are_written_beside_the_history(tmp_path: Path) -> None:
    """One file per split and step."""
    model = await registered(tmp_path)
    await model.log([two()], split="val", step=7)

    assert (storage_dir(model) / "trajectories" / "val" / "0007.parquet").is_file()


async def test_the_clients_with_options_keeps_art_s_wrapping(tmp_path: Path) -> None:
    """Another transport under it, and costs and token ids still on top."""
    async with ChatServer([]) as server:
        model = await registered(tmp_path, server)
        client = model.openai_client()
        other = client.with_options(max_retries=0)
        await client.close()

    assert type(other) is type(client)


async def test_the_client_is_made_once_and_kept_in_a_known_place(tmp_path: Path) -> None:
    """Where a watched copy puts its own."""
    async with ChatServer([]) as server:
        model = await registered(tmp_path, server)
        client = model.openai_client()
        await client.close()

    assert (model.openai_client() is client, model._openai_client is client) == (True, True)


async def test_a_copied_model_shares_cost_accounting_with_its_original(tmp_path: Path) -> None:
    """What a watched rollout costs is booked on the run."""
    model = await registered(tmp_path)

    assert model.model_copy().metrics_builder("train")._shared_state is model.metrics_builder("train")._shared_state


def test_train_results_hold_step_and_metrics() -> None:
    """What every backend's train returns."""
    assert art.TrainResult(step=3, metrics={"loss/train": 0.5}).step == 3


def test_a_scripted_reply_is_trainable_for_the_installed_version() -> None:
    """Log probabilities in both; 0.5.23 also wants the ids of prompt and reply."""
    reply = choice("ab", prompt="q")
    try:
        from art.preprocessing.vllm_tokens import choice_vllm_token_metadata
    except ImportError:
        assert reply.logprobs is not None
    else:
        prompt_ids, ids = choice_vllm_token_metadata(reply) or ([], [])

        assert (bool(prompt_ids), ids) == (True, [97, 98])


def test_art_s_serverless_backend_keeps_its_client_where_we_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints are listed by it."""
    monkeypatch.setenv("WANDB_API_KEY", "not-a-key")
    backend = art.ServerlessBackend()

    assert "model_id" in inspect.signature(backend._client.models.checkpoints.list).parameters


def test_art_s_local_backend_is_where_we_look() -> None:
    """Read in its source: importing it needs torch."""
    source = (Path(inspect.getfile(art)).parent / "local" / "backend.py").read_text()

    assert ("class LocalBackend" in source, "self._path" in source) == (True, True)


async def test_one_number_of_numpy_s_still_fails_art_s_log(tmp_path: Path) -> None:
    """Should this pass one day, `loggable` can shed a rule."""
    group = two()
    group.trajectories[0].metrics["x"] = np.float32(1)  # type: ignore[assignment]
    with pytest.raises((TypeError, ValueError)):
        await row(tmp_path, group, split="train", step=1)
