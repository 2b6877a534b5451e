"""A decoder's frozen weights, laid out for sampling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from artkit.backends.torch.products import over_layers
from artkit.backends.torch.rotary import paired, rotation_table

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["CachedAttention", "ServedDecoder"]


class CachedAttention(Protocol):
    """How new tokens meet the past of their rows; called once per layer and pass.

    Takes the queries of `T` tokens, `[T, heads, head_dim]`, and their keys and values, `[T, 2, kv_heads, head_dim]`;
    returns `[T, heads * head_dim]`.
    """

    def __call__(self, layer: int, query: Tensor, new: Tensor) -> Tensor: ...


class ServedDecoder:
    """The same function as `Decoder`, in fewer and faster operations, for weights that do not change.

    Products of the same input are one product, its matrix laid out as it is read, and gains are part of the matrix
    behind them. All of it is a copy: what happens to the decoder later changes nothing here, and it may go.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.config, self.used_vocab_size = decoder.config, decoder.used_vocab_size
        self._weights = _Weights.of(decoder)
        config, device = self.config, self.device
        # The eps as a tensor: an operation that takes a number for it would make one each time.
        self._eps = torch.tensor(config.rms_norm_eps, device=device)
        window = config.max_position_embeddings
        self._rotations = rotation_table(window, config.head_dim, config.rope_theta, device)

    def fits(self, decoder: Decoder) -> bool:
        """Whether `load` can take these weights."""
        weight = decoder.model.embed_tokens.weight
        return (decoder.config, decoder.used_vocab_size, weight.device, weight.dtype) == (
            self.config,
            self.used_vocab_size,
            self.device,
            self.dtype,
        )

    def load(self, decoder: Decoder) -> None:
        """Take over the weights of a decoder of the same shape, into the memory that these have."""
        for old, new in zip(self._weights.tensors(), _Weights.of(decoder).tensors(), strict=True):
            old.copy_(new)

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self._weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """What keys and values are computed in."""
        return self._weights.embedding.dtype

    def __call__(
        self, token_ids: Tensor, positions: Tensor, attention: CachedAttention, wanted: Tensor | None = None
    ) -> Tensor:
        """The scores of the tokens that may come next.

        Args:
            token_ids: `[T]`.
            positions: `[T]`: the place of each token in its sequence, from 0.
            attention: Where keys and values come from.
            wanted: `[n]`: of which tokens the scores are wanted; None is all.

        Returns:
            `[n, used_vocab_size]`.
        """
        weights, width = self._weights, self.config.head_dim
        heads = self.config.num_attention_heads
        turned = (heads + self.config.num_key_value_heads) * width
        hidden = functional.embedding(token_ids, weights.embedding)
        # What is padded may lie beyond the window; nobody reads what comes of it.
        rotation = self._rotations.index_select(0, positions.clamp(max=len(self._rotations) - 1))
        last = len(weights.layers) - 1
        for index, layer in enumerate(weights.layers):
            projected = _product(self._normed(hidden), layer.qkv, layer.qkv_bias)
            if layer.query_key_gain is not None:
                queries_keys = projected[:, :turned].view(len(token_ids), -1, width)
                queries_keys.copy_(self._normed(queries_keys) * layer.query_key_gain)
            _turn(projected[:, :turned], rotation)
            projected = projected.view(len(token_ids), -1, width)
            new = projected[:, heads:].view(len(token_ids), 2, -1, width)
            context = attention(index, projected[:, :heads], new)
            if index == last and wanted is not None:
                context, hidden = context[wanted], hidden[wanted]
            # In place, or what is added to would be copied first.
            hidden.addmm_(context, layer.output)
            if layer.output_bias is not None:
                hidden.add_(layer.output_bias)
            gate, up = (self._normed(hidden) @ layer.gate_up).chunk(2, dim=-1)
            hidden.addmm_(functional.silu(gate).mul_(up), layer.down)
        return functional.linear(self._normed(hidden) * weights.norm, weights.head)

    def _normed(self, hidden: Tensor) -> Tensor:
        """RMSNorm (arXiv 1910.07467), eq. 4, without its gain."""
        if hidden.is_cuda:  # where one kernel does it
            return functional.rms_norm(hidden, hidden.shape[-1:], eps=self.config.rms_norm_eps)
        norms = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True, dtype=torch.float32)
        return (hidden * torch.addcmul(self._eps, norms, norms, value=1 / hidden.shape[-1]).rsqrt_()).to(hidden.dtype)


def _turn(queries_keys: Tensor, rotation: Tensor) -> None:
    """Turn the pairs of `[T, heads * head_dim]`, in place."""
    pairs = queries_keys.view(len(queries_keys), -1, rotation.shape[-1], 2)
    wide = pairs.float()
    torch.view_as_complex(wide).mul_(rotation)
    if wide is not pairs:
        pairs.copy_(wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """All of them; `head` is `[used_vocab_size, hidden_size]`, and where it is tied a part of the embedding.

    What `layers` has are views of `stacks`.
    """

    embedding: Tensor
    stacks: list[Tensor | None]
    layers: list[_Layer]
    norm: Tensor
    head: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, decoder: Decoder) -> _Weights:
        stack, used = decoder.model, decoder.used_vocab_size
        embedding = stack.embed_tokens.weight.detach().clone()
        stacks = _stacks(decoder)
        parts = [[None] * len(stack.layers) if some is None else some.unbind() for some in stacks]
        return cls(
            embedding=embedding,
            stacks=stacks,
            layers=[_Layer(*of_layer) for of_layer in zip(*parts, strict=True)],
            norm=stack.norm.weight.detach().clone(),
            head=embedding[:used] if decoder.lm_head is None else decoder.lm_head.weight.detach()[:used].clone(),
        )

    def tensors(self) -> Iterator[Tensor]:
        yield self.embedding
        yield self.norm
        if self.head.data_ptr() != self.embedding.data_ptr():
            yield self.head
        yield from (stack for stack in self.stacks if stack is not None)


class _Layer(NamedTuple):
    """Matrices as `[in, out]`, queries and keys in pairs; `query_key_gain` is `[heads + kv_heads, head_dim]`."""

    qkv: Tensor
    qkv_bias: Tensor | None
    query_key_gain: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    gate_up: Tensor
    down: Tensor


def _stacks(decoder: Decoder) -> list[Tensor | None]:
    """What `_Layer` has, of all layers in one tensor each."""
    config, layers = decoder.config, decoder.model.layers
    width, heads, kv_heads = config.head_dim, config.num_attention_heads, config.num_key_value_heads

    def vectors(name: str) -> Tensor:
        return torch.stack([layer.get_parameter(name) for layer in layers])

    def matrices(group: str, gain: str | None = None, order: Tensor | None = None) -> Tensor:
        def lay_out(weights: Tensor, run: slice) -> Tensor:
            laid = weights if order is None else weights.index_select(1, order)
            if gain is not None:
                laid = laid.float() * vectors(f"{gain}.weight")[run, None].float()
            laid = laid.transpose(1, 2) if by_input else laid
            return laid.to(weights.dtype, memory_format=torch.contiguous_format, copy=True)

        stack = over_layers(decoder, group, lay_out)
        return stack if by_input else stack.transpose(1, 2)

    # Few rows are multiplied a fifth faster by a matrix that lies the right way, which is not the same everywhere.
    by_input = decoder.device.type != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512"
    order = torch.arange((heads + 2 * kv_heads) * width, device=decoder.device)
    turned = order[: (heads + kv_heads) * width]
    turned.copy_(paired(turned, width))
    qkv_bias = gain = None
    if config.qkv_bias:
        qkv_bias = torch.cat([vectors(f"self_attn.{name}_proj.bias") for name in "qkv"], dim=1).index_select(1, order)
    if config.query_key_norm:
        gains = [vectors(f"self_attn.{name}_norm.weight").index_select(1, order[:width]) for name in "qk"]
        counts = torch.tensor([heads, kv_heads], device=decoder.device)
        gain = torch.stack(gains, dim=1).repeat_interleave(counts, dim=1)
    return [
        matrices("query_key_value", "input_layernorm", order),
        qkv_bias,
        gain,
        matrices("output"),
        vectors("self_attn.o_proj.bias") if config.output_bias else None,
        matrices("gate_up", "post_attention_layernorm"),
        matrices("down"),
    ]


def _product(inputs: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    return inputs @ matrix if bias is None else torch.addmm(bias, inputs, matrix)
