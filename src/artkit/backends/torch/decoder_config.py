"""The shape of a decoder, in the words of a Hugging Face `config.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["SUPPORTED_MODEL_TYPES", "DecoderConfig"]

# Rotary embeddings, RMSNorm, gated SiLU, grouped queries: one decoder covers these families.
SUPPORTED_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """The shape of a decoder of the Llama family.

    Attributes:
        model_type: One of `SUPPORTED_MODEL_TYPES`.
        vocab_size: Rows of the embedding; a tokenizer may know fewer.
        max_position_embeddings: The context window in tokens, prompt and reply together.
        head_dim: The width of one attention head; must be even.
        qkv_bias: Whether the query, key and value projections have a bias (Qwen2).
        output_bias: Whether the output projection of the attention has one.
        query_key_norm: Whether each head's queries and keys are normalised (Qwen3).
    """

    model_type: str = "llama"
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = True
    initializer_range: float = 0.02
    qkv_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False

    @classmethod
    def from_file(cls, path: Path) -> DecoderConfig:
        """Read `config.json` of a Hugging Face directory.

        Raises:
            ConfigurationError: The file is missing, or names an architecture that this decoder is not.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{str(path)!r} cannot be read as a model's configuration: {error}",
                "give base_model a directory written by transformers' save_pretrained",
            ) from error
        return cls.from_hugging_face(raw)

    @classmethod
    def from_hugging_face(cls, raw: dict[str, Any]) -> DecoderConfig:
        """Translate the fields of a `config.json`.

        Raises:
            ConfigurationError: It names an architecture or a feature that this decoder does not have.
        """
        model_type = raw.get("model_type")
        if model_type not in SUPPORTED_MODEL_TYPES:
            raise ConfigurationError(
                f"model_type={model_type!r} is not supported by the embedded backend",
                f"use a model of one of these types: {', '.join(SUPPORTED_MODEL_TYPES)}",
            )
        # transformers 5 moved the settings of the rotary embedding into one dictionary.
        rope = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        refused = {
            "rope_type": None if rope_type == "default" else rope_type,
            "hidden_act": None if raw.get("hidden_act", "silu") == "silu" else raw["hidden_act"],
            "mlp_bias": raw.get("mlp_bias") or None,
            "sliding_window": raw.get("sliding_window") if raw.get("use_sliding_window", True) else None,
        }
        for name, value in refused.items():
            if value is not None:
                raise ConfigurationError(
                    f"{name}={value!r} of this {model_type} model is not supported by the embedded backend",
                    "use a model without it",
                )
        heads = raw["num_attention_heads"]
        attention_bias = bool(raw.get("attention_bias", False))
        return cls(
            model_type=model_type,
            vocab_size=raw["vocab_size"],
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_hidden_layers=raw["num_hidden_layers"],
            num_attention_heads=heads,
            num_key_value_heads=raw.get("num_key_value_heads") or heads,
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            max_position_embeddings=raw["max_position_embeddings"],
            rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
            rope_theta=rope.get("rope_theta", raw.get("rope_theta", 10_000.0)),
            tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
            initializer_range=raw.get("initializer_range", 0.02),
            qkv_bias=model_type == "qwen2" or attention_bias,
            output_bias=attention_bias and model_type != "qwen2",
            query_key_norm=model_type == "qwen3",
        )

    def to_hugging_face(self) -> dict[str, Any]:
        """The fields of a `config.json` that transformers reads back as this model."""
        raw = asdict(self)
        qkv_bias, output_bias = raw.pop("qkv_bias"), raw.pop("output_bias")
        del raw["query_key_norm"]
        if self.model_type in ("llama", "qwen3"):
            raw["attention_bias"] = qkv_bias and output_bias
        if self.model_type in ("mistral", "qwen2"):
            raw["sliding_window"] = None
        architecture = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[self.model_type]
        return {
            **raw,
            "architectures": [f"{architecture}ForCausalLM"],
            "hidden_act": "silu",
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "torch_dtype": "float32",
        }
