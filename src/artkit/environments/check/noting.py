"""What breaks no promise and is worth knowing, and what was played but not reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artkit.environments.check.finding import Promise
from artkit.environments.check.plain import plain
from artkit.environments.check.state import places
from artkit.environments.check.watched import says_something

if TYPE_CHECKING:
    from artkit.environments.check.checking import Checking

__all__ = ["note_the_rest"]


def note_the_rest(checking: Checking) -> None:
    """Note what the plays have shown beside broken promises."""
    _note_tools(checking)
    _note_prompts(checking)
    # Of what compares nothing in other processes, a training that is about to begin need not hear.
    if not (checking.settings.quick or checking.is_explained or checking.has(Promise.FRESH_PROCESS)):
        _note_state(checking)


def _note_tools(checking: Checking) -> None:
    for tool in sorted(set().union(*(case.script.uncalled for case in checking.cases))):
        checking.leave_out(f"no valid arguments were found for the tool {tool!r}: give actions= with calls of it")
    answered: dict[str, bool] = {}
    for _, base in checking.base:
        for tool, is_answered in (base.watched.answered if base.watched else {}).items():
            answered[tool] = answered.get(tool, False) or is_answered
    for tool in sorted(tool for tool, is_answered in answered.items() if not is_answered):
        checking.leave_out(f"all calls of the tool {tool!r} ended in tool_errors: give actions= with right ones")


def _note_prompts(checking: Checking) -> None:
    prompts: dict[int, tuple[Any, Any]] = {}
    for case, base in checking.base:
        if base.prompt:
            prompts.setdefault(id(case.scenario), (_content(case.scenario), base.prompt))
    if any(not _has_user_text(prompt) for _, prompt in prompts.values()):
        checking.note("the prompt holds no text of the user, and many chat templates need one")
    if checking.settings.quick:
        return
    scenarios, texts = zip(*prompts.values(), strict=True) if prompts else ((), ())
    if any(scenario != scenarios[0] for scenario in scenarios) and all(text == texts[0] for text in texts):
        checking.note(
            "the prompt does not depend on the scenario: the first messages of all that were played are the same"
        )


def _note_state(checking: Checking) -> None:
    # What was None before is loaded when it is first used, as large things are.
    changes = [change for change in checking.first_state.changes(checking.state()) if change.before is not None]
    if changes:
        checking.note(
            f"{places(changes)} changed while episodes were played; nothing that was compared depends on it. "
            "What belongs to one episode is kept on self"
        )


def _content(scenario: Any) -> Any:
    content = plain(scenario)
    return {name: value for name, value in content.items() if name != "id"} if isinstance(content, dict) else content


def _has_user_text(messages: list[dict[str, Any]]) -> bool:
    return any(message.get("role") == "user" and says_something(message) for message in messages)
