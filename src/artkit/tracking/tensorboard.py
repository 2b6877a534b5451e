"""The TensorBoard tracker: curves over the training step, and what was said about the run."""

from __future__ import annotations

import os
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.secrets import scrub
from artkit.tracking.events import RunFinished, RunStarted, StepFinished, ValidationFinished, Warned

if TYPE_CHECKING:
    from artkit.tracking.events import TrackingEvent

__all__ = ["TensorBoardTracker"]

# What a row says about its place is the axis here, and no curve.
_AXES = frozenset({"step", "training_step"})
_MODULES = (
    "tensorboardX.event_file_writer",
    "tensorboardX.proto.event_pb2",
    "tensorboardX.summary",
    "tensorboardX.proto.summary_pb2",
)


class TensorBoardTracker:
    """Writes every number of a step or validation as a point of its curve, and plan, warnings and report as text.

    Curves have ART's names (`train/reward`, …); beside them stand `artkit/step_seconds` and `artkit/tokens_per_s`.
    Each event is on disk when it is handled. A later session of the run writes a further file into the same directory,
    and TensorBoard joins the files to one curve.

    Needs the extra `tensorboard`: `pip install 'artkit-rl[tensorboard]'`. Show the directory, or one above it that
    holds several runs, with `tensorboard --logdir`.

    Args:
        directory: The run's directory; made on the first event.

    Raises:
        ConfigurationError: The package tensorboardX is not installed.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._records = _Records()
        self._file: Any = None
        self._close_file: Callable[[], object] | None = None
        self._step = 0
        self._warnings: list[str] = []
        self._validated: defaultdict[str, dict[int, float]] = defaultdict(dict)

    def handle(self, event: TrackingEvent) -> None:
        """Write one event.

        Raises:
            OSError: The file cannot be written.
        """
        match event:
            case RunStarted():
                self._go_to(event.start_step)
                self._write_text("plan", event.plan_text)
            case StepFinished():
                self._go_to(event.step)
                speed = {"artkit/step_seconds": event.seconds, "artkit/tokens_per_s": event.tokens_per_s}
                self._write_scalars(
                    event.step, {**event.metrics, **{key: value for key, value in speed.items() if value}}
                )
            case ValidationFinished():
                self._write_validation(event)
            case Warned():
                # TensorBoard shows one text for each step.
                self._warnings.append(event.text)
                self._write_text("warnings", "\n".join(self._warnings))
            case RunFinished():
                self._write_text("report", event.report_text)
            case _:
                return
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; harmless when repeated. A further event begins another."""
        if self._close_file is not None:
            self._close_file()
        self._file = self._close_file = None

    def _go_to(self, step: int) -> None:
        if step > self._step:
            self._step = step
            self._warnings.clear()

    def _write_validation(self, event: ValidationFinished) -> None:
        """Write the points of a validation, and once more those of later steps that are there already.

        TensorBoard takes a step that goes back for a run begun again from there, and drops what the curve had beyond.
        """
        numbers = _numbers(event.metrics)
        self._write_scalars(event.step, numbers)
        later: defaultdict[int, dict[str, float]] = defaultdict(dict)
        for name, value in numbers.items():
            for step, known in self._validated[name].items():
                if step > event.step:
                    later[step][name] = known
            self._validated[name][event.step] = value
        for step in sorted(later):
            self._write_scalars(step, later[step])

    def _write_scalars(self, step: int, metrics: Mapping[str, object]) -> None:
        if numbers := _numbers(metrics):
            self._write(step, self._records.scalars(numbers))

    def _write_text(self, tag: str, text: str) -> None:
        self._write(self._step, self._records.text(tag, scrub(text)))

    def _write(self, step: int, summary: Any) -> None:
        if self._file is None:
            self._file = self._records.open(self.directory)
            # A run that ends in an error sends no last event: the file is closed with the tracker's end, or at exit.
            self._close_file = weakref.finalize(self, self._file.close)
        self._file.write_event(self._records.event(step, summary))


class _Records:
    """TensorBoard's records. Its writer is used without the queue around it, which a flush does not wait for."""

    def __init__(self) -> None:
        try:
            event_file_writer, event_pb2, summary, summary_pb2 = map(import_module, _MODULES)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"TensorBoardTracker needs tensorboardX, which is not installed: {error}",
                "pip install 'artkit-rl[tensorboard]'",
            ) from error
        self._writer: Any = event_file_writer.EventsWriter
        self._text: Any = summary.text
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary

    def open(self, directory: Path) -> Any:
        """Begin a file. Files are read in the order of their names, which by themselves only tell seconds apart."""
        directory.mkdir(parents=True, exist_ok=True)
        return self._writer(str(directory / "events"), f".{time.time_ns():020}.{os.getpid()}")

    def scalars(self, numbers: Mapping[str, float]) -> Any:
        values = [self._summary.Value(tag=_utf8(name), simple_value=number) for name, number in numbers.items()]
        return self._summary(value=values)

    def text(self, tag: str, text: str) -> Any:
        # The text is shown as Markdown; a block keeps its lines, and what a model wrote stays what it is.
        return self._text(tag, f"~~~\n{_utf8(text)}\n~~~")

    def event(self, step: int, summary: Any) -> Any:
        return self._event(wall_time=time.time(), step=step, summary=summary)


def _numbers(metrics: Mapping[str, object]) -> dict[str, float]:
    return {str(name): float(value) for name, value in metrics.items() if isinstance(value, Real) and name not in _AXES}


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
