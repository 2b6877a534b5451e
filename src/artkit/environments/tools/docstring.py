"""What a docstring says of a function and of its arguments."""

from __future__ import annotations

import inspect
import re

__all__ = ["read_docstring"]

_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})
_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Attributes|Examples?|Notes?|Sources?|References"
    r"|See Also|Warnings?):"
)
_ENTRY = re.compile(r"(?P<name>\w+) *(?:\([^)]*\))? *: *(?P<text>.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    '''Return the description of a Google-style docstring, and what it says of each argument.

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
    sections: dict[str, list[str]] = {"": []}
    name = ""
    for line in inspect.cleandoc(text or "").splitlines():
        header = _SECTION.fullmatch(line.rstrip())
        if header is None:
            sections[name].append(line)
        else:
            name = header[1]
            sections.setdefault(name, [])
    arguments: dict[str, str] = {}
    for section in _ARGUMENTS & sections.keys():
        arguments |= _entries(sections[section])
    return "\n".join(sections[""]).strip(), arguments


def _entries(lines: list[str]) -> dict[str, str]:
    """Return the entries of a section: `name: text`, with further lines indented deeper."""
    entries: dict[str, str] = {}
    name, indent = "", None
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        entry = _ENTRY.fullmatch(line.strip()) if depth <= indent else None
        if entry is not None:
            name = entry["name"]
            entries[name] = entry["text"]
        elif name:
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
