"""The linear layers of a decoder: those that read the same input are one product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = [
    "GROUPS",
    "Products",
    "joined",
    "joined_bias",
    "joined_weight",
    "over_layers",
    "plain_products",
    "stacked_weight",
    "unstacked",
]

# Of the weights that are computed with at once where a whole model's are: a quarter of a gigabyte in float32.
_ELEMENTS = 1 << 26

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


def stacked_weight(layers: nn.ModuleList, group: str) -> Tensor:
    """What `joined_weight` is of each of these layers: `[layers, sum of out, in]`, copied only where it must be."""
    weight = joined_weight([linear for layer in layers for linear in _members(layer, group)])
    return weight.view(len(layers), -1, weight.shape[1])


def unstacked(decoder: Decoder, group: str, weights: Tensor) -> dict[str, Tensor]:
    """And back: each linear layer's own, as views, by their names in the decoder."""
    found = {}
    for layer, joint in enumerate(weights.unbind()):
        rows = [linear.out_features for linear in _members(decoder.model.layers[layer], group)]
        for name, weight in zip(GROUPS[group], torch.split(joint, rows), strict=True):
            found[f"model.layers.{layer}.{name}.weight"] = weight
    return found


def over_layers(decoder: Decoder, group: str, compute: Callable[[Tensor, slice], Tensor]) -> Tensor:
    """What `compute` makes of a group's stacked weights; called for many layers at once, as far as memory goes.

    Args:
        decoder: Whose weights.
        group: One of `GROUPS`.
        compute: Takes the weights of some layers, `[layers, out, in]`, and which they are; returns `[layers, …]`.
    """
    layers = decoder.model.layers
    step = max(1, _ELEMENTS // sum(linear.weight.numel() for linear in _members(layers[0], group)))
    runs = [slice(start, start + step) for start in range(0, len(layers), step)]
    parts = [compute(stacked_weight(layers[run], group), run) for run in runs]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def joined(decoder: Decoder) -> Decoder:
    """A frozen decoder with the same weights, in which those of one group lie one behind the other."""
    weights = decoder.state_dict()
    for group in GROUPS:
        weights |= unstacked(decoder, group, stacked_weight(decoder.model.layers, group))
    return decoder.with_weights(weights)


def _members(layer: nn.Module, group: str) -> list[nn.Linear]:
    return [cast("nn.Linear", layer.get_submodule(name)) for name in GROUPS[group]]


def _is_one(weights: list[Tensor]) -> bool:
    first = weights[0]
    begin = first.untyped_storage().data_ptr()
    offsets = accumulate((weight.numel() for weight in weights[:-1]), initial=first.storage_offset())
    return all(
        weight.is_contiguous() and weight.storage_offset() == offset and weight.untyped_storage().data_ptr() == begin
        for weight, offset in zip(weights, offsets, strict=True)
    )
