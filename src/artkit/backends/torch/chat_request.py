"""A chat request, checked: what this server can do, and a refusal by name of what it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artkit.backends.torch.api_error import ApiError
from artkit.backends.torch.chat_messages import template_message, template_tools
from artkit.backends.torch.sampler import SamplingSettings

__all__ = ["ChatRequest"]

_MAX_TEMPERATURE = 2.0
_MAX_SEED = 2**63
_MAX_STOPS = 16
_MAX_CHOICES = 16

# Fields that may be sent as long as they ask for nothing: the values that change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "stream": (None, False),
    "tool_choice": (None, "none", "auto"),
    "top_logprobs": (None, 0),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "response_format": (None, {"type": "text"}),
}
# Fields that only describe the request, or ask for what every answer has anyway.
_IGNORED = frozenset({"user", "metadata", "store", "return_token_ids", "return_tokens_as_token_ids", "nvext"})
# What a chat template is rendered with in any case; as a further variable it would come twice, or past the checks.
_NO_VARIABLES = frozenset(
    {"conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt"}
    | {"continue_final_message", "tokenize", "sanitize_control_tokens", "padding", "truncation", "max_length"}
    | {"return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"}
)
_READ = frozenset(
    {
        "model",
        "messages",
        "temperature",
        "top_p",
        "top_k",
        "n",
        "tools",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "logprobs",
        "chat_template_kwargs",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What one request asks for.

    Attributes:
        logprobs: Whether the answer carries log probabilities and token ids; it does unless the request says no, as
            with the server of ART's LocalBackend, so that a rollout that never mentions them can be trained on.
        max_tokens: The most tokens of the reply; None means as many as the context window leaves.
        stop: The reply ends before the first of these.
        template_arguments: Further variables of the chat template.
        n: How many choices.
        tools: The tools on offer.
        reads_calls: Whether the reply's calls are read: not without tools, and not with `tool_choice` "none", with
            which tools are rendered all the same, as vLLM does by default.
        parallel_tool_calls: Whether more than the first call of a reply is handed out.
    """

    model: str
    messages: list[dict[str, Any]]
    settings: SamplingSettings
    max_tokens: int | None
    stop: tuple[str, ...]
    seed: int | None
    logprobs: bool
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1
    tools: Sequence[Mapping[str, Any]] = ()
    reads_calls: bool = False
    parallel_tool_calls: bool = True

    @classmethod
    def parse(cls, body: object) -> ChatRequest:
        """Read the JSON body of a request.

        Raises:
            ApiError: 400, naming the field that is missing, malformed or beyond this server.
        """
        if not isinstance(body, dict):
            raise ApiError(400, "the body must be a JSON object")
        for name, value in body.items():
            _refuse_unsupported(name, value)
        tools = _tools(body.get("tools"))
        limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
        return cls(
            model=_field(body, "model", "a string", lambda value: isinstance(value, str)),
            messages=_messages(body.get("messages")),
            settings=SamplingSettings(
                temperature=float(
                    _field(body, "temperature", "a number from 0 to 2", _is_number_in(0.0, _MAX_TEMPERATURE), 1.0)
                ),
                top_p=float(
                    _field(
                        body,
                        "top_p",
                        "a number above 0 and up to 1",
                        lambda v: _is_number_in(0.0, 1.0)(v) and v > 0,
                        1.0,
                    )
                ),
                # vLLM's field: -1 is no limit, and 0 is another way to say so.
                top_k=max(
                    0, _field(body, "top_k", "-1, 0 or a positive integer", lambda v: _is_integer(v) and v >= -1, 0)
                ),
            ),
            max_tokens=_field(body, limit, "a positive integer", lambda value: _is_integer(value) and value > 0, None),
            stop=_stops(body.get("stop")),
            seed=_field(
                body, "seed", "a 64-bit integer", lambda v: _is_integer(v) and -_MAX_SEED <= v < _MAX_SEED, None
            ),
            logprobs=_field(body, "logprobs", "a boolean", lambda value: isinstance(value, bool), True),
            template_arguments=_field(
                body,
                "chat_template_kwargs",
                "an object of further variables",
                lambda value: isinstance(value, dict) and not _NO_VARIABLES & value.keys(),
                {},
            ),
            n=_field(
                body,
                "n",
                f"an integer from 1 to {_MAX_CHOICES}",
                lambda value: _is_integer(value) and 1 <= value <= _MAX_CHOICES,
                1,
            ),
            tools=tuple(tools),
            reads_calls=bool(tools) and body.get("tool_choice") != "none",
            parallel_tool_calls=_field(
                body, "parallel_tool_calls", "a boolean", lambda value: isinstance(value, bool), True
            ),
        )


def _refuse_unsupported(name: str, value: Any) -> None:
    if name in _READ or name in _IGNORED or (name in _NEUTRAL and value in _NEUTRAL[name]):
        return
    if name in _NEUTRAL:
        problem = f"{name}={value!r} is not supported: leave {name} out"
    else:
        problem = f"{name} is not supported: leave it out"
    raise ApiError(400, problem, param=name, code="unsupported_parameter")


_REQUIRED: Any = object()


def _field(
    body: dict[str, Any], name: str, expected: str, is_valid: Callable[[Any], bool], default: Any = _REQUIRED
) -> Any:
    value = body.get(name)
    if value is None and default is not _REQUIRED:
        return default
    if not is_valid(value):
        raise ApiError(400, f"{name}={value!r} is not {expected}", param=name)
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number_in(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _stops(value: object) -> tuple[str, ...]:
    stops = (value,) if isinstance(value, str) else value or ()
    if not isinstance(stops, list | tuple) or len(stops) > _MAX_STOPS:
        raise ApiError(400, f"stop={value!r} is not a string or a list of up to {_MAX_STOPS} strings", param="stop")
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise ApiError(400, f"stop={value!r} holds something that is not a non-empty string", param="stop")
    return tuple(stops)


def _messages(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise ApiError(400, "messages must be a non-empty list", param="messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(value)]


def _message(message: object, place: str) -> dict[str, Any]:
    try:
        return template_message(message, place)
    except ValueError as error:
        raise ApiError(400, str(error), param=place) from error


def _tools(value: object) -> list[dict[str, Any]]:
    try:
        return template_tools(value)
    except ValueError as error:
        raise ApiError(400, str(error), param="tools") from error
