"""Keys and passwords, kept out of every text that leaves the process.

What leaves: logs, reports, recordings, journals, exceptions, and what a backend uploads. A secret is found there in two
ways: by its value, where the process is known to use it, and by its shape. A model's messages are searched by value
alone: text that only looks like a key may be what the task is about.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

__all__ = ["MARKER", "is_secret_name", "known_secret", "scrub", "scrub_known", "scrub_line", "scrub_values"]

ValueT = TypeVar("ValueT")

MARKER = "[secret]"
"""What stands in the place of a secret."""

_LEAST = 8  # characters; a shorter value is found in words that have nothing to do with it
_MOST = 64  # values that are remembered; a program that makes a key for each of its servers forgets the oldest
# Given where a key must be given and none is needed.
_ORDINARY = frozenset({
    MARKER, "anything", "changeme", "disabled", "lm-studio", "localhost", "no-key-required", "not-needed",
    "optional", "password", "placeholder", "required", "sk-no-key-required", "undefined", "your-api-key",
})  # fmt: skip
_NAME = re.compile(
    r"(?:(?:API|ACCESS|OPENAI|PRIVATE|SECRET|SIGNING)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|_PAT)"
    r"(?:_?\d{1,3})?$",  # of several, as for a rate limit each
    re.IGNORECASE,
)

_known: dict[str, None] = {}


def known_secret(value: object) -> None:
    """Remember a key that this process uses, so that it is found in every text from now on.

    What is no secret is not remembered: no text, fewer than 8 characters, or a word that stands in for a key where none
    is needed.
    """
    secret = value.strip() if isinstance(value, str) else ""
    if not _is_secret(secret) or next(reversed(_known), None) == secret:
        return
    _known.pop(secret, None)
    _known[secret] = None
    while len(_known) > _MOST:
        _known.pop(next(iter(_known)), None)


def scrub(text: str) -> str:
    """Return `text` with `[secret]` in the place of each secret, by value and by shape; once or twice is the same.

    Values are those of `known_secret` and of environment variables called `…API_KEY`, `…TOKEN`, `…SECRET`,
    `…PASSWORD`, as they stand and as JSON, `repr` and URLs write them.

    >>> scrub("401 for sk-aB3dE5fG7hJ9kL1m, sent to https://me:pass@host")
    '401 for [secret], sent to https://me:[secret]@host'
    """
    return _by_shape(scrub_known(text))


def scrub_known(text: str) -> str:
    """Return `text` with `[secret]` in the place of each secret that this process is known to use."""
    return _without(text, _forms())


def scrub_values(value: ValueT, *, known_only: bool = False) -> ValueT:
    """Return JSON data with its texts scrubbed; itself where nothing was found.

    Keys of mappings are searched by value alone, for what they name is told apart by them. An object that is no
    mapping, list, tuple or text, such as a reply of a model, stays as it is.

    Args:
        value: Lists, tuples, mappings, texts and whatever else.
        known_only: Whether texts are searched by value alone, as a model's messages are.
    """
    by_value = partial(_without, forms=_forms())
    of_text = by_value if known_only else lambda text: _by_shape(by_value(text))
    try:
        return cast("ValueT", _walk(value, by_value, of_text))
    except RecursionError:  # it holds itself, or is nested beyond what can be written as JSON
        return value


def scrub_line(line: str) -> str:
    """Return a line of JSON with `[secret]` in its texts for each secret that this process is known to use.

    The rest of the line is the same data: a password that is a number is no part of the numbers.
    """
    forms = _forms()
    if not any(form in line for form in forms):
        return line
    by_value = partial(_without, forms=forms)
    try:
        return json.dumps(_walk(json.loads(line), by_value, by_value)) + line[len(line.rstrip()) :]
    except (ValueError, RecursionError):  # no JSON after all
        return by_value(line)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether what is called so, such as an environment variable, holds a secret.

    >>> [is_secret_name(name) for name in ("OPENAI_API_KEY", "HF_TOKEN", "MAX_TOKENS", "KEYBOARD")]
    [True, True, False, False]
    """
    return _NAME.search(name) is not None


def _is_secret(value: str) -> bool:
    return len(value) >= _LEAST and value.casefold() not in _ORDINARY


def _forms() -> tuple[str, ...]:
    """Return what to look for: read anew each time, for ART and others load `.env` files at any moment."""
    in_environment = (os.environ.get(name, "").strip() for name in os.environ if is_secret_name(name))
    return _forms_of((*filter(_is_secret, in_environment), *list(_known)))


@lru_cache(maxsize=8)
def _forms_of(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the secrets as they may be written, the longest first: one may be part of another."""
    return tuple(sorted({form for secret in secrets for form in _written(secret)}, key=len, reverse=True))


@lru_cache(maxsize=2 * _MOST)
def _written(secret: str) -> Collection[str]:
    in_json = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    data = secret.encode(errors="surrogatepass")
    return {
        secret,
        *in_json,
        *(json.dumps(text)[1:-1] for text in in_json),  # JSON in JSON
        in_json[0].replace("/", "\\/"),
        repr(secret)[1:-1],
        repr(data)[2:-1],
        quote(data),
        quote(data, safe=""),
        quote_plus(data),
    }


def _without(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        if form in text:
            text = text.replace(form, MARKER)
    return text


def _walk(value: Any, of_key: Callable[[str], str], of_text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        safe = of_text(value)
        return value if safe == value else safe
    if isinstance(value, dict):
        pairs = [(of_key(k) if isinstance(k, str) else k, _walk(v, of_key, of_text)) for k, v in value.items()]
        is_same = all(new is old and k == key for (key, old), (k, new) in zip(value.items(), pairs, strict=True))
        return value if is_same else dict(pairs)
    if isinstance(value, Mapping):
        held = dict(value)
        safe = _walk(held, of_key, of_text)
        return value if safe is held else safe
    if type(value) in (list, tuple):
        items = [_walk(item, of_key, of_text) for item in value]
        is_same = all(new is old for old, new in zip(value, items, strict=True))
        return value if is_same else type(value)(items)
    return value


# The shapes. Each is looked for only in a text that has one of its hints, in lower case, and reads a bounded way ahead
# where it may turn back: a text of many megabytes takes time in proportion.
# A key also begins behind an escaped line end, as JSON and `repr` write it, and behind a character that a URL escapes.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv])|(?<=%[0-9A-Fa-f]{2}))"
_QUOTE = r"\\{0,8}[\"']"
_GIVEN = rf"(?:(?:{_QUOTE})\s{{0,4}}[:=,]|\s{{0,4}}[:=])\s{{0,4}}b?"
_PLAIN = r"[^\s\"'\\&,;(){}\[\]<>]"
_TOKENS = (
    r"sk-(?=[a-z_-]{0,64}[0-9A-Z])[A-Za-z0-9_-]{12,}",  # OpenAI, Anthropic, OpenRouter, LiteLLM
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{12,}",  # Stripe
    r"gsk_[A-Za-z0-9]{20,}",  # Groq
    r"hf_[A-Za-z0-9]{16,}",
    r"gh[oprsu]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",  # Google
    r"(?:nvapi|pplx|tml|xai)-[A-Za-z0-9_-]{20,}",
    r"eyJ[A-Za-z0-9_-]{8,512}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JSON web tokens
)
_NAMES = (
    (
        r"(?:access|account|api|auth|bearer|client|private|refresh|secret|session)[ _-]?(?:key|token|secret)"
        r"(?:[ _-]?(?:key|id))?"
    ),
    r"passw(?:or)?d|passphrase",
    r"(?-i:_TOKEN|_SECRET)",
)
_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (
        ("private key-----",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        MARKER,
    ),
    (
        (
            "sk-", "sk_", "rk_", "hf_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "xox", "akia",
            "asia", "aiza", "nvapi-", "pplx-", "tml-", "xai-", "eyj",
        ),
        re.compile(f"{_START}(?:{'|'.join(_TOKENS)})"),
        MARKER,
    ),
    (
        ("authorization",),
        re.compile(
            rf"(authorization{_GIVEN}(?:{_QUOTE})?)(?:((?:bearer|basic|digest|token|key)\s{{1,4}}){_PLAIN}{{4,}}"
            rf"|(?={_PLAIN}{{0,64}}\d){_PLAIN}{{8,}})",
            re.IGNORECASE,
        ),
        rf"\1\2{MARKER}",
    ),
    (
        ("bearer",),
        re.compile(
            r"(bearer(?:\s|%20|\+){1,4})(?=[A-Za-z._~+/=-]{0,64}\d)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE
        ),
        rf"\1{MARKER}",
    ),
    (
        ("key", "token", "secret", "passw", "passphrase"),
        re.compile(
            rf"((?:{'|'.join(_NAMES)}){_GIVEN})(?:({_QUOTE})[^\"'\\\n]{{4,}}|(?={_PLAIN}{{0,64}}\d){_PLAIN}{{8,}})",
            re.IGNORECASE,
        ),
        rf"\1\2{MARKER}",
    ),
    (
        ("--",),  # on a command line, as text or as a list
        re.compile(
            rf"(--[a-z-]{{0,32}}(?:key|token|secret|passw(?:or)?d|passphrase)(?:\s{{1,4}}|=|{_QUOTE},\s{{0,4}}))"
            rf"({_QUOTE})?(?={_PLAIN}{{0,64}}\d){_PLAIN}{{8,}}",
            re.IGNORECASE,
        ),
        rf"\1\2{MARKER}",
    ),
    (
        ("?", "&"),
        re.compile(
            r"([?&](?:api[_-]?key|key|(?:access_|auth_)?token|secret|password|sig|(?:x-[a-z]{1,8}-)?signature)=)[^\s\"'\\&#]{4,}",
            re.IGNORECASE,
        ),
        rf"\1{MARKER}",
    ),
    (
        ("://",),
        re.compile(r"(://[^\s/:@\"'\\]{0,256}:)[^\s/\"'\\]{1,256}(?=@)|(://)[A-Za-z0-9_-]{20,256}(?=@)"),
        rf"\1\2{MARKER}",
    ),
)  # fmt: skip


def _by_shape(text: str) -> str:
    if len(text) < _LEAST:
        return text
    lower = text.lower()
    for hints, pattern, replacement in _SHAPES:
        if any(hint in lower for hint in hints):
            text = pattern.sub(replacement, text)
    return text
