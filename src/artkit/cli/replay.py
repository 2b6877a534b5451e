"""`artkit replay FILE`: one recorded episode, turn by turn, or a list of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from artkit.bridge import Conversation, conversations, model_turns
from artkit.episodes import Episode, iter_episodes
from artkit.episodes.recorded_values import to_line
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

__all__ = ["list_episodes", "show_episode"]

_STYLES = {"system": "dim", "user": "cyan", "tool": "yellow", "assistant": "green"}
_WIDTH = 10
# Of a list: episode, reward, turns, how it ended, member.
_COLUMNS = (7, 9, 5, 22, 6)


def show_episode(path: Path, *, number: int = 1, console: Console | None = None) -> None:
    """Show an episode of a recording: its messages and calls turn by turn, and how it ended.

    Control characters are shown escaped: what a model wrote must not steer the terminal.

    Args:
        path: The recording.
        number: Which episode of the file, from 1.
        console: Where to show it; None means standard output.

    Raises:
        ConfigurationError: The file cannot be read, or has no such episode.
    """
    episode, count = _found(path, number)
    _print(_lines(episode, f"episode {number} of {count}"), console)


def list_episodes(path: Path, *, console: Console | None = None) -> None:
    """List the episodes of a recording, a line each: number, reward, turns, how it ended, member and scenario.

    Args:
        path: The recording.
        console: Where to show it; None means standard output.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    _print(
        itertools.chain(
            [_line(_row("episode", "reward", "turns", "ended", "member", "scenario"), "bold")],
            (_listed(episode, number) for number, episode in _numbered(path)),
        ),
        console,
    )


def _print(lines: Iterable[Text], console: Console | None) -> None:
    # Where it is no terminal, rich writes plain text; a terminal wraps lines by itself, so that they can be copied.
    console = console or Console(highlight=False, soft_wrap=True)
    for line in lines:
        # Not every terminal or pipe takes every character.
        line.plain = line.plain.encode(console.encoding, "backslashreplace").decode(console.encoding)
        console.print(line, soft_wrap=True)


def _numbered(path: Path) -> Iterator[tuple[int, art.Trajectory]]:
    try:
        yield from enumerate(iter_episodes(path), start=1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "check the path") from error


def _row(*cells: str) -> str:
    *short, scenario = cells
    return "  ".join([*(f"{cell:<{width}}" for cell, width in zip(short, _COLUMNS, strict=True)), scenario])


def _listed(episode: art.Trajectory, number: int) -> Text:
    ended, member = "", 0
    if isinstance(episode, Episode):
        ended, member = str(episode.stop_reason or ""), episode.member
        if episode.failure is not None:
            ended = f"{episode.failure.kind} failure"
    name = str(episode.metadata.get("scenario_id", ""))
    return _line(_row(str(number), _reward(episode), str(model_turns(episode)), ended, str(member), name))


def _found(path: Path, number: int) -> tuple[art.Trajectory, int]:
    found, count = None, 0
    for count, episode in _numbered(path):
        if count == number:
            found = episode
    if found is None:
        hint = f"give --episode from 1 to {count}" if count else "give a file with episodes in it"
        raise ConfigurationError(f"{path} has {count} episodes, and no episode {number}", hint)
    return found, count


def _lines(episode: art.Trajectory, which: str) -> Iterator[Text]:
    name = episode.metadata.get("scenario_id", "")
    member = episode.member if isinstance(episode, Episode) else 0
    yield _line(f"scenario {name!r}, member {member} ({which})", "bold")
    for number, conversation in enumerate(conversations(episode)):
        if number > 0:
            yield Text("")
            yield _line("another conversation", "bold")
        if conversation.tools:
            yield _line(f"tools: {', '.join(map(_tool, conversation.tools))}", "dim")
        yield from _turns(conversation)
    yield Text("")
    yield from _end(episode)


def _turns(conversation: Conversation) -> Iterator[Text]:
    turns = itertools.count(1)
    for entry in conversation.turns:
        yield Text("")
        if isinstance(entry, Choice):
            yield _line(f"turn {next(turns)}, finished by {entry.finish_reason}", "bold")
            yield from _message({"role": "assistant", **_fields(entry.message)})
        else:
            yield from _message(_fields(entry))


def _fields(message: Any) -> dict[str, Any]:
    # What a server answered, and a rollout wrote by hand, was never looked at.
    if isinstance(message, BaseModel):
        return message.model_dump(warnings=False)
    return dict(message) if isinstance(message, Mapping) else {"content": message}


def _tool(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return str(function.get("name", "?")) if isinstance(function, Mapping) else "?"


def _message(message: dict[str, Any]) -> Iterator[Text]:
    role = str(message.get("role", "?"))
    parts = [message.get("reasoning_content") or "", _content(message.get("content")), message.get("refusal") or ""]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    lines = [line for part in [*parts, *calls] for line in str(part).split("\n") if part] or [""]
    for place, line in enumerate(lines):
        yield _line(f"{role if place == 0 else '':<{_WIDTH}} {line}", _STYLES.get(role, ""))


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(
            part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else f"[{_kind(part)}]"
            for part in content
        )
    return "" if content is None else str(content)


def _kind(part: Any) -> str:
    return str(part.get("type", "part")) if isinstance(part, dict) else "part"


def _call(call: Any) -> str:
    function = call.get("function") or {} if isinstance(call, dict) else {}
    return f"calls {function.get('name', '?')}({function.get('arguments', '')})"


def _end(episode: art.Trajectory) -> Iterator[Text]:
    yield _line(f"{'reward':<{_WIDTH}} {_reward(episode)}", "bold")
    if isinstance(episode, Episode):
        if episode.stop_reason is not None:
            yield _line(f"{'ended':<{_WIDTH}} {episode.stop_reason}")
        if episode.outcome is not None:
            yield _line(f"{'outcome':<{_WIDTH}} {_outcome(episode.outcome)}")
        if episode.failure is not None:
            yield _line(f"{'failure':<{_WIDTH}} {episode.failure.kind}: {episode.failure}", "red")
    for metric, value in episode.metrics.items():
        yield _line(f"{'metric':<{_WIDTH}} {metric} = {value}", "dim")
    for log in episode.logs:
        yield _line(f"{'log':<{_WIDTH}} {log}", "dim")


def _reward(episode: art.Trajectory) -> str:
    return f"{episode.reward:g}" if isinstance(episode.reward, int | float) else str(episode.reward)


def _outcome(outcome: Any) -> str:
    # As it was recorded, and in the letters that it was written in.
    return json.dumps(json.loads(to_line(outcome)), ensure_ascii=False)


def _line(text: str, style: str = "") -> Text:
    # As `Text`, in which brackets are brackets and no markup.
    shown = "".join(character if character.isprintable() else _escaped(character) for character in text)
    return Text(shown, style=style)


def _escaped(character: str) -> str:
    return "    " if character == "\t" else repr(character)[1:-1]
