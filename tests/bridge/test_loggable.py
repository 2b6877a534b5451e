"""Groups in a form that ART's log can neither fail on nor misreport."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import art
import numpy as np
import pytest

from artkit.bridge import loggable, make_trainable_model, storage_dir
from artkit.testing import DiaryBackend, Reply, choice, episode

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

LONE = "half an emoji \ud83d"
PICTURE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ],
}


def group(*trajectories: art.Trajectory, **fields: Any) -> art.TrajectoryGroup:
    """A group as it is when something was put into it after it was made, which ART does not check."""
    made = art.TrajectoryGroup(list(trajectories), metadata={"scenario_id": "s"})
    for name, value in fields.items():
        getattr(made, name).update(value) if isinstance(value, dict) else getattr(made, name).extend(value)
    return made


def spoilt(**fields: Any) -> art.Trajectory:
    trajectory = episode("q", choice("a"), reward=1.0)
    for name, value in fields.items():
        if isinstance(value, dict):
            getattr(trajectory, name).update(value)
        elif name == "logs":
            trajectory.logs.extend(value)
        else:
            trajectory.__dict__[name] = value
    return trajectory


def odd_choice(**changes: Any) -> Choice:
    """A reply as the OpenAI client builds it from a server that keeps to its own words: nothing is checked."""
    return choice("a").model_copy(update=changes)


def sampled(**changes: Any) -> Choice:
    """A reply of two tokens, the second of which is changed."""
    made = choice(Reply("ab", logprobs=[-0.1, -0.2]))
    assert made.logprobs is not None
    assert made.logprobs.content is not None
    made.logprobs.content[1].__dict__.update(changes)
    return made


def exception(message: str) -> Any:
    (record,) = art.TrajectoryGroup([ValueError("x")]).exceptions
    return record.model_copy(update={"message": message})


SPOILT: dict[str, art.TrajectoryGroup] = {
    "surrogate in a reply": group(episode("q", choice(LONE))),
    "surrogate in a message": group(episode(LONE, choice("a"))),
    "surrogate in arguments": group(episode("q", choice(Reply(tool_calls=[("f", LONE)])))),
    "surrogate in metadata": group(spoilt(metadata={"note": LONE})),
    "surrogate in logs": group(spoilt(logs=[LONE])),
    "surrogate in an exception": group(spoilt(), exceptions=[exception(LONE)]),
    "surrogate in group metadata": group(spoilt(), metadata={"note": LONE}),
    "metric None": group(spoilt(metrics={"x": None})),
    "metric text": group(spoilt(metrics={"x": "high"})),
    "metric infinite": group(spoilt(metrics={"x": math.inf})),
    "metric of NumPy": group(spoilt(metrics={"x": np.float32(1)})),
    "metric in the old spelling": group(spoilt(metrics={"costs_x": 1.0})),
    "group metric None": group(spoilt(), metrics={"x": None}),
    "metadata object": group(spoilt(metadata={"x": object()})),
    "metadata list": group(spoilt(metadata={"x": [1]})),
    "log that is no text": group(spoilt(logs=[3])),
    "reward of NumPy": group(spoilt(reward=np.float32(1))),
    "reward NaN": group(spoilt(reward=math.nan), spoilt()),
    "reward None": group(spoilt(reward=None), spoilt()),
    "picture": group(episode(PICTURE, choice("a"))),  # type: ignore[arg-type]
    "message with an object": group(episode({"role": "user", "content": "q", "x": object()}, choice("a"))),  # type: ignore[typeddict-unknown-key]
    "unheard-of finish reason": group(episode("q", odd_choice(finish_reason="abort"))),
    "surrogate in a sampled token": group(episode("q", sampled(token=LONE), reward=1.0)),
    "surrogate in an alternative": group(episode("q", sampled(top_logprobs=[{"token": LONE}]), reward=1.0)),
    "sampled token None": group(episode("q", sampled(token=None), reward=1.0)),
    "log probability None": group(episode("q", sampled(logprob=None), reward=1.0)),
    "log probability infinite": group(episode("q", sampled(logprob=-math.inf), reward=1.0)),
    "bytes that are text": group(episode("q", sampled(bytes="b"), reward=1.0)),
    "bytes of text": group(episode("q", sampled(bytes=["b"]), reward=1.0)),
    "tools with an object": group(spoilt(tools=[{"type": "function", "function": {"name": "f", "x": object()}}])),
}  # fmt: skip


async def logged(groups: list[art.TrajectoryGroup], tmp_path: Path) -> dict[str, Any]:
    """Return the row that ART writes for `groups`."""
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    await model.register(DiaryBackend())
    await model.log(groups, split="val", step=0)
    (line,) = (storage_dir(model) / "history.jsonl").read_text().splitlines()
    return json.loads(line, parse_constant=pytest.fail)  # type: ignore[no-any-return]


@pytest.mark.parametrize("spoilt_group", SPOILT.values(), ids=SPOILT)
async def test_art_logs_what_it_would_have_failed_on(spoilt_group: art.TrajectoryGroup, tmp_path: Path) -> None:
    """The rollouts were paid for; one odd value must not lose the step's log."""
    row = await logged(loggable([spoilt_group]), tmp_path)

    assert row["val/reward"] == (0.0 if spoilt_group.trajectories[0].reward == 0.0 else 1.0)


@pytest.mark.parametrize("spoilt_group", SPOILT.values(), ids=SPOILT)
def test_the_original_is_untouched(spoilt_group: art.TrajectoryGroup) -> None:
    """It is still to be trained on and recorded."""
    before = snapshot(spoilt_group)
    loggable([spoilt_group])

    assert snapshot(spoilt_group) == before


def snapshot(any_group: art.TrajectoryGroup) -> list[str]:
    """Everything in a group, down to the identity of what has no better `repr`."""
    return [repr(vars(any_group)), *(repr(vars(trajectory)) for trajectory in any_group.trajectories)]


def test_what_is_fine_is_returned_as_it_is() -> None:
    """Copies of a thousand episodes would cost time and memory for nothing."""
    fine = group(episode("q", choice("a"), metrics={"turns": 1, "won": True}), exceptions=[exception("late")])

    (safe,) = loggable([fine])

    assert safe is fine


def test_a_reply_with_its_log_probabilities_is_fine() -> None:
    """Every reply that is trained on has them."""
    bare = sampled(bytes=None)
    fine = group(episode("q", sampled()), episode("q", bare), episode("q", choice(Reply("a", token_ids=[1]))))

    (safe,) = loggable([fine])

    assert safe is fine


def test_only_the_member_that_needs_it_is_copied() -> None:
    """Its siblings are the same objects."""
    fine, bad = episode("q", choice("a")), spoilt(metrics={"x": None})

    (safe,) = loggable([group(fine, bad)])

    assert (safe.trajectories[0] is fine, safe.trajectories[1] is bad) == (True, False)


def test_the_copy_keeps_everything_else() -> None:
    """Exceptions, metadata, metrics and logs of a group survive."""
    bad = group(
        spoilt(metrics={"x": None, "turns": 2}, metadata={"scenario_id": "s"}),
        exceptions=[exception("late")],
        metrics={"spread": 0.5},
        logs=["note"],
    )

    (safe,) = loggable([bad])

    assert (safe.exceptions, safe.metadata, safe.metrics, safe.logs) == (
        bad.exceptions,
        {"scenario_id": "s"},
        {"spread": 0.5},
        ["note"],
    )
    assert (safe.trajectories[0].metrics, safe.trajectories[0].metadata) == ({"turns": 2}, {"scenario_id": "s"})


def test_texts_keep_everything_but_the_lone_surrogate() -> None:
    """A whole emoji stays one."""
    (safe,) = loggable([group(episode("q", choice(LONE + " 😀")))])

    reply: Any = safe.trajectories[0].messages_and_choices[-1]

    assert reply["message"]["content"] == "half an emoji \ufffd 😀"


async def test_a_metric_called_reward_does_not_move_the_reward(tmp_path: Path) -> None:
    """0.5.18 averages it in, and checkpoints would be ranked by a number that is no reward."""
    row = await logged(loggable([group(spoilt(metrics={"reward": 9.0}))]), tmp_path)

    assert (row["val/reward"], row["val/metric_reward"]) == (1.0, 9.0)


async def test_a_member_without_a_finite_reward_counts_as_an_exception(tmp_path: Path) -> None:
    """Its reward enters no mean, and it is not forgotten either."""
    row = await logged(loggable([group(spoilt(), spoilt(reward=math.nan))]), tmp_path)

    assert (row["val/reward"], row["val/exception_rate"]) == (1.0, 0.5)


def test_metadata_that_is_no_scalar_becomes_its_json() -> None:
    """A reader of the log still sees what it was."""
    (safe,) = loggable([group(spoilt(metadata={"cells": [1, {"a": None}], "ratio": math.inf, "size": np.int64(3)}))])

    assert safe.trajectories[0].metadata == {"cells": '[1, {"a": null}]', "ratio": "inf", "size": 3}


async def test_a_trajectory_of_plain_art_is_handled_alike(tmp_path: Path) -> None:
    """The blocks work alone in anybody's ART script, hand-written replies and histories included."""
    trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": LONE}, choice("a")], reward=1.0)
    history = {"messages_and_choices": [{"role": "user", "content": LONE}, choice("b")]}
    with_history = art.Trajectory.model_validate({"additional_histories": [history], "reward": 1.0})

    row = await logged(loggable([group(trajectory, with_history)]), tmp_path)

    assert row["val/reward"] == 1.0
