"""What the demo remembers in its directory, so that the same command can go on, or say that it is done."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from artkit.errors import ResumeError

__all__ = ["DemoRecord"]

_NAME = "demo.json"


@dataclass(frozen=True, kw_only=True)
class DemoRecord:
    """What was asked for, and what is known so far.

    Attributes:
        seed: Of weights, tasks and sampling.
        held_out: How many held-out tasks success is measured on.
        steps: How many training steps by rewards.
        elapsed_s: Seconds that earlier sessions took.
        success_untrained: The share of tasks that the model answers before it has learnt anything.
        episode_before: One episode after the warm-up, as text.
        figures: The figures of the finished run; None until then.
        farewell: What the finished run said last.
    """

    seed: int
    held_out: int
    steps: int
    elapsed_s: float = 0.0
    success_untrained: float | None = None
    episode_before: str | None = None
    figures: dict[str, Any] | None = None
    farewell: str = ""

    @classmethod
    def open(cls, directory: Path, *, seed: int, held_out: int, steps: int) -> Self:
        """Read the record of `directory`, or begin one.

        Raises:
            ResumeError: The directory holds a run with other options, or a record that cannot be read.
        """
        path = directory / _NAME
        if not path.exists():
            return cls(seed=seed, held_out=held_out, steps=steps)
        try:
            record = cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ResumeError(
                f"{str(path)!r} is no record of this demo: {error}", "choose another directory with --dir"
            ) from error
        for name, asked in (("seed", seed), ("held_out", held_out), ("steps", steps)):
            found = getattr(record, name)
            if found != asked:
                option = "--" + name.replace("_", "-")
                raise ResumeError(
                    f"{str(directory)!r} holds a run with {option} {found}, not {asked}",
                    f"go on with {option} {found}, choose another directory with --dir, or delete this one",
                )
        return record

    def with_(self, **changes: Any) -> Self:
        """Return the record with `changes`."""
        return dataclasses.replace(self, **changes)

    def save(self, directory: Path) -> None:
        """Write the record; a kill leaves the old one or the new one, never half of either."""
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f"{_NAME}.partial"
        with partial.open("w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(directory / _NAME)
