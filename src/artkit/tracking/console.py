"""The console tracker: live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from artkit.secrets import scrub
from artkit.tracking.events import (
    CheckpointsPruned,
    LoopBlocked,
    RolloutFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    ValidationFinished,
    Waiting,
    Warned,
)
from artkit.tracking.wording import counted, some, spans

if TYPE_CHECKING:
    from artkit.tracking.events import TrackingEvent

__all__ = ["ConsoleTracker"]

_REMEMBERED_STEPS = 20


class ConsoleTracker:
    """Shows a run to a person: step, reward, success, tokens per second, time left.

    On a terminal one line stays at the bottom and is redrawn; everything that should be kept (plan, validations,
    warnings, report) scrolls above it. Elsewhere each step is a line of its own. Nothing else in artkit prints.

    Args:
        file: Where to write; None means standard output.
        show: Metrics of a step or validation to show, without their split, in this order; those not logged are skipped.
    """

    def __init__(self, *, file: IO[str] | None = None, show: Sequence[str] = ("reward", "success")) -> None:
        self._console = Console(file=file, highlight=False, soft_wrap=True)
        self._show = tuple(show)
        self._bar: _Bar | None = None
        self._step_seconds: deque[float] = deque(maxlen=_REMEMBERED_STEPS)
        self._done = 0
        self._failed = 0
        self._deleted: dict[int, str] = {}
        self._pruned_at = 0
        self._is_ranked_anew = True

    def handle(self, event: TrackingEvent) -> None:
        """Show one event."""
        match event:
            case RunStarted():
                self._on_start(event)
            case RolloutFinished():
                self._on_rollout(event)
            case StepFinished():
                self._on_step(event)
            case ValidationFinished():
                self._on_validation(event)
            case CheckpointsPruned():
                self._on_pruned(event)
            case Waiting():
                self._line(f"waiting: {_waited_for(event)}")
            case LoopBlocked():
                self._line(
                    f"warning: the event loop was held up for {event.seconds:.1f} s "
                    f"by {event.where or 'many rollouts at once'}"
                )
            case Warned():
                self._line(f"warning: {event.text}")
            case RunFinished():
                self.close()
                self._line(event.report_text)
            case _:
                pass

    def close(self) -> None:
        """Give a terminal its cursor back and tell which deletions were not told yet; harmless when repeated."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._deleted:
            # What was kept is left out: checkpoints may have come since.
            self._line(f"checkpoints by step {self._pruned_at}: deleted {self._take_deleted()}")

    def _on_start(self, event: RunStarted) -> None:
        self.close()
        self._line(event.plan_text)
        if event.start_step:
            of = "" if event.total_steps is None else f" of {event.total_steps}"
            self._line(f"goes on after step {event.start_step}{of}")
        self._step_seconds.clear()
        self._done = event.start_step
        self._failed = 0
        self._is_ranked_anew = True
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._bar = _Bar(self._console, event.total_steps, event.start_step)
            # A run that ends in an error sends no last event: the cursor comes back with the tracker's end, or at exit.
            weakref.finalize(self, self._bar.stop)

    def _on_rollout(self, event: RolloutFinished) -> None:
        self._failed += event.split == "train" and event.failure is not None
        if self._bar is not None:
            self._bar.count_rollout(event.split)

    def _on_step(self, event: StepFinished) -> None:
        self._step_seconds.append(event.seconds)
        self._done += 1
        facts = self._facts(event.metrics, ("train",))
        if event.tokens_per_s is not None:
            facts += f"  {event.tokens_per_s:,.0f} tok/s"
        if event.total_steps is not None:
            facts += f"  {_clock(self._mean_step_s() * max(event.total_steps - self._done, 0))} left"
        if self._failed:
            facts += f"  {counted(self._failed, 'rollout')} failed"
            self._failed = 0
        if self._bar is not None:
            self._bar.show_step(self._done, facts)
        else:
            of = "" if event.total_steps is None else f"/{event.total_steps}"
            self._line(f"step {self._done}{of}: {facts}")

    def _on_validation(self, event: ValidationFinished) -> None:
        splits = (f"val/{event.name}", "val")
        facts = self._facts(event.metrics, splits)
        if "reward" in self._show and (passed := _highest_pass_at(event.metrics, splits)):
            facts += f"  {passed}"
        self._line(f"{event.name} at step {event.step}: {facts}  ({event.seconds:.1f} s)")
        for beside, verdict in event.comparisons.items():
            self._line(f"  beside {beside}: {verdict}")
        self._is_ranked_anew = True
        if self._bar is not None:
            self._bar.forget_rollouts()

    def _on_pruned(self, event: CheckpointsPruned) -> None:
        self._deleted |= {step: event.why_deleted.get(step, "") for step in event.deleted}
        self._pruned_at = event.step
        # It happens at every step; what is kept and why changes with a validation.
        if self._deleted and self._is_ranked_anew:
            self._is_ranked_anew = False
            kept = ", ".join(f"{step} ({why})" for step, why in sorted(event.kept.items()))
            self._line(f"checkpoints at step {event.step}: kept {kept}; deleted {self._take_deleted()}")

    def _take_deleted(self) -> str:
        """Return the deletions that were not told yet, by their reasons; they are told with it."""
        steps_by_reason: defaultdict[str, list[int]] = defaultdict(list)
        for step, why in sorted(self._deleted.items()):
            steps_by_reason[f" ({why})" if why else ""].append(step)
        self._deleted.clear()
        return ", ".join(f"{spans(steps)}{why}" for why, steps in steps_by_reason.items())

    def _mean_step_s(self) -> float:
        return sum(self._step_seconds) / len(self._step_seconds)

    def _facts(self, metrics: Mapping[str, float], splits: Sequence[str]) -> str:
        return "  ".join(filter(None, (_fact(metrics, name, splits) for name in self._show)))

    def _line(self, text: str) -> None:
        # `out` takes the text as it is: what a model or a user wrote is neither markup nor an emoji code.
        self._console.out(scrub(text), highlight=False)


class _Bar:
    """The line at the bottom of a terminal."""

    def __init__(self, console: Console, total_steps: int | None, start_step: int) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[steps]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[facts]}  {task.fields[rollouts]}", markup=False),
            console=console,
            refresh_per_second=4,
            transient=True,
        )
        self._total_steps = total_steps
        self._rollouts: dict[str, int] = {}
        self._task: TaskID = self._progress.add_task(
            "", total=total_steps, completed=start_step, steps=self._steps(start_step), facts="", rollouts=""
        )
        self._progress.start()

    def _steps(self, done: int) -> str:
        return f"step {done}" if self._total_steps is None else f"step {done}/{self._total_steps}"

    def count_rollout(self, split: str) -> None:
        """Count a rollout of the step, or of a validation, that is under way."""
        self._rollouts[split] = self._rollouts.get(split, 0) + 1
        self._progress.update(self._task, rollouts=counted(self._rollouts[split], f"{split} rollout"))

    def show_step(self, done: int, facts: str) -> None:
        """Show a finished step."""
        self.forget_rollouts()
        self._progress.update(self._task, completed=done, steps=self._steps(done), facts=facts)

    def forget_rollouts(self) -> None:
        """Count rollouts from 0 again."""
        self._rollouts.clear()
        self._progress.update(self._task, rollouts="")

    def stop(self) -> None:
        """Give the line and the cursor back; harmless when repeated."""
        self._progress.stop()


def _waited_for(event: Waiting) -> str:
    what = "no rollout has ended" if event.running else "no group was scored"
    facts = [f"{what} for {_clock(event.seconds)}"]
    if event.running:
        facts.append(f"still playing {counted(event.running, 'rollout')} of {some(event.scenarios)}")
    if event.scoring:
        are = "is" if len(event.scoring) == 1 else "are"
        of = some(list(dict.fromkeys(event.scoring)))
        facts.append(f"{counted(len(event.scoring), 'group')} {are} being scored, of {of}")
    return "; ".join(facts)


def _lookup(metrics: Mapping[str, float], name: str, splits: Sequence[str]) -> float | None:
    for key in (*(f"{split}/{name}" for split in splits), name):
        if key in metrics:
            return metrics[key]
    return None


def _fact(metrics: Mapping[str, float], name: str, splits: Sequence[str]) -> str:
    """Return a metric with its interval, if it has one; empty where it was not logged."""
    # A validation that could not score enough has this instead, which ranks nothing.
    for key in (name, f"{name}_incomplete"):
        if (value := _lookup(metrics, key, splits)) is not None:
            low, high = (_lookup(metrics, f"{key}_{end}", splits) for end in ("low", "high"))
            interval = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
            return f"{key} {value:.3f}{interval}"
    return ""


def _highest_pass_at(metrics: Mapping[str, float], splits: Sequence[str]) -> str:
    """Return the pass@k with the largest k; pass@1 is the mean itself."""
    names = {name.rpartition("/")[2] for name in metrics}
    for k in sorted((int(name[5:]) for name in names if name.startswith("pass@") and name[5:].isdigit()), reverse=True):
        if (value := _lookup(metrics, f"pass@{k}", splits)) is not None:
            return f"pass@{k} {value:.2f}"
    return ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
