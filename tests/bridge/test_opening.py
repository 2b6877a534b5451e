"""A model is opened again after its backend was closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import art
from aiohttp import web

from artkit import make_trainable_model
from artkit.bridge import open_model
from artkit.testing import ChatServer, DiaryBackend


def model(path: Path) -> Any:
    return make_trainable_model(name="agent", project="opening", base_model="b", base_path=str(path), report_metrics=[])


async def test_the_model_s_own_client_follows_a_server_that_has_moved(tmp_path: Path) -> None:
    """ART 0.5.18 keeps the client of the address it had first."""
    agent, backend = model(tmp_path), DiaryBackend(ChatServer(["one", "two"]))
    answers = []
    for _ in range(2):
        await open_model(agent, backend)
        completion = await agent.openai_client().chat.completions.create(
            model=agent.get_inference_name(),
            messages=[{"role": "user", "content": "?"}],
            logprobs=True,
        )
        answers.append(completion.choices[0].message.content)
        await agent.openai_client().close()
        await backend.close()

    assert answers == ["one", "two"]


async def test_a_model_that_is_open_keeps_its_client(tmp_path: Path) -> None:
    """Registering again is no reason to drop what works."""
    agent = model(tmp_path)
    async with ChatServer(["one"]) as server:
        backend = DiaryBackend(server)
        await open_model(agent, backend)
        await open_model(agent, backend)

        assert str(agent.openai_client().base_url) == f"{server.base_url}/"
        await agent.openai_client().close()


async def test_a_serverless_backend_that_was_closed_is_opened_again(tmp_path: Path) -> None:
    """Its HTTP client is closed for good; the next run, or the evaluation after one, needs another."""
    created = []

    async def create(request: web.Request) -> web.Response:
        created.append((await request.json())["name"])
        return web.json_response({
            "id": "id", "entity": "e", "project": "opening", "name": "agent", "base_model": "b", "run_id": "r",
        })  # fmt: skip

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", create)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    backend = art.ServerlessBackend(api_key="made-up", base_url=f"http://127.0.0.1:{port}/v1")

    for _ in range(2):
        await open_model(model(tmp_path), backend)
        await backend.close()
    await runner.cleanup()

    assert created == ["agent", "agent"]
