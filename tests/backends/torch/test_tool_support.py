"""Which chat templates can be given tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2
import pytest

from artkit.backends.torch.tool_support import ToolsRefusedError, ToolSupport

TURNS = "{% for m in messages %}[{{ m.role }}] {{ m.content }}"
CALLS = (
    "{% for c in m.tool_calls %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
)
END = "\n{% endfor %}"
TOOLS = "{% if tools %}{{ tools | tojson }}\n{% endif %}"

TOOL = {"type": "function", "function": {"name": "look"}}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
CALLED = [*ASKED, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]}]


def renderer(template: str, without_tools: str | None = None) -> Callable[..., str]:
    def render(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        chosen = template if tools or without_tools is None else without_tools
        return jinja2.Template(chosen, undefined=jinja2.StrictUndefined).render(messages=messages, tools=tools)

    return render


CALLS_IF_ANY = "{% if m.tool_calls is defined %}" + CALLS + "{% endif %}"


def test_a_template_of_hermes_and_qwen_form_can_do_all() -> None:
    """It says how a call looks by rendering one."""
    support = ToolSupport.probe(renderer(TOOLS + TURNS + CALLS_IF_ANY + END))

    assert support == ToolSupport(problem=None, problem_without_tools=None)
    support.check(CALLED, [TOOL])
    support.check(CALLED, None)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (TURNS + END, "does not render tools"),
        ("{{ raise_exception('no tools') }}", "does not render tools"),
        (TOOLS + TURNS + CALLS_IF_ANY.replace("tool_call>", "function_call>") + END, "a form that is not known"),
        (
            TOOLS + "As <tool_call><function=NAME></function></tool_call>." + TURNS + "{% if m.tool_calls is defined %}"
            "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n</function>\n</tool_call>"
            "{% endfor %}{% endif %}" + END,
            "a form that is not known",
        ),
        (TOOLS + "As <tool_call></tool_call>." + TURNS + END, "a form that is not known"),
        (TOOLS + "{% if messages|length > 1 %}{{ missing }}{% endif %}" + TURNS + END, "a form that is not known"),
        (TOOLS + TURNS.replace("{{ m.content }}", "") + CALLS_IF_ANY + END, "a form that is not known"),
    ],
    ids=["ignores", "raises", "other markers", "xml", "loses calls", "raises at calls", "loses results"],
)
def test_a_template_that_would_lose_something_of_tools_is_found_out(template: str, reason: str) -> None:
    """A tool that silently vanished would be a different task."""
    support = ToolSupport.probe(renderer(template))

    with pytest.raises(ToolsRefusedError, match=reason) as offered:
        support.check(ASKED, [TOOL])
    with pytest.raises(ToolsRefusedError, match=r"messages\[1\].tool_calls: not supported") as called:
        support.check(CALLED, None)
    with pytest.raises(ToolsRefusedError, match=r"messages\[0\].tool_call_id"):
        support.check([{"role": "tool", "content": "x", "tool_call_id": "call_0"}], None)
    support.check(ASKED, [])
    assert (offered.value.param, called.value.param) == ("tools", "messages[1].tool_calls")


def test_a_second_template_for_requests_without_tools_is_looked_at_too() -> None:
    """Some models have one that knows nothing of calls."""
    support = ToolSupport.probe(renderer(TOOLS + TURNS + CALLS_IF_ANY + END, without_tools=TURNS + END))

    support.check(CALLED, [TOOL])
    with pytest.raises(ToolsRefusedError, match="renders no calls where no tools are on offer"):
        support.check(CALLED, None)
