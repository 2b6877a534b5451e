"""The public API, as a text whose diff is reviewed."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_public_api_is_the_reviewed_one() -> None:
    """A name or a default that changes is seen in the diff, not by a user; `make api` writes it anew."""
    tool = runpy.run_path(str(ROOT / "scripts" / "update_public_api.py"))

    assert tool["render"](ROOT / "src").splitlines() == tool["SNAPSHOT"].read_text(encoding="utf-8").splitlines()
