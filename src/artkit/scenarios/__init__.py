"""Scenarios: tasks as data, where they come from, and the order they are played in."""

from __future__ import annotations

from artkit.scenarios.batch import ScenarioBatch
from artkit.scenarios.cursor import Cursor
from artkit.scenarios.from_dataset import from_dataset
from artkit.scenarios.leaks import find_leaks
from artkit.scenarios.load_jsonl import load_jsonl
from artkit.scenarios.load_parquet import load_parquet
from artkit.scenarios.loaded import LoadedScenarios
from artkit.scenarios.mixture import ScenarioMixture
from artkit.scenarios.order import ScenarioOrder
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.scenario import Scenario
from artkit.scenarios.split import Split, split_scenarios
from artkit.scenarios.stream import ScenarioStream
from artkit.scenarios.stream_dataset import DatasetStream, stream_dataset
from artkit.scenarios.stream_jsonl import JsonlStream, stream_jsonl

__all__ = [
    "Cursor",
    "DatasetStream",
    "JsonlStream",
    "LoadedScenarios",
    "PromptScenario",
    "Scenario",
    "ScenarioBatch",
    "ScenarioMixture",
    "ScenarioOrder",
    "ScenarioStream",
    "Split",
    "find_leaks",
    "from_dataset",
    "load_jsonl",
    "load_parquet",
    "split_scenarios",
    "stream_dataset",
    "stream_jsonl",
]
