"""The command line: `artkit`."""

from artkit.cli.main import main

__all__ = ["main"]
