"""How the source is laid out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src" / "artkit").rglob("*.py"))
PLACES = ("*.md", "*.toml", "Makefile", ".ci/*", "constraints/*", "scripts/*", "src/**/*", "docs/**/*", "examples/**/*")
TEXTS = sorted(
    path for place in PLACES for path in ROOT.glob(place) if path.is_file() and "__pycache__" not in path.parts
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_file_stays_under_300_lines(path: Path) -> None:
    """One noun per file: a longer one holds two."""
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_and_what_it_offers(path: Path) -> None:
    """The docstring is the file's heading, `__all__` its table of contents."""
    tree = ast.parse(path.read_text())
    assigned = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    }

    assert ast.get_docstring(tree)
    assert "__all__" in assigned or path.name == "__main__.py" or len(tree.body) == 1


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_nothing_is_promised_and_no_machine_is_named(path: Path) -> None:
    """Work that is put off is absent, and what is here runs on anybody's machine."""
    text = path.read_text()

    assert re.findall(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b", text) == []
    assert re.findall(r"(?<![\w.*)}\"])/(?:home|root|Users|work|opt|tmp)/\w*", text) == []


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=name)
def test_a_test_gives_its_reason(path: Path) -> None:
    """The name is the rule; the docstring says why it is one."""
    tests = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert [test.name for test in tests if not ast.get_docstring(test)] == []
