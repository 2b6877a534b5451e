"""The supervised warm-up, through ART's `model.train_sft`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import art
import pytest

from artkit.backends.torch.demonstrations import demonstrated_sequences
from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.errors import BackendError, ConfigurationError

if TYPE_CHECKING:
    from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Sample = Callable[..., Awaitable[Any]]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]


def demonstration(prompt: str, *replies: str) -> art.Trajectory:
    messages = [{"role": "user", "content": prompt}]
    for reply in replies:
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "go on"}]
    return art.Trajectory(messages_and_choices=messages[:-1], reward=1.0)


def test_only_the_assistants_turns_are_learnt() -> None:
    """The model must learn to answer, not to ask."""
    tokenizer = MicroTokenizer()
    (sequence,) = demonstrated_sequences(demonstration("ask", "one", "two"), tokenizer)

    learnt = [sequence.token_ids[place] for place in sequence.targets]

    assert tokenizer.decode(sequence.token_ids) == "askonego ontwo"
    assert tokenizer.decode(learnt) == "onetwo"
    assert [i for i in learnt if i in tokenizer.end_ids] == list(tokenizer.end_ids) * 2


def test_only_the_last_turn_is_learnt_where_that_is_asked_for() -> None:
    """ART 0.5.23's `assistant_turns="last"`."""
    tokenizer = MicroTokenizer()
    (sequence,) = demonstrated_sequences(demonstration("ask", "one", "two"), tokenizer, last_turn_only=True)

    assert tokenizer.decode([sequence.token_ids[place] for place in sequence.targets]) == "two"


async def test_demonstrations_teach(model: Model, sample: Sample) -> None:
    """One call is one step, whatever the number of batches."""
    demonstrations = [demonstration(f"say {letter}", letter) for letter in "abcd" * 30]

    await model.train_sft(demonstrations, art.TrainSFTConfig(learning_rate=5e-3, batch_size=8))

    assert await model.get_step() == 1
    replies = [
        (await sample(model, f"say {letter}", seed=seed)).message.content for letter in "abcd" for seed in range(5)
    ]
    assert sum(reply == letter for reply, letter in zip(replies, "aaaaabbbbbcccccddddd", strict=True)) >= 15


async def test_each_batch_has_metrics_while_the_training_runs(model: Model, backend: TorchBackend) -> None:
    """ART logs them as they come, at the step that will be."""
    steps, losses = [], []
    config = art.TrainSFTConfig(learning_rate=[1e-2, 5e-3, 0.0], batch_size=4)
    async for metrics in backend._train_sft(model, [demonstration("a", "b")] * 10, config, {}):
        steps.append(await model.get_step())
        losses.append(metrics["loss/train"])
        rate = metrics["loss/learning_rate"]

    assert (steps, await model.get_step(), rate) == ([0, 0, 0], 1, 0.0)
    assert losses[0] > losses[1] > losses[2]


async def test_reinforcement_follows_supervision(model: Model, backend: TorchBackend, play: Play) -> None:
    """The policy's optimiser begins where the demonstrations ended, without their momentum."""
    await model.train_sft([demonstration("a", "b")] * 4, art.TrainSFTConfig(learning_rate=1e-3))

    result = await backend.train(
        model, await play(model, lambda prompt, reply: float(len(reply)) + ord(reply[:1] or "a"))
    )

    assert result.step == 2
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4


async def test_a_warm_up_that_is_given_up_is_taken_back(
    model: Model, backend: TorchBackend, sample: Sample, play: Play
) -> None:
    """Half of it must not be in the next step."""
    config = art.TrainSFTConfig(learning_rate=0.5, batch_size=2)
    batches = backend._train_sft(model, [demonstration("a", "b")] * 8, config, {})
    await anext(batches)
    await batches.aclose()  # type: ignore[attr-defined]
    before = await sample(model, "hello", seed=1, tokens=20)

    await backend.train(model, await play(model, lambda prompt, reply: float(sum(map(ord, reply)))), learning_rate=0.0)

    assert (await sample(model, "hello", seed=1, tokens=20)).message.content == before.message.content


async def test_no_demonstrations_are_no_step(model: Model) -> None:
    """Nothing was learnt."""
    await model.train_sft([])

    assert await model.get_step() == 0


async def test_demonstrations_without_a_reply_are_refused(model: Model) -> None:
    """There is nothing in them to learn."""
    with pytest.raises(BackendError, match="nothing to learn"):
        await model.train_sft([art.Trajectory(messages_and_choices=[{"role": "user", "content": "hi"}], reward=0.0)])


async def test_a_demonstration_that_cannot_be_rendered_is_refused(model: Model) -> None:
    """Silently without its tool call it would teach something else."""
    function = {"name": "look", "arguments": "{}"}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    asked: dict[str, Any] = {"role": "user", "content": "hi"}
    called = art.Trajectory(messages_and_choices=[asked, call], reward=0.0)
    tools: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    offered = art.Trajectory(
        messages_and_choices=[asked, {"role": "assistant", "content": "a"}], tools=tools, reward=0.0
    )

    with pytest.raises(BackendError, match=r"messages\[1\].tool_calls: not supported"):
        await model.train_sft([called])
    with pytest.raises(BackendError, match="tools: not supported"):
        await model.train_sft([offered])


async def test_too_few_learning_rates_are_refused(model: Model) -> None:
    """Before the first batch."""
    with pytest.raises(ConfigurationError, match="1 learning rates for 2 batches"):
        await model.train_sft([demonstration("a", "b")] * 4, art.TrainSFTConfig(learning_rate=[1e-3], batch_size=2))


async def test_a_demonstration_beyond_the_window_is_left_out_and_counted(model: Model, backend: TorchBackend) -> None:
    """As LocalBackend does."""
    demonstrations = [demonstration("a", "b"), demonstration("a" * 3000, "b")]
    metrics = [m async for m in backend._train_sft(model, demonstrations, art.TrainSFTConfig(), {})]

    assert [m["data/step_num_dropped_trajectories"] for m in metrics] == [1.0]


async def test_the_history_has_one_row_for_the_warm_up(model: Model, tmp_path: Path) -> None:
    """At the step that it made, on either ART version."""
    await model.train_sft([demonstration("a", "b")] * 4, art.TrainSFTConfig(batch_size=2))

    rows = (Path(model._get_output_dir()) / "history.jsonl").read_text().splitlines()

    assert any('"step": 1' in row or '"step":1' in row for row in rows)
