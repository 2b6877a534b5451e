"""Whether a judge's scores are a quotation of what it was shown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["is_quotation"]

_UNICODE = re.compile(r"\\+u([0-9a-fA-F]{4})")
# White space, escapes and quotes: what changes when a text is quoted, wrapped or put inside of JSON.
_DROPPED = re.compile(r"\\+[nrt]|[\\\s\"'`\u2018\u2019\u201c\u201d]+")


def is_quotation(rows: list[Any], text: str, shown: Sequence[dict[str, Any]]) -> bool:
    """Whether scores stand, but for quotes, escapes and white space, in the messages that a judge was asked with.

    Args:
        rows: The scores.
        text: The text that they were read from.
        shown: The messages.
    """
    seen = _normal(_text_of(shown))
    return any(_normal(said) in seen for said in (text, json.dumps(rows, ensure_ascii=False)))


def _text_of(messages: Sequence[dict[str, Any]]) -> str:
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents for part in (content if isinstance(content, list) else [{"text": content}])]
    return "\n".join(str(part.get("text") or "") for part in parts)


def _normal(text: str) -> str:
    return _DROPPED.sub("", _UNICODE.sub(lambda match: chr(int(match[1], 16)), text))
