"""A backend in a temporary directory, a small model to begin from, and the few moves that most tests make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import art
import pytest
import torch
import transformers
from openai.types.chat.chat_completion import Choice
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from artkit.backends.torch import TorchBackend
from artkit.transport import SamplingRequest

MakeModel = Callable[..., "art.TrainableModel[Any, Any]"]
Sample = Callable[..., Awaitable[Choice]]


@pytest.fixture(scope="session")
def make_base_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a tiny random Llama with a byte-level tokenizer, its vocabulary padded beyond the tokenizer's."""

    def make(
        template: str | dict[str, str],
        texts: Sequence[str] = ("user assistant system hello hello",),
        specials: Sequence[str] = (),
        window: int = 256,
    ) -> Path:
        directory = tmp_path_factory.mktemp("base")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            special_tokens=["<|im_start|>", "<|im_end|>", *specials],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
        fast.chat_template = template
        fast.save_pretrained(directory)
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=len(fast) + 50,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=window,
            tie_word_embeddings=False,
            initializer_range=0.3,
            eos_token_id=fast.eos_token_id,
        )
        transformers.LlamaForCausalLM(config).save_pretrained(directory)
        return directory

    return make


@pytest.fixture
def make_model() -> MakeModel:
    """Makes a model on either ART version: the newer one wants a run name."""

    def make(name: str = "agent", base_model: str = "artkit/micro", run: str = "run") -> art.TrainableModel[Any, Any]:
        names = {"run_name": run} if "run_name" in art.TrainableModel.model_fields else {}
        return art.TrainableModel(name=name, project="tests", base_model=base_model, report_metrics=[], **names)

    return make


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[TorchBackend]:
    """A backend that is closed whatever happens."""
    backend = TorchBackend(tmp_path)
    yield backend
    await backend.close()


@pytest.fixture
async def model(backend: TorchBackend, make_model: MakeModel) -> art.TrainableModel[Any, Any]:
    """A registered micro model."""
    model = make_model()
    await model.register(backend)
    return model


@pytest.fixture
def sample() -> Sample:
    """Asks a model, in process, for a reply that could be trained on."""

    async def ask(
        model: art.TrainableModel[Any, Any],
        messages: str | list[dict[str, Any]],
        seed: int = 0,
        name: str | None = None,
        tokens: int = 4,
    ) -> Choice:
        client = model.backend().sampling_client(model)  # type: ignore[attr-defined]
        request = SamplingRequest(
            model=name or model.get_inference_name(),
            messages=[{"role": "user", "content": messages}] if isinstance(messages, str) else messages,
            max_completion_tokens=tokens,
            seed=seed,
            logprobs=True,
        )
        return (await client.complete(request)).choices[0]

    return ask


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits for a condition that another thread makes true."""

    async def wait(condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 (it is true in another thread, which sets no asyncio event)
            await asyncio.sleep(0)

    return wait


@pytest.fixture
def find(tmp_path: Path) -> Callable[[str], list[Path]]:
    """Finds the files of the test's directory, in order of their paths."""
    return lambda pattern: sorted(tmp_path.rglob(pattern))


@pytest.fixture
def play(sample: Sample) -> Callable[..., Awaitable[list[art.TrajectoryGroup]]]:
    """Plays groups of one-turn episodes and rewards their replies."""

    async def episode(
        model: art.TrainableModel[Any, Any], prompt: str, reward: Callable[[str, str], float], seed: int
    ) -> art.Trajectory:
        choice = await sample(model, prompt, seed=seed)
        return art.Trajectory(
            messages_and_choices=[{"role": "user", "content": prompt}, choice],
            reward=reward(prompt, choice.message.content or ""),
        )

    async def groups(
        model: art.TrainableModel[Any, Any],
        reward: Callable[[str, str], float],
        prompts: Sequence[str] = ("a", "b"),
        members: int = 4,
        seed: int = 0,
    ) -> list[art.TrajectoryGroup]:
        played = await asyncio.gather(
            *(
                episode(model, prompt, reward, seed=1_000 * seed + 100 * place + member)
                for place, prompt in enumerate(prompts)
                for member in range(members)
            )
        )
        return [art.TrajectoryGroup(played[start : start + members]) for start in range(0, len(played), members)]

    return groups
