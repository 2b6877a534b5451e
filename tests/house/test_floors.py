"""The house's floors, and the one room that reaches into ART."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "artkit"
OUTSIDE_BRIDGE = sorted(path for path in SOURCE.rglob("*.py") if (SOURCE / "bridge") not in path.parents)


def test_a_room_imports_only_from_lower_floors() -> None:
    """The contracts in pyproject.toml hold, type-only imports included; only backends/torch loads torch."""
    # In a process of its own: it silences every logger that there is.
    linted = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert linted.returncode == 0, linted.stdout + linted.stderr


def private_parts(tree: ast.AST) -> list[str]:
    """Private modules and names of ART that a module imports, and private names it reaches for by string."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "art":
            found += [part for part in [*node.module.split("."), *(a.name for a in node.names)] if is_private(part)]
        elif isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
            found += [part for path in paths if path[0] == "art" for part in path if is_private(part)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and "attr" in node.func.id:
            found += [a.value for a in node.args if isinstance(a, ast.Constant) and is_private(a.value)]
    return found


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("path", OUTSIDE_BRIDGE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_bridge_reaches_arts_private_names(path: Path) -> None:
    """What may break with ART's next release is in one room; private attributes are ruff's to find (SLF001)."""
    assert private_parts(ast.parse(path.read_text())) == []
