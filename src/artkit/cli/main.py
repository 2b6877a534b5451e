"""The `artkit` command: parsing, and errors as text. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from artkit.errors import ArtkitError

__all__ = ["main"]

_INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; None means the process's own.

    Returns:
        The exit code: 0, 1 after an error that artkit explains, 130 after Ctrl-C. Wrong arguments exit with 2.
    """
    started_s = time.monotonic()
    arguments = _parser().parse_args(argv)
    _settle_process()
    try:
        # Here, because `--help` must not wait for torch and art, and they must not be loaded before the settings.
        from artkit.cli.demo.command import run_demo
        from artkit.cli.demo.recipe import Recipe

        recipe = Recipe(seed=arguments.seed, held_out=arguments.held_out, steps=arguments.steps)
        run_demo(arguments.dir, recipe, json_path=arguments.json, started_s=started_s)
    except ArtkitError as error:
        sys.stderr.write(f"artkit: {error.problem}\nhint: {error.hint}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("artkit: interrupted; the same command goes on from the last finished step\n")
        return _INTERRUPTED
    return 0


def _settle_process() -> None:
    """Set what has to be set before art and torch are loaded, for this process and where the user has not."""
    # ART's libraries would fetch a price list from the network; nothing here is paid for.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("WANDB_MODE", "disabled")
    # Threads that spin while they wait slow a model this small down many times on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="artkit", description="Train LLM agents by reinforcement learning on ART.")
    parser.add_argument("--version", action="version", version=f"artkit {version('artkit-rl')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="train a small agent here and now, without a GPU or a key",
        description="Train a small language model by GRPO on a multi-turn text world, in about a minute on two cores. "
        "Run again in the same directory, it goes on where it stopped.",
    )
    demo.add_argument("--seed", type=int, default=0, help="of weights, tasks and sampling (default: %(default)s)")
    demo.add_argument(
        "--dir", type=Path, default=Path("artkit-demo"), help="where the run is kept (default: ./%(default)s)"
    )
    demo.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    demo.add_argument(
        "--held-out",
        type=_held_out,
        default=512,
        metavar="N",
        help="held-out tasks to measure success on, of 1520 (default: %(default)s)",
    )
    demo.add_argument(
        "--steps", type=_steps, default=50, metavar="N", help="training steps after the warm-up (default: %(default)s)"
    )
    return parser


def _held_out(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1520:
        raise argparse.ArgumentTypeError(f"{count} is not in 1..1520")
    return count


def _steps(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is not positive")
    return count
