"""The decoder: one small Llama in plain PyTorch, for sampling and for training alike.

Parameters carry the names that Hugging Face gives them, so a checkpoint is a state dict and nothing is translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from artkit.backends.torch.fused import gated, normed, rotated
from artkit.backends.torch.products import Products, plain_products

if TYPE_CHECKING:
    from artkit.backends.torch.decoder_config import DecoderConfig
    from artkit.backends.torch.lora import Adapters

__all__ = ["Attention", "Decoder", "causal_attention"]


class Attention(Protocol):
    """How queries meet keys and values: over whole sequences, or over a cache.

    Called once per layer and forward pass, with `[batch, tokens, heads + 2 * kv_heads, head_dim]`, queries and keys
    rotated, and behind them the values; and the number of each. Returns `[batch, tokens, heads * head_dim]`.
    """

    def __call__(self, layer: int, projected: Tensor, counts: HeadCounts) -> Tensor: ...


HeadCounts = list[int]
"""How many heads of queries, of keys and of values there are: three numbers."""


def causal_attention(layer: int, projected: Tensor, counts: HeadCounts) -> Tensor:
    """Each token sees itself and what is before it.

    Rows may be padded at their end: a real token never sees what comes after it, so no mask is needed.
    """
    del layer
    query, key, value = torch.split(projected.transpose(1, 2), counts, dim=1)
    context = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=counts[0] != counts[1]
    )
    return context.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    """A decoder of the Llama family.

    Args:
        config: Its shape.
        used_vocab_size: How many ids the tokenizer knows. Rows of the output head beyond it stand for no token
            (embeddings are often padded to a round number): they are left out of every distribution, in sampling and
            in training alike.
    """

    def __init__(self, config: DecoderConfig, *, used_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.used_vocab_size = min(used_vocab_size, config.vocab_size)
        self.model = _Stack(config)
        self.adapters: Adapters | None = None
        self.lm_head: nn.Linear | None = None
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        attention: Attention = causal_attention,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states.

        Args:
            token_ids: `[batch, tokens]`.
            positions: `[batch, tokens]` or `[1, tokens]`: the place of each token in its sequence, from 0.
            attention: Where keys and values come from.
            wanted: `[n]`: of which tokens the states are wanted, counted over the batch; None is all. Others are left
                out where nothing follows from them: behind the attention of the last layer.

        Returns:
            `[batch, tokens, hidden_size]`, or `[n, hidden_size]`.
        """
        adapters = self.adapters
        products = plain_products if adapters is None else adapters.products(self.model.embed_tokens.weight.dtype)
        hidden: Tensor = self.model(token_ids, positions, attention, products, wanted)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """The scores of the tokenizer's ids: `[…, hidden_size]` to `[…, used_vocab_size]`."""
        return functional.linear(hidden, self.head)

    @property
    def head(self) -> Tensor:
        """The rows of the output head that stand for tokens, `[used_vocab_size, hidden_size]`."""
        layer = self.model.embed_tokens if self.lm_head is None else self.lm_head
        return layer.weight[: self.used_vocab_size]

    def initialize(self, generator: torch.Generator) -> None:
        """Draw every matrix from a normal of `config.initializer_range`; gains are one, biases zero."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.zero_()
                elif parameter.dim() == 1:
                    parameter.fill_(1.0)
                else:
                    parameter.normal_(std=self.config.initializer_range, generator=generator)

    def snapshot(self, dtype: torch.dtype | None = None) -> Decoder:
        """A frozen copy, in another dtype if one is given: training goes on without it."""
        return self.with_weights({name: value.to(dtype, copy=True) for name, value in self.state_dict().items()})

    def with_weights(self, weights: Mapping[str, Tensor]) -> Decoder:
        """A frozen decoder of this shape that holds these very tensors, by their names in the state dict."""
        by_id = {id(old): nn.Parameter(weights[name], requires_grad=False) for name, old in self.named_parameters()}
        decoder: Decoder = _with_parameters(self, by_id)
        return decoder.eval()

    def alias(self) -> Decoder:
        """These very parameters as leaves of other autograd graphs."""
        by_id = {id(old): nn.Parameter(old.detach(), requires_grad=old.requires_grad) for old in self.parameters()}
        decoder: Decoder = _with_parameters(self, by_id)
        return decoder

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.model.embed_tokens.weight.device


class _Stack(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.head_dim, self.rope_theta = config.head_dim, config.rope_theta
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm = _Norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, token_ids: Tensor, positions: Tensor, attention: Attention, products: Products, wanted: Tensor | None
    ) -> Tensor:
        hidden: Tensor = self.embed_tokens(token_ids)
        cosine, sine = self._rotation(positions)
        # The table is made in float32: positions are too large for less.
        rotation = cosine.to(hidden.dtype), sine.to(hidden.dtype)
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, rotation, attention, products, wanted if index == last else None)
        normed: Tensor = self.norm(hidden)
        return normed

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        # RoFormer (arXiv 2104.09864), eq. 34, in the half-split layout of Hugging Face's Llama.
        exponents = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=torch.float32) / self.head_dim
        angles = positions[:, :, None, None].float() * self.rope_theta**-exponents
        return angles.cos(), angles.sin()


class _Layer(nn.Module):
    def __init__(self, config: DecoderConfig, index: int) -> None:
        super().__init__()
        self.index = index
        self.input_layernorm = _Norm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = _SelfAttention(config)
        self.post_attention_layernorm = _Norm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = _GatedMLP(config)

    def forward(
        self,
        hidden: Tensor,
        rotation: tuple[Tensor, Tensor],
        attention: Attention,
        products: Products,
        wanted: Tensor | None,
    ) -> Tensor:
        attend, mix = self.self_attn, self.mlp
        projections = (attend.q_proj, attend.k_proj, attend.v_proj)
        projected = products(self.index, "query_key_value", self.input_layernorm(hidden), projections)
        context = attention(self.index, attend.placed(projected, rotation), attend.counts)
        if wanted is not None:
            context, hidden = (states.flatten(0, 1).index_select(0, wanted) for states in (context, hidden))
        hidden = hidden + products(self.index, "output", context, (attend.o_proj,))
        both = products(self.index, "gate_up", self.post_attention_layernorm(hidden), (mix.gate_proj, mix.up_proj))
        return hidden + products(self.index, "down", gated(both), (mix.down_proj,))


class _SelfAttention(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        query_width = config.num_attention_heads * config.head_dim
        key_width = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, key_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, key_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(query_width, config.hidden_size, bias=config.output_bias)
        if config.query_key_norm:
            self.q_norm = _Norm(config.head_dim, eps=config.rms_norm_eps)
            self.k_norm = _Norm(config.head_dim, eps=config.rms_norm_eps)
        self.query_key_norm, self.head_dim = config.query_key_norm, config.head_dim
        self.counts: HeadCounts = [config.num_attention_heads, *[config.num_key_value_heads] * 2]

    def placed(self, projected: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """`[batch, tokens, width]` as heads, queries and keys normed where the model does that, and rotated."""
        heads = projected.view(*projected.shape[:-1], -1, self.head_dim)
        if self.query_key_norm:
            query, key, value = torch.split(heads, self.counts, dim=2)
            heads = torch.cat((self.q_norm(query), self.k_norm(key), value), dim=2)
        return rotated(heads, rotation, sum(self.counts[:2]))


class _GatedMLP(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


class _Norm(nn.RMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return normed(x, self.weight, self.eps or 0.0)


def _with_parameters(module: Any, by_id: Mapping[int, nn.Parameter]) -> Any:
    """The same tree of modules with other parameters; making one anew, or a deep copy, takes ten times as long."""
    clone = module.__class__.__new__(module.__class__)
    state = vars(module)
    vars(clone).update(
        state,
        _parameters={name: old if old is None else by_id[id(old)] for name, old in state["_parameters"].items()},
        _modules={name: _with_parameters(child, by_id) for name, child in state["_modules"].items()},
    )
    return clone
