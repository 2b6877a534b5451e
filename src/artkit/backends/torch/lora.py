"""Low-rank adapters on the linear layers of a decoder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.lora_settings import LoraSettings

__all__ = ["LoraLinear", "adapters_of", "is_adapter", "merged", "with_adapters"]

_A, _B = ".lora_A.weight", ".lora_B.weight"


class LoraLinear(nn.Linear):
    """A frozen linear layer and its adapter, `W x + scale * B (A x)`.

    The weight is the base's own tensor, under the base's name; the adapter's two are named as peft names them.

    Args:
        base: The layer; its parameters are frozen.
        rank: Rows of `A`.
        scale: What `B A` is multiplied with.
    """

    def __init__(self, base: nn.Linear, *, rank: int, scale: float) -> None:
        super().__init__(base.in_features, base.out_features, bias=False, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.scale = scale
        # Whatever the base is kept in, what is trained is float32.
        device, dtype = base.weight.device, torch.float32
        self.lora_A = nn.Linear(base.in_features, rank, bias=False, device=device, dtype=dtype)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False, device=device, dtype=dtype)

    def forward(self, hidden: Tensor) -> Tensor:
        adapted: Tensor = _Adapted.apply(  # type: ignore[no-untyped-call]
            hidden, self.lora_A.weight, self.lora_B.weight, self
        )
        return adapted


class _Adapted(torch.autograd.Function):
    """The layer in as few passes over wide tensors as there are products: the adapter is added where it is computed.

    No gradient of the base's weight is made. The adapters and their gradients are float32, whatever is computed in.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, first: Tensor, second: Tensor, layer: LoraLinear) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        # Here, where it costs nothing to remember: cast outside, each of hundreds would be a step of the graph.
        first, second = first.to(flat.dtype), second.to(flat.dtype)
        narrow = flat @ first.t()
        output = functional.linear(flat, layer.weight, layer.bias).addmm_(narrow, second.t(), alpha=layer.scale)
        ctx.save_for_backward(flat, narrow, first, second)
        ctx.layer = layer
        return output.view(*hidden.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        flat, narrow, first, second = ctx.saved_tensors
        weight, scale = ctx.layer.weight, ctx.layer.scale
        wide = gradient.reshape(-1, gradient.shape[-1])
        of_narrow = (wide @ second).mul_(scale)
        of_hidden = None
        # Into the first layer nothing flows: the embedding is frozen.
        if ctx.needs_input_grad[0]:
            of_hidden = (wide @ weight).addmm_(of_narrow, first).view(*gradient.shape[:-1], -1)
        # The small factor first: the other way round, the product takes more than twice as long on a CPU.
        of_second = (narrow.t() @ wide).t().mul_(scale)
        return of_hidden, (of_narrow.t() @ flat).float(), of_second.float(), None


def with_adapters(base: Decoder, settings: LoraSettings, generator: torch.Generator) -> Decoder:
    """A decoder that computes as `base` does until its adapters are trained; it shares `base`'s frozen tensors.

    Args:
        base: Its parameters are frozen.
        settings: Which layers, and how.
        generator: Of the CPU: `A` is drawn from it, as peft draws it; `B` is zero.
    """
    decoder = base.with_weights(base.state_dict())
    targets = [
        (parent, name, layer)
        for parent in decoder.modules()
        for name, layer in parent.named_children()
        if name in settings.target_modules and isinstance(layer, nn.Linear)
    ]
    for parent, name, layer in targets:
        adapted = LoraLinear(layer, rank=settings.rank, scale=settings.scale)
        with torch.no_grad():
            bound = 1.0 / math.sqrt(layer.in_features)
            drawn = torch.empty(settings.rank, layer.in_features).uniform_(-bound, bound, generator=generator)
            adapted.lora_A.weight.copy_(drawn)
            adapted.lora_B.weight.zero_()
        setattr(parent, name, adapted)
    return decoder


def adapters_of(decoder: Decoder) -> dict[str, Tensor]:
    """The adapters' tensors by their names in the decoder."""
    return {name: value for name, value in decoder.state_dict().items() if is_adapter(name)}


def is_adapter(name: str) -> bool:
    """Whether a parameter of this name is an adapter's."""
    return name.endswith((_A, _B))


@torch.no_grad()
def merged(base: Decoder, adapters: Mapping[str, Tensor], scale: float) -> Decoder:
    """A frozen decoder with the adapters added to their layers; whatever they leave alone is `base`'s own tensor."""
    weights = base.state_dict()
    for name, first in adapters.items():
        if not name.endswith(_A):
            continue
        layer = name.removesuffix(_A)
        weight = weights[f"{layer}.weight"]
        second = adapters[layer + _B].float()
        weights[f"{layer}.weight"] = torch.addmm(weight.float(), second, first.float(), alpha=scale).to(weight.dtype)
    return base.with_weights(weights)
