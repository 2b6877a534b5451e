"""What becomes of a reply's tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from artkit.backends.torch.batch import Generation
from artkit.backends.torch.chat_completion import chat_completion
from artkit.backends.torch.chat_request import ChatRequest
from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.backends.torch.sampler import SamplingSettings

CALL = '<tool_call>{"name": "look", "arguments": {"at": "door"}}</tool_call>'
TOOL = {"type": "function", "function": {"name": "look"}}
ASKED = {"role": "user", "content": "hi"}


def answer(text: str, *, messages: Sequence[Mapping[str, Any]] = (ASKED,), finish: Any = "stop", **body: Any) -> Any:
    """The choice of a reply with this text."""
    tokenizer = MicroTokenizer()
    token_ids = tokenizer.encode_chat([{"role": "user", "content": text}], add_generation_prompt=False)[1:]
    generation = Generation(
        prompt_ids=[3],
        max_new_tokens=1_000,
        end_ids=tokenizer.end_ids,
        settings=SamplingSettings(),
        random=random.Random(0),
        token_ids=token_ids,
        logprobs=[-0.5] * len(token_ids),
        finish_reason=finish,
    )
    request = ChatRequest.parse({"model": "agent", "messages": list(messages), **body})
    (choice,) = chat_completion(request, tokenizer, [generation], 1)["choices"]
    assert choice["token_ids"] == token_ids
    assert [item["token"] for item in choice["logprobs"]["content"]] == [f"token_id:{index}" for index in token_ids]
    return choice


def test_calls_are_read_where_tools_are_on_offer() -> None:
    """A reply of calls alone has no content, as OpenAI has it."""
    choice = answer(CALL, tools=[TOOL])

    function = {"name": "look", "arguments": '{"at": "door"}'}
    call = {"id": "call_0", "type": "function", "function": function}
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("body", [{}, {"tools": []}, {"tools": [TOOL], "tool_choice": "none"}])
def test_calls_are_text_where_none_are_asked_for(body: dict[str, Any]) -> None:
    """Whoever offered no tools would not look for calls."""
    choice = answer(CALL, **body)

    assert choice["message"] == {"role": "assistant", "content": CALL, "refusal": None}
    assert choice["finish_reason"] == "stop"


def test_a_reply_that_was_cut_off_says_so_though_a_call_in_it_is_whole() -> None:
    """What else it would have called, nobody knows."""
    choice = answer(f"{CALL}{CALL[:-9]}", tools=[TOOL], finish="length")

    assert [call["id"] for call in choice["message"]["tool_calls"]] == ["call_0"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (CALL[:-9], "length")


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ([], ["call_0", "call_1"]),
        (["call_0"], ["call_1", "call_2"]),
        (["a", "b", "c"], ["call_3", "call_4"]),
        (["call_3", "b", None], ["call_4", "call_5"]),
        (["call_1"], ["call_2", "call_3"]),
    ],
)
def test_ids_are_counted_over_the_conversation_and_none_comes_twice(
    earlier: list[str | None], expected: list[str]
) -> None:
    """A seeded rollout has the same ids again, and some servers refuse one that is there already."""
    calls = [{"id": call_id, "type": "function", "function": {"name": "look"}} for call_id in earlier]
    messages = [ASKED, *({"role": "assistant", "tool_calls": [call]} for call in calls)]

    choice = answer(CALL * 2, messages=messages, tools=[TOOL])

    assert [call["id"] for call in choice["message"]["tool_calls"]] == expected
