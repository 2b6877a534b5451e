"""Scenarios: tasks as data, where they come from, and the order they are played in."""

from __future__ import annotations

from artkit.scenarios.batch import ScenarioBatch
from artkit.scenarios.cursor import Cursor
from artkit.scenarios.loading import from_dataset, load_jsonl
from artkit.scenarios.order import ScenarioOrder
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.scenario import Scenario
from artkit.scenarios.split import Split, find_leaks, split_scenarios
from artkit.scenarios.stream import ScenarioStream

__all__ = [
    "Cursor",
    "PromptScenario",
    "Scenario",
    "ScenarioBatch",
    "ScenarioOrder",
    "ScenarioStream",
    "Split",
    "find_leaks",
    "from_dataset",
    "load_jsonl",
    "split_scenarios",
]
