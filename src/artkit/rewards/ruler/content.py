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

# Base64 may be wrapped, also inside of JSON; a line that follows it is text, unless it is long or padded.
_WRAP = r"(?:\\[rn]|[\r\n])+[ \t]*"
_LINE, _LAST = "[A-Za-z0-9+/_-]{40,}", "(?:[A-Za-z0-9+/_-]{16,}={0,2}|[A-Za-z0-9+/_-]{2,}={1,2})(?![\\w+/=-])"
_MORE = rf"(?:{_WRAP}{_LINE})*(?:{_WRAP}{_LAST})?"
_DATA_URL = re.compile(
    rf"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(?P<data>(?:{_WRAP})?[A-Za-z0-9+/=_-]{{16,}}{_MORE})"
)
# The beginnings of PNG, JPEG, GIF, WebP and BMP, where a tool returns a picture without saying so.
_BARE_PICTURE = re.compile(
    rf"(?<![A-Za-z0-9+/])(?P<data>(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|Qk[0-3])[A-Za-z0-9+/=]{{56,}}{_MORE})"
)
_TYPES = {"i": "image/png", "/": "image/jpeg", "R": "image/gif", "U": "image/webp", "Q": "image/bmp"}
_SPACE = re.compile(_WRAP)
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
        return f"[a picture, {_hash(_json(part))}]" if url is None else _picture(url, pictures)
    if kind in {"input_audio", "audio", "file", "input_file"}:
        return f"[{kind}, {_size(_json(part))}, {_hash(_json(part))}]"
    return {str(name): shown(item, pictures) for name, item in part.items()}


def _picture_url(part: Mapping[str, Any]) -> str | None:
    """Return where a picture is, in the forms of OpenAI's two APIs, of Anthropic's, of MCP and of Qwen's templates.

    None where a judge could not get at it, such as a path on the machine that played the episode.
    """
    place = next((part[name] for name in ("image_url", "source", "url", "image") if name in part), part)
    if isinstance(place, Mapping):
        if isinstance(place.get("data"), str):
            kind = place.get("media_type", place.get("mimeType", "image/png"))
            return f"data:{kind};base64,{_SPACE.sub('', place['data'])}"
        place = place.get("url")
    is_reachable = isinstance(place, str) and place.startswith(("data:", "http://", "https://"))
    return str(place) if is_reachable else None


def _picture(url: str, pictures: Pictures) -> str:
    # Named by its content: the same picture is shown once, and different ones never look the same.
    name = f"picture {_hash(url)}"
    pictures[name] = url
    what = _DATA_URL.match(url)
    return f"[{name}: {what['type']}, {_size(what['data'])}]" if what else f"[{name}]"


def _text(text: str, pictures: Pictures) -> str:
    def replaced(match: re.Match[str]) -> str:
        data = _SPACE.sub("", match["data"])
        kind = match.groupdict().get("type") or _TYPES[data[0]]
        if kind.startswith("image/"):
            return _picture(f"data:{kind};base64,{data}", pictures)
        return f"[{kind}, {_size(data)}, {_hash(data)}]"

    return str(safe_json(_BARE_PICTURE.sub(replaced, _DATA_URL.sub(replaced, text))))


def _size(base64: str) -> str:
    return f"{len(base64) * 3 / 4 / 1024:.1f} kB"


def _json(value: Any) -> str:
    return json.dumps(safe_json(value), sort_keys=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
