"""Whether a chat template can render tools, and whether the calls of its model can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artkit.backends.torch.tool_calls import WrittenCall, parse_calls

__all__ = ["NO_TOOLS", "ToolSupport", "ToolsRefusedError"]

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]

_TOOL, _ARGUMENTS, _RESULT = "artkit_probe_tool", {"place": "artkit probe place"}, "artkit probe result"
_TOOLS: Tools = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "Look somewhere.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }
]
_QUESTION: Mapping[str, Any] = {"role": "user", "content": "Look."}
_CALL = {"id": "call_0", "type": "function", "function": {"name": _TOOL, "arguments": _ARGUMENTS}}
_CONVERSATION: Messages = [
    _QUESTION,
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call_0", "name": _TOOL, "content": _RESULT},
]


class ToolsRefusedError(ValueError):
    """A chat template cannot render what has to do with tools.

    Args:
        param: The field that it cannot render.
        problem: Why.
    """

    def __init__(self, param: str, problem: str) -> None:
        super().__init__(param, problem)
        self.param = param

    def __str__(self) -> str:
        return f"{self.args[0]}: not supported, for the chat template of this model {self.args[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSupport:
    """What a chat template does with tools.

    Attributes:
        problem: Why tools cannot be offered, None where they can.
        problem_without_tools: Why calls of earlier turns cannot be rendered where no tools are on offer, None where
            they can: a model may have a template of its own for requests with tools.
    """

    problem: str | None
    problem_without_tools: str | None

    @classmethod
    def probe(cls, render: Callable[[Messages, Tools | None], str]) -> ToolSupport:
        """Find out by rendering a tool, a call of it and its result.

        Args:
            render: Renders a conversation, with tools or with None.
        """
        if _TOOL not in _rendered(render, [_QUESTION], _TOOLS):
            problem: str | None = "does not render tools"
        elif not _is_read_back(_rendered(render, _CONVERSATION, _TOOLS)):
            problem = (
                "renders tools in a form that is not known (calls are read as "
                '<tool_call>{"name": …, "arguments": {…}}</tool_call>)'
            )
        else:
            problem = None
        loses = problem is None and not _is_read_back(_rendered(render, _CONVERSATION, None))
        return cls(
            problem=problem, problem_without_tools="renders no calls where no tools are on offer" if loses else problem
        )

    def check(self, messages: Messages, tools: Tools | None) -> None:
        """See that nothing of tools would silently vanish.

        Raises:
            ToolsRefusedError: Something would.
        """
        if tools:
            if self.problem is not None:
                raise ToolsRefusedError("tools", self.problem)
        elif self.problem_without_tools is not None:
            for index, message in enumerate(messages):
                for name in ("tool_calls", "tool_call_id"):
                    if message.get(name):
                        raise ToolsRefusedError(f"messages[{index}].{name}", self.problem_without_tools)


NO_TOOLS = ToolSupport(problem="does not render tools", problem_without_tools="does not render tools")


def _rendered(render: Callable[[Messages, Tools | None], str], messages: Messages, tools: Tools | None) -> str:
    try:
        return render(messages, tools)
    except Exception:  # noqa: BLE001 (a template is a program: whatever it stumbles over, it cannot do this)
        return ""


def _is_read_back(text: str) -> bool:
    _, calls = parse_calls(text, is_whole=True)
    return WrittenCall(_TOOL, json.dumps(_ARGUMENTS)) in calls and _RESULT in text
