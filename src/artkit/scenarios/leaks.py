"""Leaks: the same task in the training data and in what it is validated on."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from artkit.errors import ConfigurationError
from artkit.scenarios.content import content_digest
from artkit.scenarios.prompt_scenario import PromptScenario

__all__ = ["Match", "check_match", "find_leaks"]

Match: TypeAlias = Literal["exact", "normalised"]

# The invisible: soft hyphens, joiners, marks of direction and of byte order.
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_QUOTES_AND_ENDS = re.compile(
    r"""["'`\u2018\u2019“”„«»¿¡。、]"""  # these anywhere
    r"|[?:;,.](?!\d)"  # but 1.5, 12:30 and 1,000 stay numbers
    r"|(?<!\d)!(?!=)"  # 3! is not 3, and != not =
)
_MARKS = {"<super>": "^", "<sub>": "_"}
_SPACE = re.compile(r"\s+")
_IDLE_SPACE = re.compile(r"(?<!\w) | (?!\w)")
_LETTERS = re.compile(r"[^\W_]+")
_NO_ASCII_LETTERS = {code: None for code in range(128) if not chr(code).isalnum()}


def find_leaks(
    train: Iterable[Any], validation: Iterable[Any], *, match: Match = "exact"
) -> tuple[tuple[str, str], ...]:
    """Return the tasks that are on both sides, as pairs of their ids (in train, in validation).

    Two scenarios are the same task if their ids are equal, or their content is. The content of a scenario with
    `messages` is those: they state the task, whatever its label says; with them, what a subclass of `PromptScenario`
    adds, such as a seed. That of another type is all its fields but the id, and its type; where there are none, the id
    alone tells the tasks apart.

    Args:
        train: Objects that have an `id`.
        validation: The same.
        match: "exact" compares content as it is; "normalised" compares the texts of messages regardless of case, white
            space, what can't be seen, quotes, marks at the end of a sentence or clause, and forms of one letter
            (Unicode NFKC). Digits, operators and brackets always count: `7*3` and `7/3` are two tasks.

    Raises:
        ConfigurationError: If `match` is neither.
    """
    check_match(match)
    sides = [[(_trace(scenario), scenario) for scenario in side] for side in (train, validation)]
    shared = {trace for trace, _ in sides[0]} & {trace for trace, _ in sides[1]}
    in_train, in_validation = ([*_named(side, shared, match)] for side in sides)
    known: dict[str, str] = {}
    for identity, name in in_train:
        known.setdefault(identity, name)
    return tuple(dict.fromkeys((known[identity], name) for identity, name in in_validation if identity in known))


def check_match(match: object) -> None:
    """Refuse what is no way to compare."""
    if match not in ("exact", "normalised"):
        raise ConfigurationError(f"match={match!r} is no way to compare", "match is 'exact' or 'normalised'")


def _named(side: Iterable[tuple[int, Any]], shared: Container[int], match: Match) -> Iterator[tuple[str, str]]:
    """Yield what identifies each scenario, with its id; the content only where the other side may have it."""
    for trace, scenario in side:
        yield f"id:{scenario.id}", str(scenario.id)
        if trace in shared and (content := _content(scenario, match)):
            yield content, str(scenario.id)


def _content(scenario: Any, match: Match) -> str | None:
    """Return what identifies the content of a scenario, if it has any."""
    fields = _fields(scenario)
    messages = fields.get("messages")
    if isinstance(messages, list | tuple) and messages:
        if match == "normalised":
            messages = [_normalised_message(message) for message in messages]
        added = (
            type(scenario).model_fields.keys() - PromptScenario.model_fields
            if isinstance(scenario, PromptScenario)
            else ()
        )
        return f"messages:{content_digest([messages, {name: fields[name] for name in added}])}"
    content = {name: value for name, value in fields.items() if name != "id"}
    return f"{type(scenario).__name__}:{content_digest(content)}" if content else None


def _trace(scenario: Any) -> int:
    """Return a number that is equal where the content is, in either way to compare, and seldom elsewhere.

    It costs a fraction of the content itself, which has to be made only where both sides have the number.
    """
    fields = _fields(scenario)
    messages = fields.get("messages")
    if isinstance(messages, list | tuple) and messages:
        return hash("|".join(_letters(text) for message in messages for text in _texts(message)))
    return hash(frozenset((name, item) for name, item in fields.items() if isinstance(item, str) and name != "id"))


def _texts(message: Any) -> Iterator[str]:
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list | tuple) else (content,):
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            yield text


def _letters(text: str) -> str:
    """Return the letters and digits of a text, which normalising keeps whatever else it takes away."""
    if text.isascii():
        return text.lower().translate(_NO_ASCII_LETTERS)
    return "".join(_LETTERS.findall(_folded(_UNSEEN.sub("", text))))


def _fields(scenario: Any) -> dict[str, Any]:
    if isinstance(scenario, BaseModel):
        return dict(scenario)
    if dataclasses.is_dataclass(scenario):
        return {field.name: getattr(scenario, field.name) for field in dataclasses.fields(scenario)}
    # Nothing is known of any other object, but that it may be a prompt.
    messages = getattr(scenario, "messages", None)
    return {} if messages is None else {"messages": messages}


def _normalised_message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    content = message.get("content")
    if isinstance(content, list | tuple):
        content = [
            _normalised(block["text"]) if isinstance(block, Mapping) and isinstance(block.get("text"), str) else block
            for block in content
        ]
    elif isinstance(content, str):
        content = [_normalised(content)]  # a text says the same as one block of text
    return {**message, "content": content}


def _normalised(text: str) -> str:
    """Return what is left of a text when only its wording counts; where that is nothing, its marks."""
    seen = _UNSEEN.sub("", text)
    folded = _folded(_raised(seen if seen.strip() else text.strip()))
    worded = _QUOTES_AND_ENDS.sub("", folded)
    return _IDLE_SPACE.sub("", _SPACE.sub(" ", worded if worded.strip() else folded).strip())


def _folded(text: str) -> str:
    # Case folding may undo the normal form.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _raised(text: str) -> str:
    """Write `5²` as `5^2` and `x₁` as `x_1`, or the normal form would make it `52` and `x1`."""
    return text if text.isascii() else "".join(map(_raised_letter, text))


def _raised_letter(letter: str) -> str:
    kind = unicodedata.decomposition(letter).partition(" ")[0]
    return _MARKS.get(kind, "") + letter
