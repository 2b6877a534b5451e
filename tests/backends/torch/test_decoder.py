"""The decoder against Hugging Face's own models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from art.transformers import patches
from transformers import masking_utils

from artkit.backends.torch.base_model import load_weights, save_model
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.decoder_config import DecoderConfig
from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.errors import ConfigurationError

SHAPE: dict[str, Any] = {
    "vocab_size": 104,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
MODELS = {
    "llama": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "llama-untied": ("Llama", {"tie_word_embeddings": False, "attention_bias": True}),
    "mistral": ("Mistral", {"sliding_window": None, "tie_word_embeddings": False}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}
IDS = torch.randint(0, 102, (3, 17), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _unpatched_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing ART gives transformers a mask function of an older signature; its models need their own again."""
    monkeypatch.setattr(masking_utils, "_preprocess_mask_arguments", patches._preprocess_mask_arguments)


def hugging_face(name: str) -> Any:
    kind, changes = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **changes})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # gains are one and biases zero at first: make them tell
                parameter.uniform_(0.5, 1.5)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """Its checkpoints are read as they were meant."""
    model = hugging_face(name)
    model.save_pretrained(tmp_path)
    decoder = Decoder(DecoderConfig.from_file(tmp_path / "config.json"), used_vocab_size=102)
    load_weights(decoder, tmp_path)

    with torch.no_grad():
        found = decoder.logits(decoder(IDS, torch.arange(17)[None]))
        expected = model(IDS).logits

    torch.testing.assert_close(found, expected[..., :102], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_the_same_in_transformers(name: str, tmp_path: Path) -> None:
    """What was trained here is served anywhere."""
    hugging_face(name).save_pretrained(tmp_path)
    decoder = Decoder(DecoderConfig.from_file(tmp_path / "config.json"), used_vocab_size=102)
    decoder.initialize(torch.Generator().manual_seed(1))
    (tmp_path / "saved").mkdir()
    save_model(decoder, MicroTokenizer(), tmp_path / "saved")

    with torch.no_grad():
        found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")(IDS).logits
        expected = decoder.logits(decoder(IDS, torch.arange(17)[None]))

    torch.testing.assert_close(found[..., :102], expected, atol=1e-4, rtol=1e-4)


def test_a_snapshot_does_not_follow_the_training() -> None:
    """Replies in the making keep the weights that they began with."""
    decoder = Decoder(DecoderConfig(**SHAPE, head_dim=8), used_vocab_size=102)
    decoder.initialize(torch.Generator().manual_seed(0))
    snapshot = decoder.snapshot()
    before = {name: value.clone() for name, value in snapshot.state_dict().items()}

    decoder.initialize(torch.Generator().manual_seed(1))

    torch.testing.assert_close(snapshot.state_dict(), before, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "gpt2"}, "model_type='gpt2'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type='yarn'"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"sliding_window": 8}, "sliding_window=8"),
    ],
)
def test_an_architecture_that_would_be_computed_wrongly_is_refused(changes: dict[str, Any], named: str) -> None:
    """A model that is almost right is worse than none."""
    with pytest.raises(ConfigurationError, match=named):
        DecoderConfig.from_hugging_face({"model_type": "llama", **SHAPE, **changes})
