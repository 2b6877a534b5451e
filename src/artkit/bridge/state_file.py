"""ART's state.json, which is rewritten in place: a copy that a death in the middle of it cannot harm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from artkit.bridge.checkpoints import storage_dir
from artkit.bridge.durable import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    import art

__all__ = ["keep_state_copy", "mend_state"]


def keep_state_copy(model: art.Model[Any, Any]) -> None:
    """Keep a copy of the model's `state.json` as it is now; a no-op where there is none."""
    state, copy = _paths(model)
    if state.exists():
        with replace_file(copy) as file:
            file.write(state.read_bytes())


def mend_state(model: art.Model[Any, Any]) -> str | None:
    """Put the copy in the place of a `state.json` that cannot be read, without which ART's log always fails.

    Returns:
        What was done, in words; None where nothing was wrong.
    """
    state, copy = _paths(model)
    if not state.exists() or _is_json(state):
        return None
    state.replace(state.with_suffix(".torn"))
    if copy.exists() and _is_json(copy):
        state.write_bytes(copy.read_bytes())
        return f"{state} was cut off while it was written; put back from the last step's copy"
    return f"{state} was cut off while it was written and had no copy: ART's cumulative metrics begin anew"


def _paths(model: art.Model[Any, Any]) -> tuple[Path, Path]:
    directory = storage_dir(model)
    return directory / "state.json", directory / "artkit" / "state.json"


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
