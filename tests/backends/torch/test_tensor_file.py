"""Files of tensors."""

from __future__ import annotations

from pathlib import Path

import torch

from artkit.backends.torch.tensor_file import write_tensors


def test_a_file_of_tensors_may_be_read_by_whoever_may_read_others(tmp_path: Path) -> None:
    """A server under another user loads the adapters that were trained."""
    (tmp_path / "other").touch()

    write_tensors(tmp_path / "tensors", {"one": torch.ones(3)}, {"format": "pt"})

    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "other").stat().st_mode
