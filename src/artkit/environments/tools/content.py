"""The content of a tool message: what a tool returned, as the server takes it."""

from __future__ import annotations

import json
import reprlib
from enum import Enum
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from artkit.errors import EnvironmentContractError

__all__ = ["as_content"]

_BLOCKS = frozenset({
    "audio", "audio_url", "file", "image", "image_url", "input_audio", "refusal", "text", "video", "video_url",
})  # fmt: skip


def as_content(value: object, source: str) -> str | list[dict[str, Any]]:
    """Return what a tool returned as the content of its message.

    A text stays a text, None is the empty one, and a list of content blocks stays a list, as does one block: a picture
    that became text is lost. Anything else becomes JSON.

    Args:
        value: What was returned.
        source: Whose it is, for the error's text.

    Raises:
        EnvironmentContractError: It is nothing that JSON can hold.

    >>> as_content({"price": 3.5, "tags": ("new",)}, "the tool")
    '{"price": 3.5, "tags": ["new"]}'
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if value is None:
        return ""
    try:
        plain = to_jsonable_python(value, fallback=_as_list)
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise EnvironmentContractError(
            f"{source} returned {reprlib.repr(value)}, which is neither text nor JSON: {error}",
            "return a str, a dict, a list, a dataclass, a pydantic model, or a list of content blocks",
        ) from error
    if isinstance(plain, str):
        return plain
    if _is_block(plain):
        return [plain]
    if isinstance(plain, list) and plain and all(map(_is_block, plain)):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _is_block(value: object) -> bool:
    """Whether `value` is a content block, and not data that has a "type" too, such as a file in a list of files."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or kind not in _BLOCKS:
        return False
    return len(value) == 1 or not value.keys().isdisjoint({kind, "source", "data"})


def _as_list(value: Any) -> Any:
    """Return the numbers of an array or a scalar of NumPy's or torch's."""
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    raise TypeError(f"a {type(value).__qualname__} is no JSON")
