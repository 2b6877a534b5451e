"""The examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import artkit

PACKAGE = Path(artkit.__file__).parent


def modules() -> list[object]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>>" in path.read_text():
            name = ".".join(["artkit", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
            torch = name.startswith("artkit.backends.torch")
            found.append(pytest.param(name, id=name, marks=[pytest.mark.torch] if torch else []))
    return found


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_docstrings_are_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that teaches the wrong thing is worse than none."""
    monkeypatch.chdir(tmp_path)

    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert results.failed == 0
