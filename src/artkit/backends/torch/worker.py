"""The one thread that computes: it samples for whoever waits, and trains in between."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch

from artkit.backends.torch.batch import Batch, Generation
from artkit.errors import BackendError

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["Job", "Worker"]

ResultT = TypeVar("ResultT")

# Batches without requests that stay, with the prompts they know, for the same weights or in memory for the next ones.
_MAX_RESTING = 2

Job = Generator[None, None, ResultT]
"""Work in slices: each `yield` lets the worker sample a token for everyone before it goes on."""


@dataclass(slots=True, eq=False)
class _Pending:
    """Somebody who waits on an event loop for a value."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Worker:
    """A thread that owns the arithmetic.

    Sampling and training share it on purpose: a small model's matrices are too small to split over threads, and two
    threads of a pool that spins wait for each other. Each set of weights has its own batch, so a reply is never of two
    minds; training happens on other weights, so a batch in flight does not notice it.

    It may be called from any event loop, and from several.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._incoming: deque[tuple[Decoder, Generation, _Pending]] = deque()
        self._jobs: deque[tuple[Job[Any], _Pending]] = deque()
        self._batches: dict[int, tuple[Decoder, Batch]] = {}
        self._resting: deque[tuple[ref[Decoder], Batch]] = deque()
        self._pending: dict[Generation, _Pending] = {}
        self._num_threads = 1
        self._is_stopping = False
        # A daemon, because a thread that nobody joined must not keep the interpreter from ending; `stop` joins it.
        self._thread = threading.Thread(target=self._run, name="artkit-torch-worker", daemon=True)
        self._thread.start()

    async def generate(self, decoder: Decoder, generation: Generation) -> Generation:
        """Sample a reply with `decoder`, batched with everybody else's; its weights never change from now on.

        Cancelling the caller takes the request out of the batch.

        Raises:
            BackendError: The worker was stopped.
        """
        pending = self._make_pending()
        self._submit(lambda: self._incoming.append((decoder, generation, pending)))
        try:
            await pending.future
        finally:
            generation.is_abandoned = True
        return generation

    async def run(self, job: Job[ResultT]) -> ResultT:
        """Drive `job` to its end, behind the jobs that came before.

        Cancelling the caller closes the job at the end of its current slice.

        Raises:
            BackendError: The worker was stopped.
        """
        future: asyncio.Future[ResultT] = self.enqueue(job)
        return await future

    def enqueue(self, job: Job[ResultT]) -> asyncio.Future[ResultT]:
        """Queue `job` behind the jobs that came before; it runs whether or not the future is awaited.

        Raises:
            BackendError: The worker was stopped.
        """
        pending = self._make_pending()
        self._submit(lambda: self._jobs.append((job, pending)))
        return pending.future

    def use_threads(self, count: int) -> None:
        """Let PyTorch use at least `count` threads."""
        self._num_threads = max(self._num_threads, count)

    def stop(self) -> None:
        """End the thread and wait for it; whoever still waits gets a `BackendError`. Idempotent."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _make_pending(self) -> _Pending:
        loop = asyncio.get_running_loop()
        return _Pending(loop, loop.create_future())

    def _submit(self, put: Callable[[], None]) -> None:
        with self._condition:
            if self._is_stopping:
                raise _closed()
            put()
            self._condition.notify()

    def _run(self) -> None:
        num_threads = 0
        while self._wait_for_work():
            if num_threads != self._num_threads:
                num_threads = self._num_threads
                torch.set_num_threads(num_threads)
            settled = self._join() + self._sample()
            if self._jobs:
                settled += self._train()
            _deliver(settled)
        for job, _ in self._jobs:
            job.close()
        everyone = [pending for _, _, pending in self._incoming]
        everyone += [pending for _, pending in self._jobs] + list(self._pending.values())
        for pending in everyone:
            pending.error = _closed()
        _deliver(everyone)

    def _wait_for_work(self) -> bool:
        with self._condition:
            while not (self._is_stopping or self._incoming or self._jobs or self._batches):
                self._condition.wait()
            return not self._is_stopping

    def _join(self) -> list[_Pending]:
        # Without the lock, which event loops wait for: a batch lays its weights out first.
        failed: list[_Pending] = []
        while self._incoming:
            decoder, generation, pending = self._incoming.popleft()
            try:
                batch = self._batch(decoder)
            except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
                pending.error = error
                failed.append(pending)
                continue
            batch.add(generation)
            self._pending[generation] = pending
        return failed

    def _batch(self, decoder: Decoder) -> Batch:
        if id(decoder) not in self._batches:
            self._batches[id(decoder)] = (decoder, self._rested(decoder))
        return self._batches[id(decoder)][1]

    def _rested(self, decoder: Decoder) -> Batch:
        """The batch of these weights; or one whose weights are gone, or have to give way, with these in their place.

        Captured graphs are worth more than prompts that are known: they take a new batch half a second each.
        """
        for place, (known, batch) in enumerate(self._resting):
            if known() is decoder:
                del self._resting[place]
                return batch
        # Those whose weights are gone first.
        for place, (known, batch) in sorted(enumerate(self._resting), key=lambda entry: entry[1][0]() is not None):
            is_free = known() is None or len(self._resting) == _MAX_RESTING or batch.is_captured
            if is_free and batch.fits(decoder):
                del self._resting[place]
                batch.load(decoder)
                return batch
        return Batch(decoder)

    def _rest(self, decoder: Decoder, batch: Batch) -> None:
        batch.rest()
        self._resting.append((ref(decoder), batch))
        if len(self._resting) > _MAX_RESTING:
            self._resting.popleft()

    def _sample(self) -> list[_Pending]:
        settled: list[_Pending] = []
        for key, (decoder, batch) in list(self._batches.items()):
            try:
                finished = batch.step()
            except Exception as error:  # noqa: BLE001 (whatever it is, those who wait must hear of it)
                failed = batch.generations()
                for generation in failed:
                    self._pending[generation].error = error
                settled += [self._pending.pop(generation) for generation in failed]
                del self._batches[key]
                continue
            settled += [self._pending.pop(generation) for generation in finished]
            if not batch:
                del self._batches[key]
                self._rest(decoder, batch)
        return settled

    def _train(self) -> list[_Pending]:
        job, pending = self._jobs[0]
        if pending.future.cancelled():
            job.close()
            self._jobs.popleft()
            return []
        try:
            next(job)
        except StopIteration as done:
            pending.result = done.value
        except BaseException as error:  # noqa: BLE001 (it is raised again where it is awaited)
            pending.error = error
        else:
            return []
        self._jobs.popleft()
        return [pending]


def _closed() -> BackendError:
    return BackendError("the backend was closed", "register the model again: that opens it")


def _deliver(settled: list[_Pending]) -> None:
    """Wake those who wait, with one call per event loop: each such call is a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Pending]] = defaultdict(list)
    for pending in settled:
        by_loop[pending.loop].append(pending)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, waiting)
        except RuntimeError:
            # The loop was closed: nobody is left to hear it.
            continue


def _settle(waiting: list[_Pending]) -> None:
    for pending in waiting:
        pending.settle()
