"""What a backend's `train` takes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import art

from artkit.bridge import TrainOptions, train_options
from artkit.testing import DiaryBackend

if TYPE_CHECKING:
    import pytest


class Open:
    async def train(
        self, model: Any, trajectory_groups: Any, *, learning_rate: float = 1e-5, **kwargs: Any
    ) -> None: ...


class WithPositions:
    async def train(self, model: Any, groups: Any, learning_rate: float = 1e-5, /, epsilon: float = 0.2) -> None: ...


def test_the_options_are_those_the_signature_names() -> None:
    """A wrong one is found before the first rollout."""
    expected = {"learning_rate", "ppo", "epsilon", "epsilon_high", "kl_penalty_coef", "scale_rewards", "verbose"}

    assert train_options(DiaryBackend()) == TrainOptions(names=frozenset(expected), accepts_any=False)


def test_a_backend_that_takes_anything_says_so() -> None:
    """There, a wrong name cannot be told from a right one."""
    assert train_options(Open()) == TrainOptions(names=frozenset({"learning_rate"}), accepts_any=True)


def test_what_cannot_be_given_by_name_is_no_option() -> None:
    """Options are handed over by name."""
    assert train_options(WithPositions()).names == frozenset({"epsilon"})


def test_art_s_own_backend_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names differ by version; the learning rate is in all of them."""
    monkeypatch.setenv("WANDB_API_KEY", "not-a-key")
    backend = art.ServerlessBackend()
    names = set(inspect.signature(backend.train).parameters) - {"model", "trajectory_groups"}

    assert train_options(backend) == TrainOptions(names=frozenset(names), accepts_any=False)
