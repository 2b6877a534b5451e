"""Writes tests/house/public_api.txt: every public name with its signature, read from the source without importing it.

The text does not depend on the Python or openpipe-art in use, so one snapshot serves all.
Run by `make api`; its diff is reviewed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["DOORS", "SNAPSHOT", "render"]

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "tests" / "house" / "public_api.txt"
DOORS = ("artkit", "artkit.backends.torch", "artkit.testing")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def render(source: Path) -> str:
    """The public API of the package whose parent directory is `source`."""
    sections = []
    for door in DOORS:
        is_lazy = door == "artkit"
        names = _listed(_parse(source, "artkit.exports"), "EXPORTS") if is_lazy else _listed(_parse(source, door))
        lines = [line for name in sorted(names) for line in _describe(source, door, name)]
        sections.append("\n".join([f"# from {door} import …", *lines]))
    return "\n\n".join(sections) + "\n"


def _parse(source: Path, module: str) -> ast.Module:
    path = source.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _listed(tree: ast.Module, table: str = "__all__") -> list[str]:
    """The names in `__all__`, or in the door's table of lazy names."""
    found: list[str] = []
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == table:
                value = getattr(statement, "value", None)
                items = value.elts if isinstance(value, ast.List | ast.Tuple) else getattr(value, "keys", [])
                found += [str(item.value) for item in items if isinstance(item, ast.Constant)]
    return sorted(set(found))


def _describe(source: Path, module: str, name: str) -> Iterator[str]:
    """The lines for one name, found by following `from … import` to where it is defined."""
    for node in ast.walk(_parse(source, module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("artkit"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield from _describe(source, node.module or "", alias.name)
                    return
    for statement in _parse(source, module).body:
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            yield from _class(statement)
        elif isinstance(statement, Function) and statement.name == name:
            yield from _function(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and _target(statement) == name:
            yield ast.unparse(statement)


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return ast.unparse(target)


def _function(node: Function, indent: str = "") -> Iterator[str]:
    for decorator in node.decorator_list:
        yield f"{indent}@{ast.unparse(decorator)}"
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    yield f"{indent}{keyword} {node.name}({ast.unparse(node.args)}){returns}"


def _class(node: ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        yield f"@{ast.unparse(decorator)}"
    bases = ", ".join(ast.unparse(base) for base in [*node.bases, *node.keywords])
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    for member in node.body:
        if isinstance(member, Function) and _is_public(member.name):
            yield from _function(member, "    ")
        elif isinstance(member, ast.Assign | ast.AnnAssign) and _is_public(_target(member)):
            yield f"    {ast.unparse(member)}"


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("_", "__init__", "__call__", "__or__", "__aenter__", "__aexit__")


if __name__ == "__main__":
    SNAPSHOT.write_text(render(ROOT / "src"), encoding="utf-8")
    print(f"wrote {SNAPSHOT.relative_to(ROOT)}")
