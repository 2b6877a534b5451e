"""Packages that artkit does not depend on."""

from __future__ import annotations

import importlib
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["optional_module"]


def optional_module(name: str, *, extra: str) -> Any:
    """Import `name`, a package or a module of one.

    Raises:
        ConfigurationError: It is not installed; the hint names the extra of artkit that brings it.
    """
    package = name.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # it is there, and something that it needs is not
        raise ConfigurationError(f"{package} is not installed", f'pip install "artkit-rl[{extra}]"') from error
    return importlib.import_module(name)
