"""The `artkit` command: parsing, and errors as text. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from artkit.errors import ArtkitError, ConfigurationError

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # argparse names its class so

__all__ = ["main"]

_INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; None means the process's own.

    Returns:
        The exit code: 0; 1 after an error that artkit explains, where `check` finds a broken promise, or where nobody
        reads on; 2 where `check` or `replay` cannot do what was asked; 130 after Ctrl-C. Wrong arguments exit with 2.
    """
    started_s = time.monotonic()
    arguments = _parser().parse_args(argv)
    _settle_process()
    try:
        status = int(arguments.run(arguments, started_s))
        sys.stdout.flush()  # now, so that nobody is left to tell of a pipe that was closed
    except BrokenPipeError:  # `artkit … | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ArtkitError as error:
        sys.stderr.write(f"artkit: {error.problem}\nhint: {error.hint}\n")
        return arguments.error_status if isinstance(error, ConfigurationError) else 1
    except KeyboardInterrupt:
        sys.stderr.write(f"artkit: {arguments.when_interrupted}\n")
        return _INTERRUPTED
    return status


# Each command is imported when it runs, because `--help` must not wait for torch and art, and they must not be loaded
# before the settings.


def _run_demo(arguments: argparse.Namespace, started_s: float) -> int:
    from artkit.cli.demo.command import run_demo
    from artkit.cli.demo.recipe import Recipe

    recipe = Recipe(seed=arguments.seed, held_out=arguments.held_out, steps=arguments.steps)
    run_demo(arguments.dir, recipe, json_path=arguments.json, started_s=started_s)
    return 0


def _run_check(arguments: argparse.Namespace, _: float) -> int:
    from artkit.cli.check import run_check

    return run_check(
        arguments.environment,
        scenarios=arguments.scenarios,
        seed=arguments.seed,
        quick=arguments.quick,
        max_scenarios=arguments.max_scenarios,
        time_limit_s=arguments.time_limit,
    )


def _run_replay(arguments: argparse.Namespace, _: float) -> int:
    from artkit.cli.replay import list_episodes, show_episode

    if arguments.list:
        list_episodes(arguments.file)
    else:
        show_episode(arguments.file, number=arguments.episode)
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
    parser.set_defaults(error_status=2, when_interrupted="interrupted")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_check(commands)
    _add_replay(commands)
    return parser


def _add_demo(commands: _Commands) -> None:
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
        "--steps",
        type=_positive,
        default=50,
        metavar="N",
        help="training steps after the warm-up (default: %(default)s)",
    )
    demo.set_defaults(
        run=_run_demo,
        error_status=1,
        when_interrupted="interrupted; the same command goes on from the last finished step",
    )


def _add_check(commands: _Commands) -> None:
    check = commands.add_parser(
        "check",
        help="find out whether an environment keeps its promises",
        description="Play an environment many times over, without a model, and name each promise it breaks, with the "
        "likely cause. The exit status is 0 if it breaks none, 1 if it does, 2 if it could not be played.",
    )
    check.add_argument("environment", metavar="MODULE:CLASS", help="the class, or a function that makes one")
    check.add_argument("--scenarios", type=Path, metavar="FILE", help="JSON lines, one scenario each")
    check.add_argument("--seed", type=int, default=0, help="of the replies that are played (default: %(default)s)")
    check.add_argument("--quick", action="store_true", help="the short form, of about 2 s, that runs before a training")
    check.add_argument("--max-scenarios", type=int, metavar="N", help="play the first N (default: 8, or 2 if quick)")
    check.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="end with what was found by then (default: 120, or 2 if quick)",
    )
    check.set_defaults(run=_run_check)


def _add_replay(commands: _Commands) -> None:
    replay = commands.add_parser(
        "replay",
        help="show a recorded episode turn by turn",
        description="Show an episode of a recording turn by turn. The recordings of a run are in the directory "
        "artkit/recordings beside the model's files.",
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="the recording, JSON lines")
    which = replay.add_mutually_exclusive_group()
    which.add_argument("--episode", type=_positive, default=1, metavar="N", help="which, from 1 (default: %(default)s)")
    which.add_argument("--list", action="store_true", help="list the episodes instead, a line each")
    replay.set_defaults(run=_run_replay)


def _held_out(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1520:
        raise argparse.ArgumentTypeError(f"{count} is not in 1..1520")
    return count


def _positive(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is not positive")
    return count
