"""The single-turn scenario."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from artkit.scenarios import PromptScenario


def test_a_prompt_scenario_is_frozen_and_refuses_unknown_fields() -> None:
    """A scenario that changes is another task."""
    scenario = PromptScenario(id="a", messages="hi")

    with pytest.raises(ValidationError, match="frozen"):
        scenario.label = "x"
    with pytest.raises(ValidationError, match="Extra inputs"):
        PromptScenario(id="a", messages="hi", answer="x")


def test_scenarios_do_not_share_their_metadata() -> None:
    """What one rollout writes there, another would read."""
    first, second = PromptScenario(id="a", messages="hi"), PromptScenario(id="b", messages="hi")
    first.metadata["seen"] = True

    assert second.metadata == {}
