"""`artkit replay`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import art
import pytest
from openai.types.chat.chat_completion import Choice
from rich.console import Console

from artkit.bridge import further_history
from artkit.cli import main
from artkit.cli.replay import show_episode
from artkit.episodes import Episode, FailureKind, FailureRecord, StopReason, write_groups
from artkit.testing import Reply, choice, episode

PICTURE = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    whole = episode(
        {"role": "system", "content": "Be brief."},
        "Where is the [red]key[/red]?",
        choice(Reply(tool_calls=[("look", {"at": "door"})], reasoning="I should look.")),
        {"role": "tool", "tool_call_id": "call_1_0", "content": PICTURE},
        choice("At the\ndoor.\x1b[31m\x07"),
        reward=0.5,
        metrics={"turns": 2, "won": True},
        outcome={"at": "door"},
    )
    whole.metadata["scenario_id"], whole.member, whole.stop_reason = "s-1", 3, StopReason.DONE
    whole.tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    whole.log("it was easy")
    lost = episode("hi", choice("ho"))
    lost.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")
    path = tmp_path / "r.jsonl"
    write_groups(path, [art.TrajectoryGroup([whole])], [lost])
    return path


def test_an_episode_is_shown_turn_by_turn(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To see what a model does, one reads what it did; nothing that it wrote steers the terminal or the markup."""
    assert main(["replay", str(path)]) == 0

    assert capsys.readouterr().out == (
        "scenario 's-1', member 3 (episode 1 of 2)\n"
        "tools: look\n"
        "\n"
        "system     Be brief.\n"
        "\n"
        "user       Where is the [red]key[/red]?\n"
        "\n"
        "turn 1, finished by tool_calls\n"
        "assistant  I should look.\n"
        '           calls look({"at": "door"})\n'
        "\n"
        "tool       look\n"
        "           [image_url]\n"
        "\n"
        "turn 2, finished by stop\n"
        "assistant  At the\n"
        "           door.\\x1b[31m\\x07\n"
        "\n"
        "reward     0.5\n"
        "ended      done\n"
        'outcome    {"at": "door"}\n'
        "metric     turns = 2\n"
        "metric     won = True\n"
        "log        it was easy\n"
    )


def test_another_episode_is_shown_by_its_number(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost ones come last, with what they failed of."""
    assert main(["replay", str(path), "--episode", "2"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("scenario '', member 0 (episode 2 of 2)\n")
    assert "failure    environment: KeyError: 'door'\n" in out


def test_a_terminal_gets_colours(path: Path) -> None:
    """Who said what is then seen at a glance."""
    file = io.StringIO()

    show_episode(path, console=Console(file=file, force_terminal=True, color_system="standard"))

    assert "\x1b[36muser" in file.getvalue()
    assert "\x1b[31m" not in file.getvalue()


def test_the_episodes_are_listed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To find the one to look at."""
    assert main(["replay", str(path), "--list"]) == 0

    assert capsys.readouterr().out == (
        "episode  reward     turns  ended                   member  scenario\n"
        "1        0.5        2      done                    3       s-1\n"
        "2        0          1      environment failure     0       \n"
    )


def test_a_list_is_not_of_one_episode(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of the two was a slip."""
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(path), "--list", "--episode", "2"])
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--list"], ["--episode", "2"]])
def test_a_reader_that_has_seen_enough_ends_it_quietly(path: Path, options: list[str]) -> None:
    """`artkit replay … | head -1` is how one looks for something."""
    command = subprocess.Popen(
        [sys.executable, "-m", "artkit.cli", "replay", str(path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    command.stdout.close()
    _, said = command.communicate(timeout=60)

    assert (said, command.returncode) == (b"", 1)


def test_odd_episodes_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What went wrong is what one looks for."""
    odd = episode("q", Choice.construct(index=0, finish_reason="stop", message=None), outcome={"at": "Tür"})
    odd.additional_histories = [further_history([{"role": "user", "content": "Sum up."}, choice("Four.")], None)]
    odd.messages_and_choices += ["no message", {"role": "tool", "content": {"a": 1}, "tool_calls": "none"}]  # type: ignore[list-item]
    vars(odd).update(reward=None, tools=["look", {"function": "look"}])
    write_groups(tmp_path / "r.jsonl", [], [odd])

    assert main(["replay", str(tmp_path / "r.jsonl")]) == 0

    out = capsys.readouterr().out
    assert "tools: ?, ?\n\nuser       q\n\nturn 1, finished by stop\n" in out
    assert "another conversation\n\nuser       Sum up.\n\nturn 1, finished by stop\nassistant  Four.\n" in out
    assert 'reward     None\noutcome    {"at": "Tür"}\n' in out


@pytest.mark.art_captures
def test_turns_that_art_captured_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are in no message of the trajectory."""
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice("5").model_dump()]}
    exchange = {
        "request": {"model": "m", "messages": [{"role": "user", "content": "2+3="}]},
        "response": reply,
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-01T00:00:01Z",
    }
    write_groups(tmp_path / "r.jsonl", [], [Episode(exchanges={"chat_completions": [exchange]})])

    assert main(["replay", str(tmp_path / "r.jsonl")]) == 0
    assert "user       2+3=\n\nturn 1, finished by stop\nassistant  5\n" in capsys.readouterr().out


def test_a_pipe_that_takes_no_such_letters_gets_them_escaped(path: Path) -> None:
    """`LANG=C artkit replay …` must not end in the middle."""
    write_groups(path, [], [episode("Tür")])
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")

    show_episode(path, console=Console(file=file))
    file.flush()

    assert b"user       T\\xfcr\n" in raw.getvalue()


@pytest.mark.parametrize("number", ["3", "99"])
def test_an_episode_that_is_not_there_exits_with_2(path: Path, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says how many there are."""
    assert main(["replay", str(path), "--episode", number]) == 2
    assert "give --episode from 1 to 2" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "no JSON\nat all\n", '{"name": "Ada"}\n', ""])
def test_what_is_no_recording_exits_with_2(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person at a shell wants a way out, not a traceback."""
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_text(content)

    assert main(["replay", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"artkit: {path}")


def test_a_number_below_1_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Episodes are counted from 1."""
    with pytest.raises(SystemExit) as stopped:
        main(["replay", str(path), "--episode", "0"])

    assert stopped.value.code == 2
    assert "--episode" in capsys.readouterr().err
