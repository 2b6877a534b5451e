"""A local Hugging Face directory as the base model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import art
import openai
import pytest
import torch
import transformers
from safetensors.torch import load_file

from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.backends.torch import TorchBackend

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def base_model(make_base_model: Callable[..., Path]) -> Path:
    """A tiny random Llama with ChatML."""
    return make_base_model(CHATML)


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return len(reply) + 0.001 * sum(map(ord, reply))


async def test_it_is_served_trained_and_saved(
    backend: TorchBackend, make_model: Any, base_model: Path, play: Play, find: Callable[[str], list[Path]]
) -> None:
    """The step that was made is a Hugging Face directory again."""
    model = make_model(base_model=str(base_model))
    await model.register(backend)

    result = await backend.train(model, await play(model, length, members=8), learning_rate=1e-3)

    (checkpoint,) = find("0001")
    trained, base = load_file(checkpoint / "model.safetensors"), load_file(base_model / "model.safetensors")
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4
    assert trained.keys() == base.keys()
    assert all(not torch.equal(trained[name], base[name]) for name in trained)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    assert tokenizer.chat_template == CHATML
    assert transformers.AutoConfig.from_pretrained(checkpoint).model_type == "llama"


async def test_a_reply_holds_what_was_sampled(backend: TorchBackend, make_model: Any, base_model: Path) -> None:
    """Bytes that are half a character have no text of their own, and padded ids are never drawn."""
    model = make_model(base_model=str(base_model))
    await model.register(backend)
    async with openai.DefaultAioHttpClient() as http_client:
        client = model.openai_client().with_options(http_client=http_client, max_retries=0)
        reply = await client.chat.completions.create(
            model=model.get_inference_name(),
            messages=[{"role": "user", "content": "hello"}],
            max_completion_tokens=60,
            logprobs=True,
            seed=0,
        )
        with pytest.raises(openai.BadRequestError, match="maximum context length is 256"):
            await client.chat.completions.create(
                model=model.get_inference_name(), messages=[{"role": "user", "content": "!?" * 200}]
            )

    tokenizer = transformers.AutoTokenizer.from_pretrained(base_model)
    extra = reply.choices[0].model_extra or {}
    assert tokenizer.decode(extra["prompt_token_ids"]) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert reply.choices[0].message.content == tokenizer.decode(extra["token_ids"], skip_special_tokens=True)
    assert max(extra["token_ids"]) < len(tokenizer)
    for token in reply.choices[0].logprobs.content:  # type: ignore[union-attr]
        bytes(token.bytes or []).decode()


async def test_turns_of_an_episode_are_one_sequence(
    backend: TorchBackend, make_model: Any, base_model: Path, sample: Callable[..., Awaitable[Any]]
) -> None:
    """Also where the template writes a line break that nobody sampled."""
    model = make_model(base_model=str(base_model))
    await model.register(backend)
    demonstrations = [
        art.Trajectory(
            messages_and_choices=[
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "one"},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "two"},
            ],
            reward=1.0,
        )
    ] * 40
    await model.train_sft(demonstrations, art.TrainSFTConfig(learning_rate=5e-3, batch_size=2))

    first = await sample(model, "hello", tokens=20)
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": first.message.content}]
    second = await sample(model, [*messages, {"role": "user", "content": "hello"}], tokens=20)

    before = first.model_extra["prompt_token_ids"] + first.model_extra["token_ids"]
    assert (first.message.content, second.message.content) == ("one", "two")
    assert second.model_extra["prompt_token_ids"][: len(before)] == before


def remove(directory: Path, prefix: str) -> None:
    for file in directory.glob(f"{prefix}*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("chat_template.jinja", "chat template"),
        ("tokenizer", "tokenizer"),
        ("config.json", "configuration"),
        ("model.safetensors", "safetensors"),
    ],
)
async def test_a_directory_that_lacks_something_is_refused(
    backend: TorchBackend, make_model: Any, base_model: Path, damage: str, named: str
) -> None:
    """With the name of what is missing."""
    remove(base_model, damage)

    with pytest.raises(ConfigurationError, match=named):
        await make_model(base_model=str(base_model)).register(backend)
