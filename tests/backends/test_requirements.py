"""What a backend needs of its surroundings."""

from __future__ import annotations

import pytest

from artkit.backends import required_environment


class ServerlessBackend:
    """By name, like ART's."""


class Own(ServerlessBackend):
    """A user's subclass."""


class TinkerBackend:
    """By name."""


class TinkerNativeBackend(TinkerBackend):
    """By name, and below another one that counts."""


class LocalBackend:
    """By name."""


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        (ServerlessBackend, ("WANDB_API_KEY",)),
        (Own, ("WANDB_API_KEY",)),
        (TinkerBackend, ("TINKER_API_KEY",)),
        (TinkerNativeBackend, ("TINKER_API_KEY",)),
        (LocalBackend, ()),
        (object, ()),
    ],
)
def test_each_backend_needs_its_own_key_and_nothing_else(kind: type[object], needed: tuple[str, ...]) -> None:
    """A subclass talks to the same service; a local one to none."""
    assert required_environment(kind()) == needed


def test_art_s_own_class_is_known() -> None:
    """By name it would be missed if it were renamed."""
    import art

    assert required_environment(art.ServerlessBackend(api_key="made-up")) == ("WANDB_API_KEY",)
