"""The linear layers of a decoder: those that read the same input are one product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["GROUPS", "Products", "groups_of", "joined", "joined_bias", "joined_weight", "plain_products"]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""The linear layers of each of a decoder's layers, by what they read."""


class Products(Protocol):
    """How a group of linear layers is computed; called once per group, layer and forward pass.

    Takes the number of the layer, the name of the group, `[…, in]`, and the linear layers; returns what they make of
    it, one behind the other: `[…, sum of out]`.
    """

    def __call__(self, layer: int, group: str, hidden: Tensor, linears: Sequence[nn.Linear]) -> Tensor: ...


def plain_products(layer: int, group: str, hidden: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
    """The layers as they are."""
    del layer, group
    return functional.linear(hidden, joined_weight(linears), joined_bias(linears))


def joined_weight(linears: Sequence[nn.Linear]) -> Tensor:
    """Their matrices, one above the other: copied only where they do not lie in memory like that."""
    weights: list[Tensor] = [linear.weight for linear in linears]
    if len(weights) == 1:
        return weights[0]
    if any(weight.requires_grad for weight in weights) or not _is_one(weights):
        return torch.cat(weights)
    return weights[0].as_strided((sum(map(len, weights)), weights[0].shape[1]), weights[0].stride())


def joined_bias(linears: Sequence[nn.Linear]) -> Tensor | None:
    """Their biases, one behind the other; in a group all of them have one, or none."""
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return torch.cat(biases) if biases else None


def joined(decoder: Decoder) -> Decoder:
    """A frozen decoder with the same weights, in which those of one product lie one behind the other."""
    weights = decoder.state_dict()
    for names, linears in groups_of(decoder):
        parts = torch.split(joined_weight(linears), [linear.out_features for linear in linears])
        weights |= {f"{name}.weight": part for name, part in zip(names, parts, strict=True)}
    return decoder.with_weights(weights)


def groups_of(decoder: Decoder) -> Iterator[tuple[tuple[str, ...], list[nn.Linear]]]:
    """Each group of each layer: the names of its linear layers in the decoder, and these."""
    for layer in range(decoder.config.num_hidden_layers):
        for group in GROUPS.values():
            names = tuple(f"model.layers.{layer}.{name}" for name in group)
            yield names, [cast("nn.Linear", decoder.get_submodule(name)) for name in names]


def _is_one(weights: list[Tensor]) -> bool:
    first = weights[0]
    begin = first.untyped_storage().data_ptr()
    offsets = accumulate((weight.numel() for weight in weights[:-1]), initial=first.storage_offset())
    return all(
        weight.is_contiguous() and weight.storage_offset() == offset and weight.untyped_storage().data_ptr() == begin
        for weight, offset in zip(weights, offsets, strict=True)
    )
