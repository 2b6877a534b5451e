"""The door: every public name, resolved when it is first used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import artkit


def names_for_type_checkers() -> dict[str, str]:
    """The names that `artkit/__init__.py` imports under `if TYPE_CHECKING`, and from where."""
    tree = ast.parse(Path(artkit.__file__).read_text())
    guarded = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in guarded for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def test_type_checkers_and_programs_see_the_same_names() -> None:
    """An editor that knows more or less than the interpreter misleads."""
    seen = names_for_type_checkers()
    artkit_names = {name: module for name, module in seen.items() if module.startswith("artkit")}

    assert artkit_names == artkit._EXPORTS


def test_the_public_names_are_sorted_and_listed() -> None:
    """`__all__`, `dir()` and the table agree."""
    assert list(artkit.__all__) == sorted(artkit._EXPORTS)
    assert set(artkit.__all__) <= set(dir(artkit))


@pytest.mark.parametrize("name", artkit.__all__)
def test_a_public_name_resolves_to_what_its_room_offers(name: str) -> None:
    """The door gives the room's own object, and gives it in public: the room lists it too."""
    module = __import__(artkit._EXPORTS[name], fromlist=[name])

    assert getattr(artkit, name) is getattr(module, name)
    assert name in module.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    """`hasattr`, `getattr` with a default and `from artkit import …` rely on it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        artkit.no_such_name  # noqa: B018 - the access is the test
