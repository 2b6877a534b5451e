"""What a judge is shown of a message's content: text as it is, pictures apart, nothing as base64."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from artkit.bridge.safe_values import safe_json

__all__ = ["Pictures", "shown"]

Pictures = dict[str, str]
"""Pictures by the name that stands for each in the text; the value is a URL, mostly a `data:` one."""

_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(?P<data>[A-Za-z0-9+/=_-]{16,})")
# The beginnings of PNG, JPEG, GIF and WebP, where a tool returns a picture without saying so.
_BARE_PICTURE = re.compile(r"(?<![A-Za-z0-9+/])(?P<data>(?:iVBORw0KGgo|/9j/4|R0lGOD|UklGR)[A-Za-z0-9+/=]{64,})")
_PICTURE_TYPES = frozenset({"image_url", "input_image", "image"})


def shown(value: Any, pictures: Pictures) -> Any:
    """Return `value`, the content of a message or a part of one, as JSON data that a judge may be shown.

    Args:
        value: Text, a list of content parts, or any other JSON data.
        pictures: Where the pictures are put that are found on the way.
    """
    if isinstance(value, str):
        return _text(value, pictures)
    if isinstance(value, Mapping):
        return _part(value, pictures)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [shown(item, pictures) for item in value]
    return safe_json(value)


def _part(part: Mapping[str, Any], pictures: Pictures) -> Any:
    kind = part.get("type")
    if kind in {"text", "input_text", "output_text"} and isinstance(part.get("text"), str):
        return _text(part["text"], pictures)
    if kind in _PICTURE_TYPES:
        url = _picture_url(part)
        return "[a picture]" if url is None else _picture(url, pictures)
    if kind in {"input_audio", "audio", "file", "input_file"}:
        return f"[{kind}, {_size(json.dumps(safe_json(part)))}]"
    return {str(name): shown(item, pictures) for name, item in part.items()}


def _picture_url(part: Mapping[str, Any]) -> str | None:
    """Return where a picture is, in the forms of OpenAI's two APIs and of Anthropic's."""
    place = part.get("image_url", part.get("source", part.get("url")))
    if isinstance(place, Mapping):
        if isinstance(place.get("data"), str):
            return f"data:{place.get('media_type', 'image/png')};base64,{place['data']}"
        place = place.get("url")
    return place if isinstance(place, str) else None


def _picture(url: str, pictures: Pictures) -> str:
    # Named by its content: the same picture is shown once, and different ones never look the same.
    name = f"picture {hashlib.sha256(url.encode('utf-8', 'replace')).hexdigest()[:8]}"
    pictures[name] = url
    what = _DATA_URL.match(url)
    return f"[{name}: {what['type']}, {_size(what['data'])}]" if what else f"[{name}]"


def _text(text: str, pictures: Pictures) -> str:
    def replaced(match: re.Match[str]) -> str:
        kind = match.groupdict().get("type") or "image"
        if kind.startswith("image/"):
            return _picture(match[0], pictures)
        return f"[{kind}, {_size(match['data'])}, {hashlib.sha256(match['data'].encode()).hexdigest()[:8]}]"

    return str(safe_json(_BARE_PICTURE.sub(replaced, _DATA_URL.sub(replaced, text))))


def _size(base64: str) -> str:
    return f"{len(base64) * 3 / 4 / 1024:.1f} kB"
