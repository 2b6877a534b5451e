"""The clipped, importance-weighted policy losses."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal

import torch
from torch import Tensor

from artkit.errors import ConfigurationError

__all__ = ["PolicyLoss"]

# exp(20) is finite in float32, and far outside every clip: a larger gap only makes infinities.
_MAX_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """The loss of sampled tokens, given their advantages.

    With `r = exp(new - old)` per token, or for `"sequence"` its geometric mean over the sequence's sampled tokens:

    - `cispo`: `-stop_gradient(clip(r, 1 - epsilon, 1 + epsilon_high)) * advantage * new`
    - `ppo`: `-min(r * advantage, clip(r, 1 - epsilon, 1 + epsilon_high) * advantage)`

    Names and defaults are those of ART's `art.loss`.

    Source: CISPO (arXiv 2506.13585), section 3.1; PPO (arXiv 1707.06347), eq. 7; the sequence's ratio: GSPO
    (arXiv 2507.18071), eq. 7.

    Attributes:
        epsilon: How far below 1 a ratio counts; None means 1.0 for cispo and 0.2 for ppo.
        epsilon_high: How far above 1; None means 4.0 for cispo when epsilon is None too, else the same as epsilon.
    """

    kind: Literal["cispo", "ppo"] = "cispo"
    epsilon: float | None = None
    epsilon_high: float | None = None
    importance_sampling_level: Literal["token", "sequence"] = "token"

    def __post_init__(self) -> None:
        if self.kind not in ("cispo", "ppo"):
            raise ConfigurationError(f"loss_fn={self.kind!r} is unknown", "use 'cispo' or 'ppo'")
        if self.importance_sampling_level not in ("token", "sequence"):
            raise ConfigurationError(
                f"importance_sampling_level={self.importance_sampling_level!r} is unknown", "use 'token' or 'sequence'"
            )
        for name, value in (("epsilon", self.epsilon), ("epsilon_high", self.epsilon_high)):
            if value is not None and not (isinstance(value, Real) and value >= 0):
                raise ConfigurationError(
                    f"{name}={value!r} is no number of at least 0", "give it at least 0, or None for the default"
                )

    @property
    def clip_range(self) -> tuple[float, float]:
        """The least and the greatest ratio that counts."""
        epsilon = self.epsilon if self.epsilon is not None else {"cispo": 1.0, "ppo": 0.2}[self.kind]
        # As in art.loss: cispo's upper default of 4 holds whatever epsilon is, ppo's is epsilon.
        default_high = 4.0 if self.kind == "cispo" else epsilon
        return 1.0 - epsilon, 1.0 + (self.epsilon_high if self.epsilon_high is not None else default_high)

    def ratios(self, new: Tensor, old: Tensor, rows: Tensor) -> Tensor:
        """The importance ratio of each token.

        Args:
            new: `[n]` log probabilities under the weights in training.
            old: `[n]` log probabilities when they were sampled.
            rows: `[n]` the sequence each token belongs to, counted from 0.
        """
        gap = new - old
        if self.importance_sampling_level == "sequence":
            count = int(rows.max()) + 1
            sums = torch.zeros(count, device=gap.device, dtype=gap.dtype).index_add(0, rows, gap)
            gap = (sums / rows.bincount(minlength=count).clamp(min=1))[rows]
        return gap.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()

    def __call__(self, new: Tensor, ratios: Tensor, advantages: Tensor) -> Tensor:
        """The loss of each token, `[n]`: from its new log probability, its ratio and its advantage."""
        low, high = self.clip_range
        if self.kind == "ppo":
            return -torch.minimum(ratios * advantages, ratios.clamp(low, high) * advantages)
        return -(ratios.detach().clamp(low, high) * advantages * new)
