"""What the endpoint refuses, by name."""

from __future__ import annotations

from typing import Any

import pytest

from artkit.backends.torch.api_error import ApiError
from artkit.backends.torch.chat_request import ChatRequest
from artkit.backends.torch.sampler import SamplingSettings

BODY: dict[str, Any] = {"model": "agent", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", True),
        ("n", 0),
        ("n", 17),
        ("n", True),
        ("tools", "look"),
        ("tools", [{"type": "web_search"}]),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "look"}}),
        ("parallel_tool_calls", 1),
        ("chat_template_kwargs", {"tools": []}),
        ("min_p", 0.1),
        ("top_logprobs", 5),
        ("frequency_penalty", 0.5),
        ("response_format", {"type": "json_object"}),
        ("best_of", 3),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", "hot"),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 1.0),
        ("top_k", True),
        ("max_tokens", 0),
        ("max_completion_tokens", 1.5),
        ("stop", 7),
        ("stop", ["ok", ""]),
        ("seed", "x"),
        ("seed", True),
        ("logprobs", 1),
        ("model", None),
        ("messages", "hi"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(field: str, value: Any) -> None:
    """Ignoring it would train on something else than was asked for."""
    with pytest.raises(ApiError, match=field) as caught:
        ChatRequest.parse(BODY | {field: value})

    assert (caught.value.status, caught.value.param) == (400, field)


@pytest.mark.parametrize(
    "message",
    [
        "hi",
        {"content": "hi"},
        {"role": "user", "content": 3},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "custom", "custom": {}}]},
        {"role": "assistant", "content": None, "tool_calls": "look"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "user", "content": "hi", "tool_calls": [{"type": "function", "function": {"name": "look"}}]},
        {"role": "tool", "content": "hi", "tool_call_id": 7},
    ],
)
def test_a_message_that_cannot_be_rendered_is_refused_with_its_place(message: Any) -> None:
    """A picture or a tool call that silently vanished would be a different task."""
    with pytest.raises(ApiError, match=r"messages\[1\]"):
        ChatRequest.parse(BODY | {"messages": [*BODY["messages"], message]})


def test_fields_that_ask_for_nothing_are_accepted() -> None:
    """Clients send them with every request: ART itself, and OpenAI's with its defaults."""
    request = ChatRequest.parse(
        BODY
        | {"n": 1, "stream": False, "tools": [], "top_logprobs": None, "user": "me"}
        | {"return_token_ids": True, "return_tokens_as_token_ids": True, "nvext": {"extra_fields": ["engine_data"]}}
        | {"chat_template_kwargs": {"preserve_thinking": True}, "tool_choice": "auto", "top_k": -1}
        | {"parallel_tool_calls": False}
    )

    assert request == ChatRequest(
        model="agent",
        messages=BODY["messages"],
        settings=SamplingSettings(),
        max_tokens=None,
        stop=(),
        seed=None,
        logprobs=True,
        template_arguments={"preserve_thinking": True},
        parallel_tool_calls=False,
    )


def test_everything_supported_is_read() -> None:
    """The newer name of the token limit wins over the older."""
    request = ChatRequest.parse(
        BODY
        | {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
            ]
        }
        | {"temperature": 0, "top_p": 0.5, "top_k": 7, "max_tokens": 9, "max_completion_tokens": 4}
        | {"stop": "x", "seed": 3, "logprobs": True, "n": 16, "tools": [TOOL], "parallel_tool_calls": True}
    )

    assert request == ChatRequest(
        model="agent",
        messages=[{"role": "system", "content": "ab"}],
        settings=SamplingSettings(temperature=0.0, top_p=0.5, top_k=7),
        max_tokens=4,
        stop=("x",),
        seed=3,
        logprobs=True,
        n=16,
        tools=(TOOL,),
        reads_calls=True,
    )
