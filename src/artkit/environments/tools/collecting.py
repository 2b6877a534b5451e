"""The tools of a class: its marked methods."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from artkit.environments.tools.mark import Tool, marked
from artkit.errors import EnvironmentContractError

__all__ = ["Method", "collect_tools"]


class Method(NamedTuple):
    """A tool, and what its method is called in the class."""

    attribute: str
    tool: Tool


def collect_tools(cls: type, *, reserved: Collection[str]) -> dict[str, Method]:
    """Return the marked methods of `cls` and its bases by the tool's name, in the order in which they were defined.

    Args:
        cls: The class.
        reserved: Attributes that mean something else.

    Raises:
        EnvironmentContractError: Two tools of one name, a mark on something reserved or on no plain method, or a
            marked method that was overridden by one without a mark.
    """
    found: dict[str, Tool] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            if (made := marked(value)) is not None:
                _check(cls, attribute, value, reserved)
                found[attribute] = made
            elif attribute in found:
                if value is not None:
                    raise EnvironmentContractError(
                        f"{cls.__qualname__}.{attribute} overrides a tool and is none",
                        f"mark it with @tool, or write `{attribute} = None` to take the tool away",
                    )
                del found[attribute]
    tools: dict[str, Method] = {}
    for attribute, made in found.items():
        if made.name in tools:
            raise EnvironmentContractError(
                f"{cls.__qualname__} has two tools called {made.name!r}, {tools[made.name].attribute} and {attribute}",
                "give one of them another name",
            )
        tools[made.name] = Method(attribute, made)
    return tools


def _check(cls: type, attribute: str, value: object, reserved: Collection[str]) -> None:
    if attribute in reserved:
        raise EnvironmentContractError(
            f"{cls.__qualname__}.{attribute} is a tool, but means something else in an environment",
            f'call the method otherwise and write @tool(name="{attribute}")',
        )
    if isinstance(value, staticmethod | classmethod):
        raise EnvironmentContractError(
            f"{cls.__qualname__}.{attribute} is a {type(value).__name__}", "mark plain methods, with self"
        )
