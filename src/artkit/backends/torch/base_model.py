"""Where training starts: the micro model, or a Hugging Face directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file

from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.decoder_config import DecoderConfig
from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.backends.torch.pretrained_tokenizer import PretrainedTokenizer
from artkit.backends.torch.tensor_file import write_tensors
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.backends.torch.chat_tokenizer import ChatTokenizer

__all__ = ["MICRO", "BaseModel", "load_weights", "save_model"]

MICRO = "artkit/micro"

_CONFIG, _WEIGHTS, _WEIGHTS_INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """A base model: its shape and its tokenizer; the weights come when they are asked for.

    Attributes:
        name: `artkit/micro` or the directory.
        directory: The directory, None for the micro model.
    """

    name: str
    directory: Path | None
    config: DecoderConfig
    tokenizer: ChatTokenizer

    @classmethod
    def open(cls, name: str) -> BaseModel:
        """Find a base model by `model.base_model`.

        Raises:
            ConfigurationError: It is neither the micro model nor a directory with a model of a supported type.
        """
        if name == MICRO:
            tokenizer = MicroTokenizer()
            return cls(name=name, directory=None, config=_micro_config(tokenizer.size), tokenizer=tokenizer)
        directory = Path(name).expanduser()
        if not directory.is_dir():
            raise ConfigurationError(
                f"base_model={name!r} is no directory here",
                f"the embedded backend takes {MICRO!r} or a local Hugging Face directory; it downloads nothing",
            )
        config = DecoderConfig.from_file(directory / _CONFIG)
        return cls(name=name, directory=directory, config=config, tokenizer=PretrainedTokenizer(directory))

    def decoder(self, *, seed: int) -> Decoder:
        """A fresh decoder on the CPU with the base weights: drawn from `seed` (micro), or read from the directory."""
        decoder = Decoder(self.config, used_vocab_size=self.tokenizer.size)
        if self.directory is None:
            decoder.initialize(torch.Generator().manual_seed(seed))
        else:
            load_weights(decoder, self.directory)
        return decoder


def _micro_config(vocab_size: int) -> DecoderConfig:
    return DecoderConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        # At the usual 0.02 a model this small does not learn to copy.
        initializer_range=0.08,
    )


def load_weights(decoder: Decoder, directory: Path) -> None:
    """Copy the weights of a Hugging Face directory into `decoder`.

    Raises:
        ConfigurationError: The directory has no safetensors, or their names or shapes are not this decoder's.
    """
    index = directory / _WEIGHTS_INDEX
    if (directory / _WEIGHTS).exists():
        files = {_WEIGHTS}
    elif index.exists():
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    else:
        raise ConfigurationError(
            f"{str(directory)!r} has no {_WEIGHTS}", "save the model with save_pretrained(safe_serialization=True)"
        )
    weights = {name: tensor for file in sorted(files) for name, tensor in load_file(directory / file).items()}
    if decoder.lm_head is None:
        weights.pop("lm_head.weight", None)
    # Old checkpoints carry the rotary table, which is computed here.
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith("rotary_emb.inv_freq")}
    try:
        decoder.load_state_dict(weights)
    except RuntimeError as error:
        raise ConfigurationError(
            f"the weights in {str(directory)!r} do not fit {decoder.config.model_type!r}: {error}",
            "save the model again with transformers, as the causal LM that its config.json names",
        ) from error


def save_model(decoder: Decoder, tokenizer: ChatTokenizer, directory: Path) -> None:
    """Write a Hugging Face directory: weights, configuration and tokenizer."""
    write_tensors(directory / _WEIGHTS, decoder.state_dict(), {"format": "pt"})
    config = {**decoder.config.to_hugging_face(), "eos_token_id": sorted(tokenizer.end_ids)}
    (directory / _CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
    tokenizer.save(directory)
