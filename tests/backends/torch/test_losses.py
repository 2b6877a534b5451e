"""The policy losses, by hand and against ART's own."""

from __future__ import annotations

import math
from typing import Any, Literal

import art.loss
import pytest
import torch

from artkit.backends.torch.losses import PolicyLoss
from artkit.errors import ConfigurationError

ROWS = torch.tensor([0, 0, 0, 1, 1])
OLD = torch.tensor([-1.0, -0.5, -2.0, -1.5, -0.1])
NEW = torch.tensor([-0.2, -0.5, -4.0, -3.5, -0.4])
ADVANTAGES = torch.tensor([1.0, 1.0, 1.0, -0.5, -0.5])


def arts_gradient(settings: dict[str, Any]) -> tuple[float, torch.Tensor]:
    """ART's loss of the same two sequences and its gradient, mean over tokens."""
    new = torch.zeros(1, 8)
    new[0, :5] = NEW
    new.requires_grad_()
    # ART shifts: the value at place t+1 belongs to the log probability at place t.
    padded = {
        "logprobs": (OLD, math.nan),
        "advantages": (ADVANTAGES, 0.0),
        "assistant_mask": (torch.ones(5, dtype=torch.bool), False),
        "weights": (torch.ones(5), 0.0),
        "group_ids": (ROWS + 1, 0),
    }
    inputs: dict[str, Any] = {}
    for name, (values, filler) in padded.items():
        inputs[name] = torch.full((1, 8), filler, dtype=values.dtype)
        inputs[name][0, 1:6] = values
    packed = art.loss.LossInputs(inputs=inputs) if hasattr(art.loss, "LossInputs") else inputs
    loss = art.loss.loss_fn(packed, new, None, None, settings).policy_loss
    loss.backward()
    assert new.grad is not None
    return loss.item(), new.grad[0, :5]


@pytest.mark.parametrize("kind", ["cispo", "ppo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("clip", [{}, {"epsilon": 0.3}, {"epsilon": 0.1, "epsilon_high": 0.5}])
def test_the_loss_and_its_gradient_are_those_of_art(
    kind: Literal["cispo", "ppo"], level: Literal["token", "sequence"], clip: dict[str, float]
) -> None:
    """A script that moves to LocalBackend trains by the same formula, defaults included."""
    loss = PolicyLoss(kind=kind, importance_sampling_level=level, **clip)  # type: ignore[arg-type]
    new = NEW.clone().requires_grad_()
    value = loss(new, loss.ratios(new, OLD, ROWS), ADVANTAGES).mean()
    value.backward()

    expected, gradient = arts_gradient({"ppo": kind == "ppo", "importance_sampling_level": level, **clip})

    assert value.item() == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(new.grad, gradient, atol=1e-5, rtol=1e-5)


def test_cispo_weighs_the_log_probability_by_the_clipped_ratio() -> None:
    """By hand: the ratio e^0.8 = 2.23 is inside (0, 5), the ratio e^3 = 20.1 is cut to 5."""
    new = torch.tensor([-0.2, -1.0])
    loss = PolicyLoss()

    losses = loss(new, loss.ratios(new, torch.tensor([-1.0, -4.0]), torch.tensor([0, 0])), torch.tensor([2.0, 1.0]))

    assert losses.tolist() == pytest.approx([-math.exp(0.8) * 2.0 * -0.2, -5.0 * 1.0 * -1.0])


def test_ppo_takes_the_worse_of_clipped_and_unclipped() -> None:
    """By hand: a ratio of 2 counts as 1.2 for a gain and as 2 for a loss."""
    new, old = torch.tensor([math.log(2.0), math.log(2.0)]), torch.zeros(2)
    loss = PolicyLoss(kind="ppo")

    losses = loss(new, loss.ratios(new, old, torch.tensor([0, 0])), torch.tensor([1.0, -1.0]))

    assert losses.tolist() == pytest.approx([-1.2, 2.0])


def test_a_sequences_ratio_is_the_geometric_mean_of_its_tokens() -> None:
    """GSPO, eq. 7: each sequence by itself, long ones no more extreme than short ones."""
    ratios = PolicyLoss(importance_sampling_level="sequence").ratios(NEW, OLD, ROWS)

    assert ratios.tolist() == pytest.approx([math.exp(-0.4)] * 3 + [math.exp(-1.15)] * 2)


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "reinforce"}, {"epsilon": -0.1}, {"epsilon_high": math.nan}, {"importance_sampling_level": "turn"}],
)
def test_settings_that_cannot_work_are_refused_when_they_are_made(wrong: dict[str, Any]) -> None:
    """Before anything was sampled for them."""
    with pytest.raises(ConfigurationError, match=str(next(iter(wrong)) if "kind" not in wrong else "loss_fn")):
        PolicyLoss(**wrong)
