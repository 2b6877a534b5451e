"""Asking for W&B where it cannot work is an error, and not asking is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from artkit import ConfigurationError, make_trainable_model
from artkit.bridge import check_wandb, logs_to_wandb


def model(report_metrics: list[str] | None) -> Any:
    return make_trainable_model(name="agent", project="wandb", base_model="b", report_metrics=report_metrics)


@pytest.fixture(autouse=True)
def _as_on_a_fresh_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and no mode: W&B is online by default."""
    monkeypatch.delenv("WANDB_MODE")


def test_without_a_key_asking_is_refused() -> None:
    """ART would train for days and log nothing there."""
    with pytest.raises(ConfigurationError, match=r"WANDB_API_KEY is not set.*WANDB_MODE=offline"):
        check_wandb(model(["wandb"]))


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what a script leaves whose own variable was not set."""
    monkeypatch.setenv("WANDB_API_KEY", "")

    with pytest.raises(ConfigurationError, match="WANDB_API_KEY is not set"):
        check_wandb(model(["wandb"]))


def test_where_it_is_switched_off_asking_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a key: W&B takes every row and throws it away."""
    monkeypatch.setenv("WANDB_API_KEY", "made-up")
    monkeypatch.setenv("WANDB_MODE", "disabled")

    with pytest.raises(ConfigurationError, match=r"WANDB_MODE='disabled'.*unset WANDB_MODE"):
        check_wandb(model(["wandb"]))


@pytest.mark.parametrize("leftover", [False, True])
def test_where_it_is_not_installed_asking_is_refused(
    leftover: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory `wandb` in which an earlier program kept its runs is no package."""
    if leftover:
        (tmp_path / "wandb").mkdir()
    monkeypatch.setenv("WANDB_API_KEY", "made-up")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.split(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(ConfigurationError, match=r"not installed.*pip install wandb"):
        check_wandb(model(["wandb"]))


@pytest.mark.parametrize("mode", ["offline", "OFFLINE", "dryrun"])
def test_offline_needs_no_key(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves the machine."""
    monkeypatch.setenv("WANDB_MODE", mode)

    check_wandb(model(["wandb"]))

    assert logs_to_wandb(model(["wandb"]))


@pytest.mark.parametrize(
    ("report_metrics", "key", "mode", "logs"),
    [
        (None, None, None, False),
        (None, "made-up", None, True),
        (None, "made-up", "offline", True),
        (None, "made-up", "disabled", False),
        (None, None, "offline", False),
        ([], "made-up", None, False),
    ],
)
def test_who_does_not_ask_gets_what_art_does(
    report_metrics: list[str] | None, key: str | None, mode: str | None, logs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment is enough for it, and an empty list keeps it away."""
    for name, value in {"WANDB_API_KEY": key, "WANDB_MODE": mode}.items():
        if value is not None:
            monkeypatch.setenv(name, value)

    check_wandb(model(report_metrics))

    assert logs_to_wandb(model(report_metrics)) is logs
