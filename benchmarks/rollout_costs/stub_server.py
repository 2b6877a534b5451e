"""A server that always says the same, after 20 ms, as vLLM says it to a run that trains."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

from rollout_costs.conversation import TURNS, reply_text

__all__ = ["LATENCY_S", "serve"]

LATENCY_S = 0.02
_REPLY_TOKENS = 24
_TURN_TOKENS = 48  # of the reply and what the environment says to it
_BACKLOG = 1024


def response(turn: int) -> bytes:
    """Return the answer to the request of a turn, as it goes over the wire."""
    numbers = random.Random(turn)
    token_ids = [numbers.randrange(150_000) for _ in range(_REPLY_TOKENS)]
    prompt_ids = [numbers.randrange(150_000) for _ in range(_TURN_TOKENS * (turn + 1))]
    logprobs = [
        {"token": f"token_id:{token}", "logprob": -numbers.random(), "bytes": [116, 111, 107], "top_logprobs": []}
        for token in token_ids
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": reply_text(turn), "refusal": None, "tool_calls": []},
        "logprobs": {"content": logprobs},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": token_ids,
    }
    usage = {"prompt_tokens": len(prompt_ids), "completion_tokens": _REPLY_TOKENS}
    body = json.dumps(
        {
            "id": f"chatcmpl-{turn}",
            "object": "chat.completion",
            "created": 1_750_000_000,
            "model": "policy",
            "choices": [choice],
            "usage": {**usage, "total_tokens": sum(usage.values())},
            "prompt_token_ids": prompt_ids,
        },
        separators=(",", ":"),
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Stub(asyncio.Protocol):
    """One connection: whatever is posted is answered after the latency, as far as its conversation has come.

    A server's framework would cost more than the clients that are measured, so it knows just enough of HTTP.
    """

    responses = tuple(response(turn) for turn in range(max(TURNS)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(maxsplit=1)[0]):
            return
        self._data = b""
        turn = body.count(b'"assistant"')
        asyncio.get_running_loop().call_later(LATENCY_S, self._transport.write, self.responses[turn])


async def serve() -> None:
    """Serve on a free port of loopback, which is printed, until standard input ends."""
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=_BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
