"""A backend that trains nothing, keeps steps and checkpoints like a real one, and writes down every call."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from artkit.bridge import storage_dir
from artkit.errors import BackendError, ConfigurationError
from artkit.testing.diary import Diary, DiaryEntry

if TYPE_CHECKING:
    import art
    from art import dev

    from artkit.testing.chat_server import ChatServer

__all__ = ["DiaryBackend"]

_leases: ContextVar[Mapping[str, int]] = ContextVar("artkit_diary_leases", default=MappingProxyType({}))

_CALLS = ("register", "prepare", "get_step", "train", "train_sft", "delete_checkpoints", "close")


class DiaryBackend:
    """A backend for tests of training loops: it satisfies the `Backend` protocol of every supported ART version.

    `train` leaves the weights alone (there are none), writes the next checkpoint as a directory, whole or not at all,
    and returns its step. Steps and checkpoints are kept on disk below the model's own directory, so a loop that was
    killed finds them again. Every call is written down before it does anything, also one that is made to fail.

    A "train" entry holds the step it leads to, the scenario ids, rewards and exceptions of each group and all options.
    Where a call was killed half-way there is a later entry for the same step: the last one counts.

    Args:
        server: What the model samples from; started at registration and closed by `close` unless it runs already. None
            is for loops that never sample.
        diary_path: A file of JSON lines for the diary; `read_diary` reads it. None keeps it in memory.
        fail: What goes wrong, by call: the exceptions to raise, first call first, None for a call that goes well. After
            the last, all goes well.
        train_metrics: What `train` returns as its metrics.

    >>> DiaryBackend().diary
    ()
    """

    def __init__(
        self,
        server: ChatServer | None = None,
        *,
        diary_path: Path | str | None = None,
        fail: Mapping[str, BaseException | Iterable[BaseException | None]] | None = None,
        train_metrics: Mapping[str, float] | None = None,
    ) -> None:
        self._server = server
        self._owns_server = False
        self._diary = Diary(None if diary_path is None else Path(diary_path))
        self._failures = {call: _failures(call, errors) for call, errors in (fail or {}).items()}
        self._train_metrics = dict({"loss/train": 0.0} if train_metrics is None else train_metrics)

    @property
    def diary(self) -> tuple[DiaryEntry, ...]:
        """Every call so far, in order."""
        return self._diary.entries

    def calls(self, call: str) -> tuple[Mapping[str, Any], ...]:
        """Return the arguments of every `call` so far, in order."""
        return tuple(entry.arguments for entry in self.diary if entry.call == call)

    def checkpoint_steps(self, model: art.Model[Any, Any]) -> frozenset[int]:
        """Return the steps of all saved checkpoints; step 0 is there from registration on."""
        directory = _checkpoints(model)
        if not directory.is_dir():
            return frozenset()
        return frozenset(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())

    async def register(self, model: art.Model[Any, Any]) -> None:
        self._record("register", model=model.name)
        if model.trainable and not self.checkpoint_steps(model):
            _write_checkpoint(model, 0)

    async def train(
        self,
        model: art.TrainableModel[Any, Any],
        trajectory_groups: Iterable[art.TrajectoryGroup],
        *,
        learning_rate: float = 5e-6,
        ppo: bool = False,
        epsilon: float | None = None,
        epsilon_high: float | None = None,
        kl_penalty_coef: float = 0.0,
        scale_rewards: bool = True,
        verbose: bool = False,
    ) -> art.TrainResult:
        """Write down the groups and options, save the next checkpoint and return its step."""
        import art

        groups = list(trajectory_groups)
        step = self._step(model) + 1
        self._record(
            "train",
            model=model.name,
            step=step,
            groups=[_summary(group) for group in groups],
            options={
                "learning_rate": learning_rate,
                "ppo": ppo,
                "epsilon": epsilon,
                "epsilon_high": epsilon_high,
                "kl_penalty_coef": kl_penalty_coef,
                "scale_rewards": scale_rewards,
                "verbose": verbose,
            },
        )
        _write_checkpoint(model, step)
        return art.TrainResult(step=step, metrics=dict(self._train_metrics))

    async def close(self) -> None:
        self._record("close")
        if self._server is not None and self._owns_server:
            self._owns_server = False
            await self._server.close()

    @asynccontextmanager
    async def exact_adapter_lease(self, model: art.TrainableModel[Any, Any], step: int) -> AsyncIterator[None]:
        """Make `step` the one that the model's inference name means, inside the block."""
        token = _leases.set({**_leases.get(), model.name: step})
        try:
            yield
        finally:
            _leases.reset(token)

    def _model_inference_name(self, model: art.Model[Any, Any], step: int | None = None) -> str:
        step = _leases.get().get(model.name) if step is None else step
        return model.name if step is None else f"{model.name}@{step}"

    async def _get_step(self, model: art.TrainableModel[Any, Any]) -> int:
        self._record("get_step", model=model.name)
        return self._step(model)

    async def _delete_checkpoint_files(self, model: art.TrainableModel[Any, Any], steps_to_keep: list[int]) -> None:
        self._record("delete_checkpoints", model=model.name, keep=sorted(steps_to_keep))
        for step in self.checkpoint_steps(model) - set(steps_to_keep):
            shutil.rmtree(_checkpoints(model) / f"{step:04d}")

    async def _prepare_backend_for_training(
        self, model: art.TrainableModel[Any, Any], config: dev.OpenAIServerConfig | None
    ) -> tuple[str, str]:
        del config  # there is no server of our own to configure
        self._record("prepare", model=model.name)
        if self._server is None:
            return "http://127.0.0.1:9/v1", "no-server"
        if not self._server.is_running:
            await self._server.start()
            self._owns_server = True
        return self._server.base_url, self._server.api_key

    async def _train_sft(
        self,
        model: art.TrainableModel[Any, Any],
        trajectories: Iterable[art.Trajectory],
        config: art.TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        del dev_config, verbose  # nothing is trained
        step = self._step(model) + 1
        options = {"learning_rate": config.learning_rate, "batch_size": config.batch_size}
        self._record("train_sft", model=model.name, step=step, trajectories=len(list(trajectories)), options=options)
        _write_checkpoint(model, step)
        yield dict(self._train_metrics)

    def _step(self, model: art.Model[Any, Any]) -> int:
        return max(self.checkpoint_steps(model), default=0)

    def _record(self, call: str, **arguments: Any) -> None:
        self._diary.write(call, arguments)
        if (error := next(self._failures.get(call, iter(())), None)) is not None:
            raise error


def _failures(call: str, errors: BaseException | Iterable[BaseException | None]) -> Any:
    if call not in _CALLS:
        raise ConfigurationError(f"fail names {call!r}, no call of a backend", f"use one of {', '.join(_CALLS)}")
    return iter((errors,) if isinstance(errors, BaseException) else errors)


def _checkpoints(model: art.Model[Any, Any]) -> Path:
    return storage_dir(model) / "checkpoints"


def _write_checkpoint(model: art.Model[Any, Any], step: int) -> None:
    """Write the checkpoint aside and rename it: there is a whole one or none."""
    final = _checkpoints(model) / f"{step:04d}"
    aside = final.with_name(f".{final.name}.{os.getpid()}")
    aside.mkdir(parents=True, exist_ok=True)
    (aside / "weights.txt").write_text(f"{model.name} at step {step}\n", encoding="utf-8")
    aside.rename(final)


def _summary(group: art.TrajectoryGroup) -> dict[str, Any]:
    import art

    if not isinstance(group, art.TrajectoryGroup):
        raise BackendError(
            f"train was given {type(group).__name__!r} in place of a finished TrajectoryGroup",
            "await the rollouts first and hand in groups",
        )
    return {
        "scenario_id": group.metadata.get("scenario_id"),
        "rewards": [trajectory.reward for trajectory in group.trajectories],
        "exceptions": [exception.message for exception in group.exceptions],
    }
