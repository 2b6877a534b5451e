"""A chat completion in the shape of OpenAI's, with the ids and log probabilities that vLLM and ART add to it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from artkit.backends.torch.tool_calls import parse_calls

if TYPE_CHECKING:
    from artkit.backends.torch.batch import Generation
    from artkit.backends.torch.chat_request import ChatRequest
    from artkit.backends.torch.chat_tokenizer import ChatTokenizer

__all__ = ["chat_completion"]

# What a token is called and its bytes, of those that were sampled so far: decoding them one by one takes longer than
# all the rest of an answer.
_pieces: WeakKeyDictionary[ChatTokenizer, dict[int, tuple[str, list[int]]]] = WeakKeyDictionary()


def chat_completion(
    request: ChatRequest, tokenizer: ChatTokenizer, generations: Sequence[Generation], number: int
) -> dict[str, Any]:
    """The answer to `request`: a choice per generation.

    Token ids and log probabilities are what was sampled, whatever a stop string or a tool call made of the text.

    Args:
        request: What was asked.
        tokenizer: What decodes.
        generations: At least one, finished, all of the same prompt.
        number: The number of the answer, for its id.
    """
    prompt_ids = generations[0].prompt_ids
    completion = sum(len(generation.token_ids) for generation in generations)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [_choice(request, tokenizer, generation, index) for index, generation in enumerate(generations)],
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": completion,
            "total_tokens": len(prompt_ids) + completion,
        },
        "prompt_token_ids": prompt_ids,
    }


def _choice(request: ChatRequest, tokenizer: ChatTokenizer, generation: Generation, index: int) -> dict[str, Any]:
    text = tokenizer.decode(generation.token_ids)
    cuts = [place for stop in request.stop if (place := text.find(stop)) >= 0]
    text = text[: min(cuts)] if cuts else text
    content: str | None = text
    calls: list[dict[str, Any]] = []
    if request.reads_calls:
        content, written = parse_calls(text, is_whole=generation.finish_reason == "stop")
        calls = [
            {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call_id, call in zip(_new_call_ids(request), written, strict=False)
        ]
        if not request.parallel_tool_calls:
            # As vLLM does: what was sampled behind the first is not held against the request.
            calls = calls[:1]
    is_call = bool(calls) and generation.finish_reason == "stop"
    return {
        "index": index,
        "message": {
            "role": "assistant",
            "content": content,
            "refusal": None,
            **({"tool_calls": calls} if calls else {}),
        },
        "finish_reason": "tool_calls" if is_call else generation.finish_reason,
        "logprobs": _logprobs(tokenizer, generation) if request.logprobs else None,
        # On the choice too, because a trajectory keeps choices, not responses.
        "prompt_token_ids": generation.prompt_ids,
        "token_ids": generation.token_ids,
    }


def _new_call_ids(request: ChatRequest) -> Iterator[str]:
    """`call_<k>`, counted over the conversation: random ones would make a prompt, and so a run, not repeatable."""
    known = [call.get("id") for message in request.messages for call in message.get("tool_calls", ())]
    return (name for k in itertools.count(len(known)) if (name := f"call_{k}") not in known)


def _logprobs(tokenizer: ChatTokenizer, generation: Generation) -> dict[str, Any]:
    pieces = _pieces.setdefault(tokenizer, {})
    content = []
    for token_id, logprob in zip(generation.token_ids, generation.logprobs, strict=True):
        if token_id not in pieces:
            pieces[token_id] = (f"token_id:{token_id}", _utf8(tokenizer.decode([token_id])))
        name, utf8 = pieces[token_id]
        content.append({"token": name, "logprob": logprob, "bytes": utf8, "top_logprobs": []})
    return {"content": content, "refusal": None}


def _utf8(text: str) -> list[int]:
    # Half a character has no bytes of its own.
    return [] if "\N{REPLACEMENT CHARACTER}" in text else list(text.encode())
