"""A batch whose gather was stopped leaves a recording."""

from __future__ import annotations

from typing import Any

import pytest

from artkit.episodes import read_groups
from artkit.errors import OutageError
from artkit.testing import Reply


async def test_what_was_played_before_the_run_was_stopped_is_recorded(workshop: Any) -> None:
    """It was paid for, and it is where to look for the cause."""
    workshop.answers.replies = {"a": "1", "b": Reply(status=401, error="no")}
    data = workshop.scenarios("a", "b")

    with pytest.raises(OutageError):
        await workshop.trainer(train=data, settings={"max_concurrent": 1, "seed": 0}).run()

    groups, _ = read_groups(workshop.model_dir / "artkit" / "recordings" / "failed-000000.jsonl", data)
    assert [group.metadata["scenario_id"] for group in groups] in (["a", "b"], ["b", "a"])
    assert [error.type for group in groups for error in group.exceptions] == ["AuthenticationError"]
