"""Turns that are held elsewhere than in a trajectory's own messages."""

from __future__ import annotations

import art

from artkit.bridge import dump_captured, further_history, load_captured, model_turns
from artkit.testing import choice, episode


def test_replies_are_counted_and_messages_are_not() -> None:
    """A turn is what the model said."""
    assert model_turns(episode("q", choice("a"), {"role": "user", "content": "b"}, choice("c"))) == 2


def test_a_further_history_is_one_of_arts_own() -> None:
    """Its class has another name in each version."""
    history = further_history([{"role": "user", "content": "q"}, choice("a")], None)
    trajectory = art.Trajectory(additional_histories=[history])

    assert trajectory.additional_histories[0].messages_and_choices[1] == choice("a")


def test_where_art_captured_nothing_there_is_nothing_to_keep() -> None:
    """Nearly always."""
    assert (dump_captured(episode("q", choice("a"))), load_captured(None)) == (None, {})
