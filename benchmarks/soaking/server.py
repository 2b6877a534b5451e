"""The scripted server of a soak: answers each request as the plan says."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from artkit import Sampling
from artkit.testing import ChatServer, Reply
from soaking.plan import MEMBERS, REFILLS, Plan, Settings, Turn, number_of

__all__ = ["Script", "serve"]

# As many tokens as a call of a tool has; more would only measure how large pydantic's objects are.
TOKEN_IDS = tuple(range(100, 116))


def wire_faults() -> dict[str, Reply]:
    """What the server may answer in place of the reply; all of it is worth another try."""
    empty = {"role": "assistant", "content": None}
    choice = {"index": 0, "message": empty, "finish_reason": "stop", "logprobs": None}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "soak"}
    return {
        "refused": Reply(drop="refused"),
        "dropped": Reply(drop="before"),
        "half a body": Reply("never read", drop="mid body"),
        "stalled": Reply("never read", drop="stalled"),
        "slow": Reply("too late", delay_s=3_600.0),
        "429": Reply(status=429, headers={"Retry-After": "1"}),
        "500": Reply(status=500),
        "503": Reply(status=503),
        "no JSON": Reply(raw_body="<html>busy</html>"),
        "half of the JSON": Reply(raw_body='{"id": "x", "choices": [{"index": 0, "mess'),
        "no choices": Reply(raw_body={**body, "choices": []}),
        "null choices": Reply(raw_body={**body, "choices": None}),
        "nothing said": Reply(raw_body={**body, "choices": [choice]}),
        "broken off": Reply("I was just", finish_reason="error"),
    }


class Script:
    """Answers each request as the plan says, by who asks for which turn of which play and how often.

    Args:
        plan: The soak's.

    Attributes:
        asked: How often each turn of each play was asked for.
    """

    def __init__(self, plan: Plan) -> None:
        self.asked: Counter[tuple[int, int, int, int]] = Counter()
        self._plan = plan
        self._faults = wire_faults()
        self._sampling = Sampling(seed=plan.settings.seed)

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        text = body["messages"][0]["content"]
        number = number_of(text)
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        member, replay = self._who(text, turn)[body["seed"]]
        key = number, member, replay, turn
        self.asked[key] += 1
        planned = self._plan.play(number, member, replay)[turn]
        if self.asked[key] <= len(planned.wire):
            return self._faults[planned.wire[self.asked[key] - 1]]
        if planned.for_ever == "overflow":
            return Reply(status=400, error="This model's maximum context length is 8192 tokens, and this has 9000.")
        if planned.for_ever == "bad request":
            return Reply(status=400, error="There is something wrong with it.")
        if planned.for_ever is not None:
            return self._faults[planned.for_ever]
        return _reply(planned, f"{text}, member {member}, replay {replay}, turn {turn}")

    @functools.lru_cache(maxsize=100_000)  # noqa: B019  # one script lives as long as its process
    def _who(self, scenario_id: str, turn: int) -> dict[int | None, tuple[int, int]]:
        """Return which member, in which play of it, sends which seed."""
        return {
            self._sampling.request_seed(scenario_id, member, turn, replay=replay): (member, replay)
            for member in range(MEMBERS + REFILLS)
            for replay in range(2)
        }


def _reply(turn: Turn, text: str) -> Reply:
    made = functools.partial(Reply, token_ids=TOKEN_IDS, prompt_token_ids=TOKEN_IDS, delay_s=0.02)
    if turn.final is not None:
        return made(f"{text}: {turn.final}", _calls_of_closing(turn)) if turn.closing else made(f"{text}: {turn.final}")
    calls: list[tuple[str, Mapping[str, Any] | str]] = [*_calls_of_closing(turn)]
    match turn.answered:
        case None:
            pass
        case "no JSON":
            calls.append(("earn", '{"points": 1'))
        case "no tool":
            calls.append(("imagined", {}))
        case "hang" | "block" | "linger":
            calls.append((turn.answered, {}))
        case how:
            calls.append(("fail", {"how": how}))
    calls.append(("earn", {"points": turn.points}))
    if turn.raises == "SystemExit in a thread":
        calls.append(("leave", {}))
    elif turn.raises is not None:
        calls.append(("fail", {"how": turn.raises}))
    if turn.ending == "length":
        return made(text, calls, finish_reason="length")
    if turn.ending is not None:
        calls.append(("wait" if turn.ending == "hang" else "ignore", {}))
    return made(text, calls)


def _calls_of_closing(turn: Turn) -> list[tuple[str, Mapping[str, Any] | str]]:
    return [("closing", {"how": turn.closing})] if turn.closing else []


async def serve(settings: Settings) -> None:
    """Serve until standard input ends; print where, and for each line that comes, what was asked so far."""
    script = Script(Plan(settings))
    async with ChatServer(script) as server:
        print(json.dumps({"base_url": server.base_url, "api_key": server.api_key}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            asked = [[*key, count] for key, count in script.asked.items()]
            print(json.dumps({"asked": asked, "requests": len(server.requests)}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Settings(**json.loads(sys.argv[1]))))
