"""Demonstrations for supervised training: what the assistant said is learnt, the rest is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice

from artkit.backends.torch.chat_messages import template_message, template_tools
from artkit.backends.torch.held_turns import HeldTurns, held_turns
from artkit.backends.torch.sequences import TokenSequence, Turn, merge_turns
from artkit.errors import BackendError

if TYPE_CHECKING:
    import art

    from artkit.backends.torch.chat_tokenizer import ChatTokenizer

__all__ = ["demonstrated_sequences"]


def demonstrated_sequences(
    trajectory: art.Trajectory, tokenizer: ChatTokenizer, *, last_turn_only: bool = False
) -> list[TokenSequence]:
    """The sequences of a demonstration, with the assistant's turns, end markers included, as targets.

    All its conversations are learnt: its own and the additional ones, or those that ART captured. Tools on offer are
    rendered and calls of them learnt as the chat template writes them.

    Raises:
        BackendError: The chat template cannot render it, its tools included, or it is no chat.
    """
    held = held_turns(trajectory)
    try:
        return [sequence for turns in held for sequence in _sequences(turns, tokenizer, last_turn_only=last_turn_only)]
    except ValueError as error:
        raise BackendError(
            f"a demonstration cannot be rendered: {error}", "give it messages that the model's chat template accepts"
        ) from error


def _sequences(held: HeldTurns, tokenizer: ChatTokenizer, *, last_turn_only: bool) -> list[TokenSequence]:
    messages = [_message(item, f"messages[{index}]") for index, (item, _) in enumerate(held.turns)]
    places = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if last_turn_only:
        places = places[-1:]
    tools = template_tools(held.tools)
    return merge_turns(_turn(messages, place, tools, tokenizer) for place in places if held.turns[place][1])


def _turn(
    messages: list[dict[str, Any]], place: int, tools: Sequence[Mapping[str, Any]], tokenizer: ChatTokenizer
) -> Turn:
    prompt = tokenizer.encode_chat(messages[:place], add_generation_prompt=True, tools=tools)
    whole = tokenizer.encode_chat(messages[: place + 1], add_generation_prompt=False, tools=tools)
    if whole[: len(prompt)] != prompt:
        raise ValueError("the template renders a finished turn differently from one that is being generated")
    reply = whole[len(prompt) :]
    ends = [index for index, token_id in enumerate(reply) if token_id in tokenizer.end_ids]
    if ends:
        # Templates write a line break behind the end marker, which no model samples.
        reply = reply[: ends[0] + 1]
    return Turn(prompt_ids=prompt, completion_ids=reply, logprobs=[0.0] * len(reply))


def _message(item: object, place: str) -> dict[str, Any]:
    return template_message(item.message.model_dump() if isinstance(item, Choice) else item, place)
