"""README and docs: what they show runs."""

from __future__ import annotations

import os
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?ms)^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^ *```$")


def python_blocks(text: str) -> list[str]:
    """The page's python blocks, each behind as many empty lines as stand before it: tracebacks name the page's lines."""
    return [
        "\n" * text.count("\n", 0, match.start("code")) + match["code"]
        for match in FENCE.finditer(text)
        if match["info"] == "python"
    ]


def marked(path: Path) -> object:
    text = path.read_text()
    needs = {
        "artkit.backends.torch": pytest.mark.torch,
        "artkit.backends.torch.smollm2": pytest.mark.smollm2,
        "artkit.environments.adapters": pytest.mark.worlds,
    }
    return pytest.param(
        path, id=str(path.relative_to(ROOT)), marks=[mark for name, mark in needs.items() if name in text]
    )


def _cache(directory: Path) -> Path:
    """An empty cache of the user, but for a model that a developer has converted already."""
    cache = directory / "cache"
    if model := os.environ.get("ARTKIT_SMOLLM2"):
        (cache / "artkit").mkdir(parents=True)
        (cache / "artkit" / "smollm2-135m-instruct").symlink_to(Path(model).absolute())
    return cache


@pytest.mark.parametrize("path", [marked(path) for path in PAGES if python_blocks(path.read_text())])
@pytest.mark.timeout(180)
def test_the_python_on_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is one program, its blocks in order; it runs in an empty directory, as a reader would run it."""
    page = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", page)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(_cache(tmp_path)))

    for block in python_blocks(path.read_text()):
        exec(compile(block, str(path), "exec"), page.__dict__)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_block_is_left_out(path: Path) -> None:
    """A block that says it is Python but not just `python` would not be run."""
    infos = [match["info"].strip() for match in FENCE.finditer(path.read_text())]

    assert [info for info in infos if info != "python" and info.lower().startswith(("py", "{py"))] == []


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    """A page that moved takes its links with it."""
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())

    assert [target for target in targets if not (path.parent / target).exists()] == []
