"""A real model: SmolLM2-135M-Instruct."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest
import torch
import transformers
from art.transformers import patches
from transformers import masking_utils

from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.smollm2 import smollm2_directory

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Sample = Callable[..., Awaitable[Any]]
QUESTION = "What is the capital of France? Answer in one word."

pytestmark = [
    pytest.mark.smollm2,
    pytest.mark.timeout(300),
    # peft asks transformers for it.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
]


@pytest.fixture(autouse=True)
def _unpatched_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing ART gives transformers a mask function of an older signature; its models need their own again."""
    monkeypatch.setattr(masking_utils, "_preprocess_mask_arguments", patches._preprocess_mask_arguments)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, converted; a developer may name a directory that holds it already."""
    return smollm2_directory(os.environ.get("ARTKIT_SMOLLM2") or tmp_path_factory.mktemp("models") / "smollm2")


@pytest.fixture
def hugging_face(smollm2: Path) -> Any:
    """The model in transformers."""
    return transformers.AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()


def logprobs(hugging_face: Any, choice: Any) -> torch.Tensor:
    """What transformers makes of the ids that were sampled."""
    prompt, reply = choice.model_extra["prompt_token_ids"], choice.model_extra["token_ids"]
    with torch.no_grad():
        scores = torch.log_softmax(hugging_face(torch.tensor([prompt + reply])).logits[0], dim=-1)
    return scores[len(prompt) - 1 : -1].gather(1, torch.tensor(reply)[:, None])[:, 0]


def sampled(choice: Any) -> torch.Tensor:
    return torch.tensor([token.logprob for token in choice.logprobs.content])


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


def checkpoint(path: Path, step: int) -> str:
    return str(next(path.rglob(f"{step:04d}")))


def test_it_is_converted_once(smollm2: Path) -> None:
    """A second call finds it, whatever is installed by then."""
    before = (smollm2 / "model.safetensors").stat()

    assert smollm2_directory(smollm2) == smollm2
    assert (smollm2 / "model.safetensors").stat() == before


async def test_it_answers_with_the_logprobs_of_transformers(
    tmp_path: Path, make_model: Any, sample: Sample, hugging_face: Any
) -> None:
    """Else whatever is learnt from them is learnt about another model."""
    async with TorchBackend(tmp_path, lora=LoraSettings()) as backend:
        model = make_model(base_model=hugging_face.name_or_path)
        await model.register(backend)
        choices = [await sample(model, QUESTION, seed=seed, tokens=24) for seed in range(2)]

    assert any("Paris" in choice.message.content for choice in choices)
    for choice in choices:
        torch.testing.assert_close(sampled(choice), logprobs(hugging_face, choice), atol=1e-4, rtol=0)


async def test_a_step_of_grpo_changes_it(
    tmp_path: Path, make_model: Any, play: Play, sample: Sample, hugging_face: Any
) -> None:
    """Sampler and learner agree at first; then the old step answers as it did, and the new one as peft's model does."""
    from peft import PeftModel

    async with TorchBackend(tmp_path, lora=LoraSettings()) as backend:
        model = make_model(base_model=hugging_face.name_or_path)
        await model.register(backend)
        before = await sample(model, QUESTION, seed=5, tokens=12)
        result = await backend.train(model, await play(model, length, prompts=(QUESTION, "Hello!")), learning_rate=1e-3)
        after = await sample(model, QUESTION, seed=5, tokens=12)
        again = await sample(model, QUESTION, seed=5, tokens=12, name="agent@0")

    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4
    # Up to rounding: what was known of the prompt by then need not be computed again.
    torch.testing.assert_close(sampled(again), sampled(before), atol=1e-4, rtol=0)
    assert again.model_extra["token_ids"] == before.model_extra["token_ids"]
    assert after.logprobs != before.logprobs
    adapted = PeftModel.from_pretrained(hugging_face, checkpoint(tmp_path, 1)).eval()
    assert (sampled(after) - logprobs(adapted, after)).abs().max() < 1e-4
    with adapted.disable_adapter():
        assert (sampled(after) - logprobs(adapted, after)).abs().max() > 1e-2
