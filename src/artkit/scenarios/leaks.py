"""Leaks: the same task in the training data and in what it is validated on."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from artkit.errors import ConfigurationError
from artkit.scenarios.content import content_digest

__all__ = ["Match", "find_leaks"]

Match: TypeAlias = Literal["exact", "normalised"]

_QUOTES_AND_ENDS = re.compile(
    r"""["'`\u2018\u2019“”„«»¿¡。、]"""  # these anywhere
    r"|[?:;,.](?!\d)"  # but 1.5, 12:30 and 1,000 stay numbers
    r"|(?<!\d)!(?!=)"  # 3! is not 3, and != not =
)
_MARKS = {"<super>": "^", "<sub>": "_"}
_SPACE = re.compile(r"\s+")
_IDLE_SPACE = re.compile(r"(?<!\w) | (?!\w)")


def find_leaks(
    train: Iterable[Any], validation: Iterable[Any], *, match: Match = "exact"
) -> tuple[tuple[str, str], ...]:
    """Return the tasks that are on both sides, as pairs of their ids (in train, in validation).

    Two scenarios are the same task if their ids are equal, or their content is. The content of a scenario with
    `messages` is those: they state the task, whatever its label says. That of another type is all its fields but the
    id, and its type; where there are none, the id alone tells the tasks apart.

    Args:
        train: Objects that have an `id`.
        validation: The same.
        match: "exact" compares content as it is; "normalised" compares the texts of messages regardless of case, white
            space, quotes, marks at the end of a sentence or clause, and forms of one letter (Unicode NFKC). Digits,
            operators and brackets always count: `7*3` and `7/3` are two tasks.

    Raises:
        ConfigurationError: If `match` is neither.
    """
    check_match(match)
    known: dict[str, str] = {}
    for scenario in train:
        for identity in _identities(scenario, match):
            known.setdefault(identity, str(scenario.id))
    leaks: dict[tuple[str, str], None] = {}
    for scenario in validation:
        for identity in _identities(scenario, match):
            if identity in known:
                leaks[known[identity], str(scenario.id)] = None
    return tuple(leaks)


def check_match(match: object) -> None:
    """Refuse what is no way to compare."""
    if match not in ("exact", "normalised"):
        raise ConfigurationError(f"match={match!r} is no way to compare", "match is 'exact' or 'normalised'")


def _identities(scenario: Any, match: Match) -> Iterator[str]:
    yield f"id:{scenario.id}"
    fields = _fields(scenario)
    messages = fields.get("messages")
    if isinstance(messages, list | tuple) and messages:
        if match == "normalised":
            messages = [_normalised_message(message) for message in messages]
        yield f"messages:{content_digest(messages)}"
    elif content := {name: value for name, value in fields.items() if name != "id"}:
        yield f"{type(scenario).__name__}:{content_digest(content)}"


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
    # Case folding may undo the normal form.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _raised(text)).casefold())
    worded = _QUOTES_AND_ENDS.sub("", folded)
    return _IDLE_SPACE.sub("", _SPACE.sub(" ", worded if worded.strip() else folded).strip())


def _raised(text: str) -> str:
    """Write `5²` as `5^2` and `x₁` as `x_1`, or the normal form would make it `52` and `x1`."""
    return text if text.isascii() else "".join(map(_raised_letter, text))


def _raised_letter(letter: str) -> str:
    kind = unicodedata.decomposition(letter).partition(" ")[0]
    return _MARKS.get(kind, "") + letter
