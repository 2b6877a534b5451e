"""Whether W&B is asked for, and whether it can work."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

__all__ = ["check_wandb", "is_wandb_offline", "logs_to_wandb"]

_HINT = 'or leave "wandb" out of report_metrics; report_metrics=[] reports to ART\'s own files alone'


def check_wandb(model: art.Model[Any, Any]) -> None:
    """Refuse a model that asks for W&B where nothing would arrive there: ART leaves it out without a word.

    Asking is to name "wandb" in `report_metrics`. With `report_metrics=None` ART logs to W&B if it finds a key, and a
    run without one is as it should be.

    Raises:
        ConfigurationError: W&B is asked for, and there is no key, or it is switched off, or not installed.
    """
    if "wandb" not in (model.report_metrics or ()):
        return
    asked = 'report_metrics asks for "wandb"'
    if _mode() == "disabled":
        raise ConfigurationError(
            f"{asked}, and WANDB_MODE={os.environ['WANDB_MODE']!r} switches it off", f"unset WANDB_MODE, {_HINT}"
        )
    # A directory `wandb`, where runs are kept, looks like a package without a file of its own.
    spec = importlib.util.find_spec("wandb")
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"{asked}, and the package wandb is not installed", f"pip install wandb, {_HINT}")
    if not is_wandb_offline() and not os.environ.get("WANDB_API_KEY"):
        raise ConfigurationError(
            f"{asked}, and the environment variable WANDB_API_KEY is not set; ART looks nowhere else for a key, also "
            "not where `wandb login` keeps it",
            f"export WANDB_API_KEY=…, or WANDB_MODE=offline to keep the run on this machine, {_HINT}",
        )


def logs_to_wandb(model: art.Model[Any, Any]) -> bool:
    """Whether `model.log` goes to W&B: by ART's rule, or because the model asks for it."""
    if model.report_metrics is None:
        return bool(os.environ.get("WANDB_API_KEY")) and _mode() != "disabled"
    return "wandb" in model.report_metrics


def is_wandb_offline() -> bool:
    """Whether the environment keeps W&B's runs on this machine."""
    return _mode() in {"offline", "dryrun"}


def _mode() -> str:
    return os.environ.get("WANDB_MODE", "").lower()
