"""Whose code a line is: what a user can mend comes before what was called from there."""

from __future__ import annotations

import sysconfig
from pathlib import Path

__all__ = ["code_rank"]

_ARTKIT = Path(__file__).resolve().parents[1]
_STANDARD = Path(sysconfig.get_path("stdlib")).resolve()
_INSTALLED = {"site-packages", "dist-packages"}
_TYPED_IN = ("<stdin>", "<ipython-input", "<python-input")


def code_rank(path: str) -> int:
    """Return 0 for the user's own code, 1 for libraries, 2 for the standard library and 3 for what is in no file.

    Args:
        path: The file, as frames and tracebacks name it. artkit is a library.

    >>> code_rank("games/game.py"), code_rank("/lib/site-packages/a/b.py"), code_rank("<frozen runpy>")
    (0, 1, 3)
    """
    if path.startswith("<"):
        return 0 if path.startswith(_TYPED_IN) else 3
    file = Path(path).resolve()
    if file.is_relative_to(_ARTKIT) or not _INSTALLED.isdisjoint(file.parts):
        return 1
    return 2 if file.is_relative_to(_STANDARD) else 0
