"""One client per model, shared by everything that runs inside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from artkit.bridge import make_trainable_model
from artkit.testing import ChatServer, DiaryBackend
from artkit.transport import OpenAISamplingClient, SamplingRequest, sampling_session

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion


class InProcessClient:
    """A client without HTTP, as a backend in the same process offers one."""

    def __init__(self) -> None:
        self.closed = 0

    async def complete(self, request: SamplingRequest) -> ChatCompletion:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed += 1


class InProcessBackend(DiaryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.clients: list[InProcessClient] = []

    def sampling_client(self, model: Any) -> InProcessClient:
        self.clients.append(InProcessClient())
        return self.clients[-1]


async def test_a_nested_session_shares_the_client() -> None:
    """A thousand rollouts of one gather share one pool of connections."""
    async with ChatServer([]) as server:
        model = server.model()
        async with sampling_session(model) as outer:

            async def rollout() -> bool:
                async with sampling_session(model) as inner:
                    return inner is outer

            shared = await asyncio.gather(*(rollout() for _ in range(3)))

    assert shared == [True, True, True]


async def test_the_end_of_a_nested_session_leaves_the_client_open() -> None:
    """The first rollout that ends must not cut off its siblings."""
    async with ChatServer(["ok"]) as server:
        model = server.model()
        async with sampling_session(model) as client:
            async with sampling_session(model):
                pass
            completion = await client.complete(SamplingRequest(model="m", messages=[{"role": "user", "content": "go"}]))

    assert completion.choices[0].message.content == "ok"


async def test_two_models_have_a_client_each() -> None:
    """A judge is not asked at the policy's endpoint."""
    async with ChatServer([]) as server:
        policy, judge = server.model("policy"), server.model("judge")
        async with (
            sampling_session(policy) as one,
            sampling_session(judge) as other,
            sampling_session(policy) as again,
        ):
            pass

    assert (one is again, one is other) == (True, False)


async def test_a_session_after_the_first_makes_a_client_of_its_own() -> None:
    """A closed client must not come back."""
    async with ChatServer([]) as server:
        model = server.model()
        async with sampling_session(model) as first:
            pass
        async with sampling_session(model) as second:
            pass

    assert first is not second


async def test_a_backend_in_the_same_process_is_asked_for_its_client(tmp_path: Path) -> None:
    """There, HTTP would only cost time."""
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    backend = InProcessBackend()
    await model.register(backend)
    async with sampling_session(model) as client, sampling_session(model):
        pass

    assert [client] == backend.clients
    assert [each.closed for each in backend.clients] == [1]


async def test_any_other_backend_is_sampled_from_at_its_endpoint(tmp_path: Path) -> None:
    """ART's own backends know nothing of sampling clients."""
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    await model.register(DiaryBackend())
    async with sampling_session(model) as client:
        pass

    assert isinstance(client, OpenAISamplingClient)


async def test_the_client_is_closed_when_the_block_raises(tmp_path: Path) -> None:
    """An error must not leave sockets behind."""
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    backend = InProcessBackend()
    await model.register(backend)
    with pytest.raises(KeyError):
        async with sampling_session(model):
            raise KeyError

    assert [each.closed for each in backend.clients] == [1]


def test_sessions_in_two_event_loops_do_not_mix() -> None:
    """A connection belongs to the loop that opened it."""

    async def sample() -> str | None:
        async with ChatServer(["ok"]) as server, sampling_session(server.model()) as client:
            completion = await client.complete(SamplingRequest(model="m", messages=[{"role": "user", "content": "go"}]))
            return completion.choices[0].message.content

    assert [asyncio.run(sample()), asyncio.run(sample())] == ["ok", "ok"]


@pytest.mark.parametrize(
    "raised", [RuntimeError("gone"), asyncio.CancelledError()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("outcome", ["kept", "lost"])
async def test_a_client_that_cannot_be_closed_costs_nothing(
    raised: BaseException, outcome: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was sampled is there, and an error in it is the one to tell."""

    class Stuck(InProcessClient):
        async def close(self) -> None:
            raise raised

    class StuckBackend(InProcessBackend):
        def sampling_client(self, model: Any) -> InProcessClient:
            return Stuck()

    async def sample() -> str:
        async with sampling_session(model):
            return {"kept": "kept"}[outcome]

    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    await model.register(StuckBackend())
    if outcome == "kept":
        assert await sample() == "kept"
    else:
        with pytest.raises(KeyError, match="lost"):
            await sample()

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("closing the sampling client of 'agent' failed: ")
