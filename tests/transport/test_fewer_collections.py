"""Python's garbage collector while many rollouts play."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.rollouts import Rollout, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer
from artkit.transport import OpenAISamplingClient, SamplingRequest
from artkit.transport.fewer_collections import fewer_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Python's own, whatever another test has left."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


async def test_all_that_lives_is_walked_through_less_often_while_rollouts_play_and_only_then() -> None:
    """The collector is the process's, and what the program does afterwards is none of artkit's business."""
    seen = []

    class Looks(Environment[Scenario]):
        async def reset(self, scenario: Scenario) -> str:
            seen.append(gc.get_threshold())
            return "go"

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    async with ChatServer(lambda body: "hi") as server:
        await gather_groups(Rollout(Looks), server.model(), [Scenario(id="a")], rollouts_per_group=1)

    assert (seen, gc.get_threshold()) == ([(7_000, 10, 10)], (700, 10, 10))


def test_the_last_of_two_gathers_puts_it_back() -> None:
    """Validation may run beside training."""
    first, second = fewer_collections(), fewer_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    meanwhile = gc.get_threshold()
    second.__exit__(None, None, None)

    assert (meanwhile, gc.get_threshold()) == ((7_000, 10, 10), (700, 10, 10))


@pytest.mark.parametrize("own", [(10_000, 20, 20), (0, 10, 10)])
def test_a_program_that_has_set_its_own_is_left_alone(own: tuple[int, int, int]) -> None:
    """It knows why, also where it does so meanwhile."""
    gc.set_threshold(*own)
    with fewer_collections():
        before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    with fewer_collections():
        gc.set_threshold(*own)

    assert (before, gc.get_threshold()) == (own, own)


async def test_a_request_by_itself_is_collected_less_for_too() -> None:
    """A loop of one's own, without artkit's rollouts, makes as many objects."""
    seen = []

    def answer(body: object) -> str:
        seen.append(gc.get_threshold())
        return "hi"

    async with ChatServer(answer) as server:
        client = OpenAISamplingClient(server.model())
        await client.complete(SamplingRequest(model="agent", messages=[{"role": "user", "content": "go"}]))
        await client.close()

    assert (seen, gc.get_threshold()) == ([(7_000, 10, 10)], (700, 10, 10))
