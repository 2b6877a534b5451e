"""What `import artkit` does, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import artkit

PROBE = """
import json, logging, os, sys, warnings
before = dict(os.environ), list(logging.root.handlers), list(warnings.filters)
import artkit
after = dict(os.environ), list(logging.root.handlers), list(warnings.filters)
heavy = {"art", "torch", "transformers", "openai", "litellm", "wandb", "datasets", "numpy", "polars", "pydantic"}
print(json.dumps([before == after, sorted(heavy & set(sys.modules))]))
"""


def test_importing_artkit_loads_nothing_heavy_and_changes_nothing(tmp_path: Path) -> None:
    """It reads no .env, sets no variable, configures no logging, and loads neither torch nor ART."""
    (tmp_path / ".env").write_text("FROM_DOTENV=1\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHON_DOTENV_DISABLED"}

    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert (json.loads(done.stdout), done.stderr) == ([True, []], "")


def test_the_tests_see_the_installed_wheel() -> None:
    """A file that the wheel forgot is missed here, not by a user; `make test` sets the variable."""
    if os.environ.get("ARTKIT_TEST_INSTALLED"):
        assert "site-packages" in Path(artkit.__file__).parts
        assert (Path(artkit.__file__).parent / "py.typed").is_file()
