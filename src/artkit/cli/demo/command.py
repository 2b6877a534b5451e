"""`artkit demo`: warm up, train, and show what was gained."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console

from artkit import ConfigurationError, ConsoleTracker, gather_groups
from artkit.cli.demo.record import DemoRecord
from artkit.cli.demo.summary import Figures, farewell, transcript
from artkit.cli.demo.tasks import held_out_tasks
from artkit.tracking import RunFinished, StepFinished
from artkit.training.signals import STOPPED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import art

    from artkit.cli.demo.recipe import Recipe
    from artkit.tracking import TrackingEvent

__all__ = ["run_demo"]

_UNTRAINED_TASKS = 64


def run_demo(
    directory: Path,
    recipe: Recipe,
    *,
    json_path: Path | None = None,
    file: IO[str] | None = None,
    started_s: float | None = None,
) -> None:
    """Train in `directory`, or go on there, or say that it is done.

    Args:
        directory: Where everything is kept.
        recipe: What to train.
        json_path: Where to write the figures too.
        file: Where to show progress; None means standard output.
        started_s: When the command began, by the monotonic clock; None means now.

    Raises:
        ConfigurationError: The `torch` extra is not installed.
        ResumeError: The directory holds another run.
    """
    record = DemoRecord.open(directory, seed=recipe.seed, held_out=recipe.held_out, steps=recipe.steps)
    screen = _Screen(file)
    if record.figures is None:
        began_s = (time.monotonic() if started_s is None else started_s) - record.elapsed_s
        session = _Session(directory, recipe, record, screen, began_s)
        try:
            asyncio.run(session.run())
        finally:
            record = session.record.with_(elapsed_s=time.monotonic() - began_s)
            record.save(directory)
        if record.figures is None:
            raise KeyboardInterrupt
    else:
        screen.say(f"The run in {str(directory)!r} is finished; give another --dir to begin anew.\n")
    screen.say(record.farewell)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(record.figures, indent=2) + "\n", encoding="utf-8")


class _Screen:
    """A console tracker that measures the speed, and of the report shows only why the run ended."""

    def __init__(self, file: IO[str] | None) -> None:
        self.console = Console(file=file)
        self._tracker = ConsoleTracker(file=file)
        self._sampled = 0.0
        self._seconds = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens sampled per second of gathering and training; None before the first step."""
        return self._sampled / self._seconds if self._seconds else None

    def say(self, text: str) -> None:
        """Show text as it is."""
        self.console.out(text, highlight=False)

    def handle(self, event: TrackingEvent) -> None:
        """Show one event."""
        if isinstance(event, StepFinished):
            self._sampled += (event.tokens_per_s or 0.0) * event.seconds
            self._seconds += event.seconds
        if isinstance(event, RunFinished):
            event = RunFinished(report_text=event.report_text.partition("\n")[0] + "\n")
        self._tracker.handle(event)


class _Session:
    """One session of the demo: everything that earlier ones have not done.

    Args:
        directory: Where everything is kept.
        recipe: What to train.
        record: What earlier sessions left.
        screen: Where to show it.
        began_s: When the demo would have begun in one session, by the monotonic clock.

    Attributes:
        record: What is known by now.
    """

    def __init__(self, directory: Path, recipe: Recipe, record: DemoRecord, screen: _Screen, began_s: float) -> None:
        self.record = record
        self._directory = directory
        self._recipe = recipe
        self._screen = screen
        self._began_s = began_s

    async def run(self) -> None:
        """Do what is left."""
        async with self._opened() as (model, backend):
            if await model.get_step() == 0:
                await self._warm_up(model)
            if self.record.episode_before is None:
                self._know(episode_before=await self._play(model))
            report = await self._recipe.trainer(model, backend, [self._screen]).run()
        if report.reason == STOPPED:  # there is no time to measure what was gained so far
            return
        async with self._opened() as (model, _):
            episode_after = await self._play(model)
        figures = Figures(
            seed=self._recipe.seed,
            held_out=self._recipe.held_out,
            train_steps=report.steps,
            success_untrained=self.record.success_untrained or 0.0,
            wall_s=time.monotonic() - self._began_s,
            tokens_per_s=self._screen.tokens_per_s,
            final_inference_name=report.final_inference_name,
            **Figures.measured(report.history),
        )
        text = farewell(
            figures,
            episode_before=self.record.episode_before or "",
            episode_after=episode_after,
            usage=report.usage,
        )
        self._know(figures=dataclasses.asdict(figures), farewell=text)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[art.TrainableModel[Any, Any], Any]]:
        try:
            from artkit.backends.torch import TorchBackend
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"the demo trains a model, and {error.name!r} is not installed", 'pip install "artkit-rl[torch]"'
            ) from error
        # ART's protocol types `train` with free keywords, which no backend with named options fits.
        backend: Any = TorchBackend(self._directory, seed=self._recipe.seed)
        model = self._recipe.model(self._directory)
        try:
            await model.register(backend)
            yield model, backend
        finally:
            await backend.close()

    async def _warm_up(self, model: art.TrainableModel[Any, Any]) -> None:
        gathered = await gather_groups(
            self._recipe.rollout, model, held_out_tasks()[:_UNTRAINED_TASKS], rollouts_per_group=1
        )
        right = [bool(episode.metrics.get("success")) for group in gathered.groups for episode in group.trajectories]
        self._know(success_untrained=sum(right) / len(right))
        self._screen.say("warm-up: the model imitates a novice who is right once in five, some ten seconds")
        with self._screen.console.status("warm-up"):
            await self._recipe.warm_up(model)

    async def _play(self, model: art.TrainableModel[Any, Any]) -> str:
        return transcript(await self._recipe.rollout(model, held_out_tasks()[0]))

    def _know(self, **facts: Any) -> None:
        self.record = self.record.with_(**facts)
        self.record.save(self._directory)
