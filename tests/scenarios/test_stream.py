"""Open-ended sources."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError, ResumeError
from artkit.scenarios import Cursor, Scenario, ScenarioBatch, ScenarioStream


def scenarios(start: int = 0) -> Iterator[Scenario]:
    return (Scenario(id=f"s{number}") for number in count(start))


async def async_scenarios(size: int) -> AsyncIterator[Scenario]:
    for item in islice(scenarios(), size):
        yield item


class Seekable:
    """A source that can begin anywhere."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.position = 0

    def seek(self, position: int) -> None:
        self.position = position

    def __iter__(self) -> Iterator[Scenario]:
        return islice(scenarios(self.position), self.size - self.position)


async def take(stream: ScenarioStream, groups_per_step: int, start: Cursor = Cursor(), most: int = 100):
    batches: list[ScenarioBatch[Scenario]] = []
    async for batch in stream.batches(groups_per_step, start):
        batches.append(batch)
        if len(batches) == most:
            break
    return batches


def ids(batches: list[ScenarioBatch[Scenario]]) -> list[list[str]]:
    return [[item.id for item in batch.items] for batch in batches]


async def test_an_endless_iterator_is_cut_into_batches() -> None:
    """Nothing of it is read ahead."""
    source = scenarios()
    batches = await take(ScenarioStream(source), 2, most=2)

    assert ids(batches) == [["s0", "s1"], ["s2", "s3"]]
    assert [(b.index, b.epoch, b.cursor, b.is_epoch_end) for b in batches] == [
        (0, 0, Cursor(0, 2), False),
        (1, 0, Cursor(0, 4), False),
    ]
    assert next(source).id == "s4"


@given(st.integers(0, 9), st.integers(1, 4))
def test_sync_and_async_sources_give_the_same_batches(size: int, groups_per_step: int) -> None:
    """And the last one is short where the source ends inside it."""

    async def both():
        sync = await take(ScenarioStream(islice(scenarios(), size)), groups_per_step)
        return sync, await take(ScenarioStream(async_scenarios(size)), groups_per_step)

    sync, asynchronous = asyncio.run(both())

    assert sync == asynchronous
    assert [len(batch.items) for batch in sync] == [
        min(groups_per_step, size - first) for first in range(0, size, groups_per_step)
    ]


async def test_an_iterable_is_read_from_its_beginning_each_time() -> None:
    """A list is one."""
    stream = ScenarioStream(list(islice(scenarios(), 3)))

    assert ids(await take(stream, 2)) == ids(await take(stream, 2)) == [["s0", "s1"], ["s2"]]


@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_a_source_that_seeks_resumes_with_the_same_batches(size: int, groups_per_step: int, data) -> None:
    """As an order does."""

    async def both():
        whole = await take(ScenarioStream(Seekable(size)), groups_per_step)
        done = data.draw(st.integers(1, len(whole)))
        return whole[done:], await take(ScenarioStream(Seekable(size)), groups_per_step, whole[done - 1].cursor)

    rest, resumed = asyncio.run(both())

    assert resumed == rest


async def test_seek_may_be_async() -> None:
    """A source behind a network has to ask."""

    class Remote(Seekable):
        async def seek(self, position: int) -> None:
            self.position = position

    stream = ScenarioStream(Remote(5))

    assert stream.can_seek
    assert ids(await take(stream, 2, Cursor(0, 3))) == [["s3", "s4"]]


async def test_a_source_that_does_not_seek_is_not_resumed() -> None:
    """It would train on other scenarios than the run it resumes; the choices are named."""
    stream = ScenarioStream(scenarios())
    assert not stream.can_seek

    with pytest.raises(ResumeError, match=r'stands at item 0.*position=4.*seek\(n\).*resume="never".*as a list'):
        await take(stream, 2, Cursor(0, 4))


def test_a_stream_says_whether_it_can_be_resumed() -> None:
    """Before a run is started that can't be."""
    assert repr(ScenarioStream(iter(()))).endswith("can not be resumed)")
    assert repr(ScenarioStream(Seekable(3))).endswith("can be resumed)")


async def test_a_used_iterator_does_not_begin_again() -> None:
    """Its first items are gone; going on where it stands is fine."""
    stream = ScenarioStream(scenarios())
    (first,) = await take(stream, 2, most=1)
    with pytest.raises(ResumeError, match="stands at item 2"):
        await take(stream, 2)

    assert ids(await take(stream, 2, first.cursor, most=1)) == [["s2", "s3"]]


async def test_the_cursor_of_an_epoch_does_not_fit_a_stream() -> None:
    """The run was started on other data."""
    with pytest.raises(ResumeError, match="has no epochs"):
        await take(ScenarioStream(Seekable(4)), 2, Cursor(1, 0))


async def test_a_slow_source_does_not_hold_up_the_loop_and_has_one_thread() -> None:
    """Rollouts go on meanwhile, and a database connection stays in its thread."""
    gate: queue.SimpleQueue[Scenario] = queue.SimpleQueue()
    threads = set()

    def waiting() -> Iterator[Scenario]:
        while True:
            threads.add(threading.get_ident())
            yield gate.get(timeout=30)

    reading = asyncio.create_task(take(ScenarioStream(waiting()), 2, most=2))
    for item in islice(scenarios(), 4):
        await asyncio.sleep(0)
        gate.put(item)

    assert ids(await reading) == [["s0", "s1"], ["s2", "s3"]]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_cancelling_does_not_wait_for_the_source() -> None:
    """Ctrl-C ends a run whose source is waiting."""
    asked, release = threading.Event(), threading.Event()

    def stuck() -> Iterator[Scenario]:
        asked.set()
        release.wait(30)
        yield Scenario(id="late")

    reading = asyncio.create_task(take(ScenarioStream(stuck()), 1))
    await asyncio.to_thread(asked.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not release.is_set()
    release.set()


def test_a_source_that_answers_when_the_run_is_over_is_not_heard() -> None:
    """Its thread ends in peace."""
    asked, release, threads = threading.Event(), threading.Event(), []

    def stuck() -> Iterator[Scenario]:
        threads.append(threading.current_thread())
        asked.set()
        release.wait(30)
        yield Scenario(id="late")

    async def gives_up() -> None:
        reading = asyncio.create_task(take(ScenarioStream(stuck()), 1))
        await asyncio.to_thread(asked.wait, 30)
        reading.cancel()

    asyncio.run(gives_up())
    release.set()
    threads[0].join(30)

    assert not threads[0].is_alive()


async def test_an_error_of_the_source_is_raised_as_it_is() -> None:
    """It is the user's own."""

    def broken() -> Iterator[Scenario]:
        yield Scenario(id="a")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await take(ScenarioStream(broken()), 1)


@pytest.mark.parametrize(("error", "raised"), [(SystemExit(3), SystemExit), (asyncio.CancelledError(), RuntimeError)])
def test_a_source_that_gives_up_does_not_leave_the_run_waiting(
    error: BaseException, raised: type[BaseException]
) -> None:
    """Its thread ended, and the run would wait for ever; that the run was cancelled nobody may believe either."""

    def broken() -> Iterator[Scenario]:
        yield Scenario(id="a")
        raise error

    with pytest.raises(raised):
        asyncio.run(asyncio.wait_for(take(ScenarioStream(broken()), 2), 30))


async def test_what_a_source_hands_out_after_a_cancel_is_known_to_be_lost() -> None:
    """Going on from there would leave one scenario out, in silence."""
    asked, release = threading.Event(), threading.Event()

    def slow() -> Iterator[Scenario]:
        yield Scenario(id="a")
        asked.set()
        release.wait(30)
        yield Scenario(id="b")

    stream = ScenarioStream(slow())
    reading = asyncio.create_task(take(stream, 2))
    await asyncio.to_thread(asked.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    release.set()

    with pytest.raises(ResumeError, match="the source stands at item 2"):
        await take(stream, 2, Cursor(0, 1))


class Told(Seekable):
    """A source that says what came before, and a part of it is another one on resume."""

    def __init__(self, size: int, letters: str) -> None:
        super().__init__(size)
        self.letters = letters

    def __iter__(self) -> Iterator[Scenario]:
        while self.position < self.size:
            self.position += 1
            yield Scenario(id=self.letters[self.position - 1])

    @property
    def fingerprint(self) -> str:
        return self.letters[: self.position]


async def test_a_source_that_says_what_came_before_is_not_resumed_over_another() -> None:
    """Some scenarios would be trained on twice and others never; what comes later may change, and grow."""
    first, _ = await take(ScenarioStream(Told(4, "abcd")), 2)
    assert first.cursor.fingerprint == "ab"

    assert ids(await take(ScenarioStream(Told(5, "abxyz")), 2, first.cursor)) == [["x", "y"], ["z"]]
    with pytest.raises(ResumeError, match=r"first 2 scenarios of the source are others .*resume=\"never\""):
        await take(ScenarioStream(Told(4, "bacd")), 2, first.cursor)


async def test_an_item_without_an_id_is_refused() -> None:
    """Its episodes could not be told apart."""
    with pytest.raises(ConfigurationError, match="item 1 of the source is a dict without an id"):
        await take(ScenarioStream(iter([Scenario(id="a"), {"id": "b"}])), 2)


def test_what_is_no_source_is_refused_at_once() -> None:
    """A generator function that was not called is the usual slip."""
    with pytest.raises(ConfigurationError, match="has to be called first"):
        ScenarioStream(scenarios)
    with pytest.raises(ConfigurationError, match="groups_per_step=0 is no positive whole number"):
        ScenarioStream([]).batches(0)
