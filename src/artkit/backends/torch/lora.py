"""Low-rank adapters on the linear layers of a decoder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from artkit.backends.torch.products import (
    GROUPS,
    joined_bias,
    joined_weight,
    over_layers,
    plain_products,
    unstacked,
)

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.lora_settings import LoraSettings

__all__ = ["Adapters", "merged", "with_adapters"]

_A, _B = ".lora_A.weight", ".lora_B.weight"


class Adapters(nn.Module):
    """Of a whole decoder: what they add to a linear layer `W x` is `scale * B (A x)`.

    Those of all layers are a few tensors, so that casting, clipping and updating them takes a few operations. Whatever
    the base is kept in, they are float32.

    Args:
        base: What they are added to.
        settings: Which layers, and how.

    Attributes:
        first: For each group of linear layers, the `A` of those of its members that have one, one above the other, of
            all layers: `[layers, members * rank, in]`.
        second: For each linear layer, by its name in Hugging Face's models, its `B` in all layers:
            `[layers, out, rank]`.
    """

    def __init__(self, base: Decoder, settings: LoraSettings) -> None:
        super().__init__()
        self._scale, self._rank = settings.scale, settings.rank
        self.first, self.second = nn.ParameterDict(), nn.ParameterDict()
        self._members: dict[str, list[str]] = {}
        layers, device = base.config.num_hidden_layers, base.device
        # All layers are of one shape.
        linears = {
            name: cast("nn.Linear", base.model.layers[0].get_submodule(name)) for name in chain(*GROUPS.values())
        }
        self._rows = {name: linear.out_features for name, linear in linears.items()}
        for group, names in GROUPS.items():
            members = [name for name in names if _short(name) in settings.target_modules]
            if not members:
                continue
            self._members[group] = members
            width = linears[members[0]].in_features
            self.first[group] = nn.Parameter(torch.empty(layers, len(members) * self._rank, width, device=device))
            for name in members:
                zeros = torch.zeros(layers, self._rows[name], self._rank, device=device)
                self.second[_short(name)] = nn.Parameter(zeros)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw each `A` as peft draws it, layer by layer, from a generator of the CPU; each `B` becomes zero."""
        for name, value in self.by_name().items():
            if name.endswith(_B):
                value.zero_()
            else:
                bound = 1.0 / math.sqrt(value.shape[1])
                value.copy_(torch.empty(value.shape).uniform_(-bound, bound, generator=generator))

    def by_name(self) -> dict[str, Tensor]:
        """Each layer's own, as views, by the names that peft gives them in the model."""
        found = {}
        for layer in range(len(next(iter(self.first.values())))):
            for group, members in self._members.items():
                for name, first in zip(members, self.first[group].detach()[layer].split(self._rank), strict=True):
                    found[f"model.layers.{layer}.{name}{_A}"] = first
                    found[f"model.layers.{layer}.{name}{_B}"] = self.second[_short(name)].detach()[layer]
        return found

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Take over what `by_name` returned.

        Raises:
            KeyError: One is missing.
        """
        for name, value in self.by_name().items():
            value.copy_(values[name])

    def added(self, base: Decoder, group: str) -> Tensor:
        """The weights of a group in all layers, `[layers, out, in]`, with the adapters added in float32."""
        names = GROUPS[group]
        firsts = dict(zip(self._members[group], self.first[group].split(self._rank, dim=1), strict=True))

        def add(weights: Tensor, layers: slice) -> Tensor:
            wide = weights.to(torch.float32, copy=True)
            for name, part in zip(names, torch.split(wide, [self._rows[name] for name in names], dim=1), strict=True):
                if name in firsts:
                    part.baddbmm_(self.second[_short(name)][layers], firsts[name][layers], alpha=self._scale)
            return wide.to(weights.dtype)

        return over_layers(base, group, add)

    def products(self, dtype: torch.dtype) -> _AdaptedProducts:
        """What computes the linear layers of one forward pass in `dtype`."""
        factors = {
            group: list(
                zip(first.to(dtype).unbind(), self._spread(group).mul(self._scale).to(dtype).unbind(), strict=True)
            )
            for group, first in self.first.items()
        }
        return _AdaptedProducts(factors)

    def _spread(self, group: str) -> Tensor:
        """The `B` of a group as one matrix for each layer, zero off its blocks: `[layers, out, members * rank]`."""
        members, names = self._members[group], GROUPS[group]
        if len(names) == 1:
            return cast("Tensor", self.second[_short(members[0])])
        width = len(members) * self._rank
        blocks = []
        for name in names:
            if name not in members:
                some = self.first[group]
                blocks.append(some.new_zeros(len(some), self._rows[name], width))
                continue
            left = members.index(name) * self._rank
            blocks.append(functional.pad(self.second[_short(name)], (left, width - self._rank - left)))
        return torch.cat(blocks, dim=1)


class _AdaptedProducts:
    """`Products` with adapters: for each group, the two factors of each layer, the second one scaled."""

    def __init__(self, factors: Mapping[str, Sequence[tuple[Tensor, Tensor]]]) -> None:
        self._factors = factors

    def __call__(self, layer: int, group: str, hidden: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
        if group not in self._factors:
            return plain_products(layer, group, hidden, linears)
        first, second = self._factors[group][layer]
        weight, bias = joined_weight(linears), joined_bias(linears)
        adapted: Tensor = _Adapted.apply(hidden, first, second, weight, bias)  # type: ignore[no-untyped-call]
        return adapted


class _Adapted(torch.autograd.Function):
    """A product in as few passes over wide tensors as possible: the adapter is added where it is computed.

    No gradient of the weight or the bias is made: they are frozen.
    """

    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any, hidden: Tensor, first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        narrow = flat @ first.t()
        output = functional.linear(flat, weight, bias).addmm_(narrow, second.t())
        ctx.save_for_backward(flat, narrow, first, second, weight)
        return output.view(*hidden.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        flat, narrow, first, second, weight = ctx.saved_tensors
        wide = gradient.reshape(-1, gradient.shape[-1])
        of_narrow = wide @ second
        of_hidden = None
        # Into the first layer nothing flows: the embedding is frozen.
        if ctx.needs_input_grad[0]:
            of_hidden = (wide @ weight).addmm_(of_narrow, first).view(*gradient.shape[:-1], -1)
        # The small factor first: the other way round, the product takes more than twice as long on a CPU.
        return of_hidden, of_narrow.t() @ flat, (narrow.t() @ wide).t(), None, None


def with_adapters(base: Decoder, settings: LoraSettings, generator: torch.Generator) -> Decoder:
    """A decoder that computes as `base` does until its adapters are trained; it shares `base`'s frozen tensors.

    Args:
        base: Frozen.
        settings: Which layers, and how.
        generator: Of the CPU: `A` is drawn from it; `B` is zero.
    """
    decoder = base.with_weights(base.state_dict())
    decoder.adapters = Adapters(decoder, settings)
    decoder.adapters.initialize(generator)
    return decoder


@torch.no_grad()
def merged(base: Decoder, adapters: Adapters) -> Decoder:
    """A frozen decoder with adapters added to its layers.

    Groups of layers that have none are `base`'s own tensors.
    """
    weights = base.state_dict()
    for group in adapters.first:
        weights |= unstacked(base, group, adapters.added(base, group))
    return base.with_weights(weights)


def _short(name: str) -> str:
    return name.rpartition(".")[-1]
