"""A registered model: what is served under its name, and what is trained."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.checkpoints import CheckpointStore, reading
from artkit.backends.torch.directory_lock import DirectoryLock
from artkit.backends.torch.learner import Learner
from artkit.backends.torch.lora_settings import LoraSettings
from artkit.backends.torch.step_leases import StepLeases
from artkit.errors import BackendError, CheckpointError, ConfigurationError

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.policy_settings import PolicySettings

__all__ = ["Policy"]

# A model this small is computed fastest by one thread, and then the same way every time.
_SMALL_PARAMETERS = 5_000_000

# Older steps kept in memory: a rollout that began before a weight sync asks for them, an evaluation for one.
_OLD_STEPS_IN_MEMORY = 2


class Policy:
    """A model's weights over time.

    Opening it takes the newest whole checkpoint, or writes that of step 0. What is served is always a frozen copy.

    Args:
        name: The inference name.
        base_model: As in `model.base_model`.
        directory: The model's storage directory.
        settings: How it is computed, and what of it is trained.

    Raises:
        ConfigurationError: The base model cannot be used, or the directory holds checkpoints of another base model, or
            such that were trained with other LoRA settings.
        BackendError: Another backend has the directory open.
    """

    def __init__(self, *, name: str, base_model: str, directory: Path, settings: PolicySettings) -> None:
        self.name, self.directory = name, directory
        self._settings, self._base_seed = settings, settings.seed
        self.leases = StepLeases()
        self.base = BaseModel.open(base_model)
        self._num_unseeded = 0
        self._is_training = False
        self._reference: tuple[int | None, Decoder] | None = None
        self._is_moved = False
        self._lock = threading.Lock()
        # Of whoever reads a checkpoint, which takes long: others that want the same one find it.
        self._reading = threading.Lock()
        self._old: OrderedDict[int, Decoder] = OrderedDict()
        self._directory_lock = DirectoryLock(directory)
        try:
            self._open()
        except BaseException:
            self._directory_lock.release()
            raise

    def _open(self) -> None:
        self.checkpoints = CheckpointStore(self.directory / "checkpoints")
        steps = self.checkpoints.steps()
        step = max(steps, default=0)
        if steps:
            facts = self.checkpoints.facts(step)
            with reading(self.checkpoints.path(step)):
                base_model, base_seed = facts["base_model"], int(facts["base_seed"])
            if base_model != self.base.name:
                raise ConfigurationError(
                    f"base_model={self.base.name!r}, but {str(self.directory)!r} holds checkpoints of {base_model!r}",
                    "use another run_name (or name), or the base model that the run began with",
                )
            self._check_lora(facts.get("lora"))
            # The base weights are those that the run began with, whatever the backend's seed is today.
            self._base_seed = base_seed
        self.learner = Learner(self.base, self._settings, seed=self._base_seed)
        if steps:
            self.learner.load(self.checkpoints.path(step))
        else:
            self._write(step)
        # One attribute, replaced as a whole: the event loops read it without a lock.
        self._served = (step, self.learner.weights.snapshot())

    @property
    def step(self) -> int:
        """The current step."""
        return self._served[0]

    def advance(self) -> int:
        """Save the learner's weights as the next step, and serve them from now on.

        Replies in the making keep the weights that they began with.

        Returns:
            The new step.
        """
        step = self.step + 1
        # Before the checkpoint: once that is there, nothing may fail any more.
        snapshot = self.learner.weights.snapshot()
        self._write(step)
        with self._lock:
            self._remember(*self._served)
            self._served = (step, snapshot)
            self._num_unseeded = 0
        return step

    @contextmanager
    def training(self) -> Iterator[None]:
        """Keep everybody else from training this model meanwhile.

        Raises:
            BackendError: Somebody does already.
        """
        if self._is_training:
            raise BackendError(
                f"{self.name!r} is being trained already", "await one call of train or train_sft before the next"
            )
        self._is_training = True
        try:
            yield
        finally:
            self._is_training = False

    @contextmanager
    def lease(self, step: int) -> Iterator[None]:
        """Within it, the step has the model's name, and its checkpoint is not deleted.

        Raises:
            CheckpointError: There is no checkpoint of that step.
        """
        steps = self.checkpoints.steps()
        if step not in steps:
            raise CheckpointError(
                f"{self.name!r} has no checkpoint of step {step}", f"there are checkpoints of {sorted(steps)}"
            )
        with self.leases.lease(step):
            yield

    def reference(self, step: int | None) -> Decoder:
        """The weights that a KL penalty refers to: those of a step, or the base model's.

        Raises:
            CheckpointError: There is no checkpoint of that step.
        """
        if self._reference is None or self._reference[0] != step:
            if step is not None and step not in self.checkpoints.steps():
                raise CheckpointError(
                    f"kl_penalty_reference_step={step} has no checkpoint in {str(self.directory)!r}",
                    f"there are checkpoints of the steps {sorted(self.checkpoints.steps())}",
                )
            self._reference = (step, self._weights_of(step))
        return self._reference[1]

    def restore(self) -> None:
        """Throw away what the learner did since the current step.

        Raises:
            CheckpointError: The checkpoint of the current step cannot be read; `mend` tries again.
        """
        self._is_moved = True
        self.learner.load(self.checkpoints.path(self.step))
        self._is_moved = False

    def mend(self) -> None:
        """Restore what could not be restored before; called before anything is trained.

        Raises:
            CheckpointError: It still cannot.
        """
        if self._is_moved:
            self.restore()

    def decoder_at(self, step: int | None) -> Decoder | None:
        """The weights of a step; None is the current one. Reads a checkpoint when they are not in memory.

        Returns:
            None when there is no such step any more.

        Raises:
            CheckpointError: The checkpoint cannot be read.
        """
        if (decoder := self._in_memory(step)) is not None or step is None:
            return decoder
        with self._reading:
            if (decoder := self._in_memory(step)) is not None or step not in self.checkpoints.steps():
                return decoder
            decoder = self._weights_of(step)
        with self._lock:
            self._remember(step, decoder)
        return decoder

    @property
    def is_small(self) -> bool:
        """Whether more than one thread would only get in its own way."""
        return sum(parameter.numel() for parameter in self._served[1].parameters()) <= _SMALL_PARAMETERS

    def is_in_memory(self, step: int | None) -> bool:
        """Whether `decoder_at` answers at once."""
        return step is None or step == self.step or step in self._old

    def next_request_seed(self) -> str:
        """A seed for a request that has none: the n-th one at a step draws the same numbers in every run."""
        self._num_unseeded += 1
        return f"{self._settings.seed}/{self.step}/{self._num_unseeded}"

    def forget(self, *, keep: frozenset[int]) -> None:
        """Delete the checkpoints of all steps but those in `keep`, the current, leased and KL-reference ones."""
        with self._lock:
            keep |= self.leases.steps
            if self._reference is not None and self._reference[0] is not None:
                keep |= {self._reference[0]}
            self.checkpoints.delete(keep=keep | {self.step})
            for step in [step for step in self._old if step not in keep]:
                del self._old[step]

    def close(self) -> None:
        """Let other backends open the directory. Idempotent."""
        self._directory_lock.release()

    def _in_memory(self, step: int | None) -> Decoder | None:
        current, decoder = self._served
        if step is None or step == current:
            return decoder
        with self._lock:
            if step in self._old:
                self._old.move_to_end(step)
            return self._old.get(step)

    def _remember(self, step: int, decoder: Decoder) -> None:
        self._old[step] = decoder
        while len(self._old) > _OLD_STEPS_IN_MEMORY:
            self._old.popitem(last=False)

    def _weights_of(self, step: int | None) -> Decoder:
        if step is None:
            return self.learner.weights.at(None)
        with reading(path := self.checkpoints.path(step)):
            return self.learner.weights.at(path)

    def _check_lora(self, saved: dict[str, Any] | None) -> None:
        began = None if saved is None else LoraSettings.from_json(saved)
        if began != self._settings.lora:
            raise ConfigurationError(
                f"lora={self._settings.lora!r}, but {str(self.directory)!r} holds checkpoints that were trained with "
                f"lora={began!r}",
                f"use lora={began!r}, or another run_name (or name) for a run of its own",
            )

    def _write(self, step: int) -> None:
        lora = self._settings.lora
        facts = {
            "base_model": self.base.name,
            "base_seed": self._base_seed,
            "lora": None if lora is None else lora.to_json(),
        }
        self.checkpoints.write(step, facts, self.learner.save)
