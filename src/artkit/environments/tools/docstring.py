"""What a docstring says of a function and of its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import pairwise

__all__ = ["read_docstring"]

_Reader = Callable[[list[str]], dict[str, str]]
"""Returns what the lines of a section say of each argument."""

_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})
_SECTION = re.compile(
    r"(?P<name>Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Attributes|Examples?|Notes?|Sources?|References"
    r"|See Also|Warnings?)(?P<colon>:?)"
)
_UNDERLINE = re.compile(r"-{3,}")
_STARS = r"(?:\\?\*){0,2}"  # of `*names` and `**options`, as they are or behind backslashes
_GOOGLE_NAME = re.compile(_STARS + r"(?P<name>\w+) *")
_GOOGLE_TEXT = re.compile(r" *: *(?P<text>.*)")
_NUMPY_ENTRY = re.compile(rf"(?P<names>{_STARS}\w+(?: *, *{_STARS}\w+)*)(?: *:.*)?")
_SPHINX_FIELD = re.compile(r":(?P<kind>param|type|returns?|rtype|raises?)(?: [^:]*?(?P<name>\w+))?: *(?P<text>.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    '''Return the description of a docstring, and what it says of each argument, in Google's, NumPy's or Sphinx's style.

    >>> read_docstring("""Find a book.
    ...
    ...     Args:
    ...         title: Words of its title,
    ...             in any order.
    ...         year (int): When it was printed.
    ...
    ...     Returns:
    ...         The book.
    ... """)
    ('Find a book.', {'title': 'Words of its title, in any order.', 'year': 'When it was printed.'})
    '''
    about: list[str] = []
    sections: list[tuple[_Reader, list[str]]] = []
    lines = [*inspect.cleandoc(text or "").splitlines(), ""]
    section, is_field = about, False
    for line, below in pairwise(lines):
        if line.startswith(":") and _SPHINX_FIELD.fullmatch(line):
            section, is_field = [line], True
            sections.append((_sphinx_entry, section))
        elif (reader := _section_reader(line, below)) is not None:
            section, is_field = [], False
            sections.append((reader, section))
        else:
            if is_field and line[:1].strip():  # a field ends where its indentation does
                section, is_field = about, False
            section.append(line)
    arguments: dict[str, str] = {}
    for read, section in sections:
        arguments |= read(section)
    return "\n".join(about).strip(), arguments


def _section_reader(line: str, below: str) -> _Reader | None:
    """Return what reads the section whose header is `line`; None where it is none."""
    header = _SECTION.fullmatch(line.rstrip())
    if header is None:
        return None
    is_underlined = _UNDERLINE.fullmatch(below.rstrip()) is not None
    if not (header["colon"] or is_underlined):
        return None
    if header["name"] not in _ARGUMENTS:
        return lambda _: {}
    return _numpy_entries if is_underlined else _google_entries


def _google_entries(lines: list[str]) -> dict[str, str]:
    """Read `name: text`, with further lines indented deeper."""
    entries: dict[str, str] = {}
    name, indent = "", None
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        entry = _google_entry(line.strip()) if depth <= indent else None
        if entry is not None:
            name, entries[entry[0]] = entry
        elif name:
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries


def _google_entry(line: str) -> tuple[str, str] | None:
    """Return name and text of `name: text` or `name (type): text`; None where it is neither."""
    name = _GOOGLE_NAME.match(line)
    if name is None:
        return None
    text = _GOOGLE_TEXT.fullmatch(line, _end_of_brackets(line, name.end()))
    return None if text is None else (name["name"], text["text"])


def _end_of_brackets(line: str, start: int) -> int:
    """Return where the brackets that open at `start` close, others inside them; `start` where none open or close."""
    depth = 0
    for end in range(start, len(line)):
        depth += (line[end] in "([{") - (line[end] in ")]}")
        if depth <= 0:
            return end + 1 if end > start else start
    return start


def _numpy_entries(lines: list[str]) -> dict[str, str]:
    """Read `name : type`, or several names, above lines of text that are indented."""
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in filter(str.strip, lines):
        if line[0].isspace():
            for name in names:
                entries[name] = f"{entries.get(name, '')} {line.strip()}".strip()
        else:
            entry = _NUMPY_ENTRY.fullmatch(line.rstrip())
            names = re.findall(r"\w+", entry["names"]) if entry else []
    return entries


def _sphinx_entry(lines: list[str]) -> dict[str, str]:
    """Read `:param type name: text`, with further lines below; other fields say nothing of an argument."""
    field = _SPHINX_FIELD.fullmatch(lines[0])
    if field is None or field["kind"] != "param" or not field["name"]:
        return {}
    return {field["name"]: " ".join([field["text"].strip(), *map(str.strip, lines[1:])]).strip()}
