"""`artkit replay`."""

from __future__ import annotations

import io
from pathlib import Path

import art
import pytest
from rich.console import Console

from artkit.cli import main
from artkit.cli.replay import show_episode
from artkit.episodes import FailureKind, FailureRecord, StopReason, write_groups
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


def test_a_terminal_gets_colours(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who said what is then seen at a glance."""
    monkeypatch.setattr(
        "artkit.cli.replay.Console", lambda **options: Console(**options, force_terminal=True, color_system="standard")
    )
    file = io.StringIO()

    show_episode(path, file=file)

    assert "\x1b[36muser" in file.getvalue()
    assert "\x1b[31m" not in file.getvalue()


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
