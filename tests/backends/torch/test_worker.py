"""The thread that samples and trains."""

from __future__ import annotations

import asyncio
import random
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Generation
from artkit.backends.torch.sampler import SamplingSettings
from artkit.backends.torch.worker import Worker
from artkit.errors import BackendError

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that is stopped whatever happens."""
    worker = Worker()
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """The micro model."""
    return BaseModel.open("artkit/micro").decoder(seed=0).requires_grad_(False)


def request(tokens: int = 4, prompt_ids: tuple[int, ...] = (1, 2, 3)) -> Generation:
    return Generation(
        prompt_ids=prompt_ids,
        max_new_tokens=tokens,
        end_ids=frozenset(),
        settings=SamplingSettings(),
        random=random.Random(0),
    )


def job(log: list[str], name: str, slices: int = 2) -> Generator[None, None, str]:
    try:
        for number in range(slices):
            log.append(f"{name}{number}")
            yield
    finally:
        log.append(f"{name} ends")
    return name


async def test_jobs_run_one_after_the_other(worker: Worker) -> None:
    """Two updates of one model must not mix."""
    log: list[str] = []

    names = await asyncio.gather(worker.run(job(log, "a")), worker.run(job(log, "b")))

    assert (names, log) == (["a", "b"], ["a0", "a1", "a ends", "b0", "b1", "b ends"])


async def test_replies_go_on_while_a_job_runs(worker: Worker, decoder: Decoder) -> None:
    """Training that took a minute would look like an outage to a rollout."""
    release = threading.Event()

    def wait_for_replies() -> Generator[None, None, None]:
        while not release.is_set():
            yield

    training = asyncio.ensure_future(worker.run(wait_for_replies()))
    reply = await worker.generate(decoder, request())
    release.set()
    await training

    assert len(reply.token_ids) == 4


async def test_a_job_that_fails_raises_where_it_is_awaited(worker: Worker) -> None:
    """And the next one runs."""

    def fail() -> Generator[None, None, None]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await worker.run(fail())
    assert await worker.run(job([], "next")) == "next"


async def test_a_cancelled_job_is_closed(worker: Worker, until: Callable[..., Awaitable[None]]) -> None:
    """Ctrl-C in the middle of an update ends it at the next slice."""
    log: list[str] = []
    endless = asyncio.ensure_future(worker.run(job(log, "a", slices=10**9)))
    await until(lambda: bool(log))
    endless.cancel()

    await worker.run(job(log, "b"))

    assert log[-4:] == ["a ends", "b0", "b1", "b ends"]


async def test_a_batch_that_fails_fails_its_requests_only(worker: Worker, decoder: Decoder) -> None:
    """Whoever waits hears of it, and the thread lives on."""
    with pytest.raises(IndexError):
        await worker.generate(decoder, request(prompt_ids=(10**6,)))

    assert len((await worker.generate(decoder, request())).token_ids) == 4


async def test_a_stopped_worker_says_so(worker: Worker, decoder: Decoder) -> None:
    """To those who wait and to those who come."""
    waiting = asyncio.ensure_future(worker.generate(decoder, request(tokens=10**6)))
    training = asyncio.ensure_future(worker.run(job([], "a", slices=10**9)))
    await asyncio.sleep(0)
    worker.stop()
    worker.stop()

    for task in (waiting, training, worker.generate(decoder, request())):
        with pytest.raises(BackendError, match="closed"):
            await task


def test_a_loop_that_ended_does_not_end_the_worker(worker: Worker, decoder: Decoder) -> None:
    """Its requests are dropped; the next `asyncio.run` is served."""

    async def leave() -> None:
        asyncio.ensure_future(worker.generate(decoder, request(tokens=50)))  # noqa: RUF006 (dropped on purpose)
        await asyncio.sleep(0)

    asyncio.run(leave())

    assert len(asyncio.run(worker.generate(decoder, request())).token_ids) == 4


async def test_known_prompts_go_with_their_weights(worker: Worker) -> None:
    """A later step, at the same address in memory even, finds nothing of an earlier one."""
    base = BaseModel.open("artkit/micro")
    prompt = tuple(range(40))
    expected = [
        (await worker.generate(base.decoder(seed=seed).requires_grad_(False), request(prompt_ids=prompt))).logprobs
        for seed in range(4)
    ]
    kept = [base.decoder(seed=seed).requires_grad_(False) for seed in range(4)]

    again = [(await worker.generate(kept[place], request(prompt_ids=prompt))).logprobs for place in (0, 1, 2, 3, 0)]

    assert again == [pytest.approx(logprobs, abs=1e-5) for logprobs in [*expected, expected[0]]]


async def test_a_dropped_decoder_is_freed(worker: Worker, until: Callable[..., Awaitable[None]]) -> None:
    """A batch that rests must not keep a gigabyte alive."""
    dropped = BaseModel.open("artkit/micro").decoder(seed=1).requires_grad_(False)
    await worker.generate(dropped, request())
    known = weakref.ref(dropped)
    del dropped

    await until(lambda: known() is None)


async def test_weights_that_come_and_go_each_sample_as_in_a_worker_of_their_own(worker: Worker) -> None:
    """Batches that rest are used again for other weights: the prompts that they know must not come along."""
    base = BaseModel.open("artkit/micro")
    prompt = tuple(range(40))
    replies: dict[int, list[float]] = {}
    asked: dict[int, list[float]] = {}

    kept = {seed: base.decoder(seed=seed).requires_grad_(False) for seed in (0, 1)}
    for seed in (0, 1, 2, 0, 3, 1, 4, 5):
        decoder = kept.get(seed) or base.decoder(seed=seed).requires_grad_(False)
        asked[seed] = (await worker.generate(decoder, request(8, prompt))).logprobs
        alone = Worker()
        replies[seed] = (await alone.generate(decoder, request(8, prompt))).logprobs
        alone.stop()

    assert asked == replies
    assert len({tuple(logprobs) for logprobs in asked.values()}) == 6


async def test_weights_that_are_gone_give_way_first(worker: Worker, until: Callable[..., Awaitable[None]]) -> None:
    """Of those that may be asked again, the prompts stay known."""
    base = BaseModel.open("artkit/micro")
    kept, dropped, new = (base.decoder(seed=seed).requires_grad_(False) for seed in range(3))
    for decoder in (kept, dropped):
        await worker.generate(decoder, request())
    known = weakref.ref(dropped)
    del dropped, decoder
    await until(lambda: known() is None)

    await worker.generate(new, request())

    await until(lambda: len(worker._resting) == 2)
    assert {id(known()) for known, _ in worker._resting} == {id(kept), id(new)}
