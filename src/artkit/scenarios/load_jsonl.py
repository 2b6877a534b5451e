"""Scenarios from a JSON-lines file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from artkit.scenarios.checks import check_slice
from artkit.scenarios.jsonl_lines import parse_line, read_lines
from artkit.scenarios.loaded import LoadedScenarios, OnBadLine, OnDuplicate, collect
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader, ScenarioT

__all__ = ["load_jsonl"]


def load_jsonl(
    path: str | Path,
    scenario_type: type[ScenarioT] = PromptScenario,  # type: ignore[assignment]  # also the default of ScenarioT
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[ScenarioT]:
    """Read one scenario per line of a JSON-lines file in UTF-8, packed by gzip or not. Blank lines are no rows.

    For `PromptScenario` (and its subclasses) the prompt is a str, which becomes one user message, or a conversation: a
    list of messages, of ShareGPT turns, or of columns. Conversation, tools and metadata may be JSON text. What no field
    takes is kept in `metadata`. Any other type is given the row as it is, and refuses what it does not know; only a key
    that is named here is renamed, to `id`, `prompt`, `label`, `tools` or `metadata`, so it has to have that field.

    Args:
        path: The file.
        scenario_type: What each line becomes.
        id_key: The key of the id, a str or whole number. A row without one is named by a hash of its content.
        prompt_key: The key of the prompt. Under its default name it may also be called `messages`.
        label_key: The key of the label. Only under its default name it may be absent. A key of any part may lead into
            a field, as "reward_model.ground_truth" does, and two parts may have the same.
        tools_key: The key of the tools. Only under its default name it may be absent.
        metadata_key: The key of an object with further fields. Only under its default name it may be absent.
        start: How many rows to pass over; they are not looked at.
        limit: How many rows to read then; None reads all.
        on_bad_line: What follows from a line that is no scenario: "raise" refuses the file, "skip" counts the line in
            `skipped` of the result. That every line is skipped is refused.
        on_duplicate: What follows from an id that an earlier row has: "raise" refuses the file, "merge" keeps the
            earlier row and counts the other in `merged`. Rows that differ under one id are refused all the same.

    Returns:
        The scenarios in the order of the lines: a list that also has `skipped`, `problems` and `merged`.

    Raises:
        ConfigurationError: If the file can't be read, or a line is no JSON object, lacks a named key, does not fit the
            type, or has the id of an earlier one. The message names file, line and field.
    """
    check_slice(start, limit)
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, parse=parse_line)
    rows = islice(read_lines(Path(path)), start, None if limit is None else start + limit)
    return collect(rows, reader, on_bad_line=on_bad_line, on_duplicate=on_duplicate)
