"""Checkpoints of adapters, read back by peft."""

from __future__ import annotations

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

pytestmark = [
    pytest.mark.smollm2,
    # peft asks transformers for it.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
]

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ m['content'] }}<|im_end|>{% endfor %}<|im_start|>"
IDS = torch.randint(0, 200, (2, 20), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _unpatched_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing ART gives transformers a mask function of an older signature; its models need their own again."""
    monkeypatch.setattr(masking_utils, "_preprocess_mask_arguments", patches._preprocess_mask_arguments)


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return len(reply) + 0.001 * sum(map(ord, reply))


def checkpoint(path: Path, step: int) -> str:
    return str(next(path.rglob(f"{step:04d}")))


@pytest.mark.parametrize(
    "lora",
    [LoraSettings(), LoraSettings(rank=2, alpha=3.0, target_modules=("v_proj", "down_proj"))],
    ids=["all", "two"],
)
async def test_what_was_served_is_what_peft_loads(
    tmp_path: Path, make_model: Any, make_base_model: Any, play: Play, lora: LoraSettings
) -> None:
    """A run that outgrows this backend goes on elsewhere."""
    from peft import PeftModel

    base_model = make_base_model(TEMPLATE)
    async with TorchBackend(tmp_path, lora=lora) as backend:
        model = make_model(base_model=str(base_model))
        await model.register(backend)
        for seed in range(2):
            await backend.train(model, await play(model, length, seed=seed), learning_rate=0.05)
        served = backend._policy(model).decoder_at(2)

    plain = transformers.AutoModelForCausalLM.from_pretrained(base_model).eval()
    with torch.no_grad():
        base = plain(IDS).logits
        # Keys that are missing or unexpected are a warning, and so an error here.
        loaded = PeftModel.from_pretrained(plain, checkpoint(tmp_path, 2)).eval()(IDS).logits
        found = served.logits(served(IDS, torch.arange(20)[None]))

    torch.testing.assert_close(found, loaded[..., : found.shape[-1]], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(loaded, base, atol=1e-2)
