"""`artkit replay FILE`: one recorded episode, turn by turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice
from rich.console import Console
from rich.text import Text

from artkit.episodes import Episode, iter_episodes
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

__all__ = ["show_episode"]

_STYLES = {"system": "dim", "user": "cyan", "tool": "yellow", "assistant": "green"}
_WIDTH = 10


def show_episode(path: Path, *, number: int = 1, file: IO[str] | None = None) -> None:
    """Show an episode of a recording: its messages and calls turn by turn, and how it ended.

    Control characters are shown escaped: what a model wrote must not steer the terminal.

    Args:
        path: The recording.
        number: Which episode of the file, from 1.
        file: Where to show it; None means standard output.

    Raises:
        ConfigurationError: The file cannot be read, or has no such episode.
    """
    episode, count = _found(path, number)
    # Where it is no terminal, rich writes plain text; a terminal wraps lines by itself, so that they can be copied.
    console = Console(file=file, highlight=False, soft_wrap=True)
    for line in _lines(episode, f"episode {number} of {count}"):
        console.print(line)


def _found(path: Path, number: int) -> tuple[art.Trajectory, int]:
    found, count = None, 0
    try:
        for episode in iter_episodes(path):
            count += 1
            if count == number:
                found = episode
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    except (ValueError, KeyError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path} is no recording: {error}", "give a file that artkit recorded") from error
    if found is None:
        hint = f"give --episode from 1 to {count}" if count else "give a file with episodes in it"
        raise ConfigurationError(f"{path} has {count} episodes, and no episode {number}", hint)
    return found, count


def _lines(episode: art.Trajectory, which: str) -> Iterator[Text]:
    name = episode.metadata.get("scenario_id", "")
    member = episode.member if isinstance(episode, Episode) else 0
    yield _line(f"scenario {name!r}, member {member} ({which})", "bold")
    if episode.tools:
        names = [tool.get("function", {}).get("name", "?") for tool in episode.tools]
        yield _line(f"tools: {', '.join(map(str, names))}", "dim")
    turns = itertools.count(1)
    for entry in episode.messages_and_choices:
        yield Text("")
        if isinstance(entry, Choice):
            message = entry.message if isinstance(entry.message, dict) else entry.message.model_dump()
            yield _line(f"turn {next(turns)}, finished by {entry.finish_reason}", "bold")
            yield from _message({"role": "assistant", **message})
        else:
            yield from _message(dict(entry))
    yield Text("")
    yield from _end(episode)


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
    yield _line(f"{'reward':<{_WIDTH}} {episode.reward:g}", "bold")
    if isinstance(episode, Episode):
        if episode.stop_reason is not None:
            yield _line(f"{'ended':<{_WIDTH}} {episode.stop_reason}")
        if episode.outcome is not None:
            yield _line(f"{'outcome':<{_WIDTH}} {json.dumps(episode.outcome, default=repr, ensure_ascii=False)}")
        if episode.failure is not None:
            yield _line(f"{'failure':<{_WIDTH}} {episode.failure.kind}: {episode.failure}", "red")
    for metric, value in episode.metrics.items():
        yield _line(f"{'metric':<{_WIDTH}} {metric} = {value}", "dim")
    for log in episode.logs:
        yield _line(f"{'log':<{_WIDTH}} {log}", "dim")


def _line(text: str, style: str = "") -> Text:
    # As `Text`, in which brackets are brackets and no markup.
    shown = "".join(character if character.isprintable() else _escaped(character) for character in text)
    return Text(shown, style=style)


def _escaped(character: str) -> str:
    return "    " if character == "\t" else repr(character)[1:-1]
