"""Whether tools can be offered to a model."""

from __future__ import annotations

from typing import Any

import pytest

from artkit.environments.check.tools import tools_problem


def tool(parameters: Any, name: Any = "look") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


OBJECT = {"type": "object", "properties": {"at": {"type": "string"}}}


@pytest.mark.parametrize(
    "tools",
    [
        (),
        [tool(OBJECT)],
        [tool({})],
        [tool(None)],
        [{"type": "function", "function": {"name": "look"}}],
        [tool({"properties": {"at": {"type": "string"}}})],
        [tool({"$ref": "#/$defs/A", "$defs": {"A": OBJECT}})],
        [tool(OBJECT), tool(OBJECT, "go")],
        [{"type": "web_search"}],
        None,
        [3],
    ],
)
def test_what_servers_take_is_no_problem(tools: Any) -> None:
    """Nor is it for this to say what the turn loop refuses itself."""
    assert tools_problem(tools) == ""


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([{"name": "look"}], "{'name': 'look'}, which has no name"),
        ([tool(OBJECT, name="")], "which has no name"),
        ([tool(OBJECT, name=3)], "which has no name"),
        ([tool(OBJECT), tool({})], "2 tools with the name 'look'"),
        ([tool({"at": {"type": "string"}})], "no JSON schema of an object"),
        ([tool({"type": "string"})], "no JSON schema of an object"),
        ([tool({"type": "object", "properties": 3})], "no JSON schema of an object"),
        ([tool(["at"])], "no JSON schema of an object"),
    ],
)
def test_what_a_server_refuses_is_said(tools: Any, problem: str) -> None:
    """Each request of a run would be answered with 400, or a model be shown nonsense."""
    assert problem in tools_problem(tools)
