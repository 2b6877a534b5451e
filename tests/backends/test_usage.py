"""The usage example: a script that opens a backend like the one that was trained on."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from artkit import make_trainable_model
from artkit.backends import usage_example


def model(**changes: Any) -> Any:
    return make_trainable_model(**{"name": "agent", "project": "p", "base_model": "b", **changes})


def lines_with(text: str, script: str) -> list[str]:
    return [line.strip() for line in script.splitlines() if text in line]


class LocalBackend:
    """Keeps its arguments as ART's does."""

    def __init__(
        self, *, in_process: bool = False, path: str | None = None, gpu_cost_per_hour_usd: float | None = None
    ) -> None:
        self._in_process = in_process
        self._path = path or ".art"
        self._gpu_cost_per_hour_usd = gpu_cost_per_hour_usd
        self._services: dict[str, Any] = {}


@pytest.fixture
def local_backend(monkeypatch: pytest.MonkeyPatch) -> type[LocalBackend]:
    """ART's own needs torch and a GPU; this stands where that would."""
    module, room = types.ModuleType("fake_art.local.backend"), types.ModuleType("fake_art.local")
    for place in (module, room):
        place.LocalBackend = LocalBackend  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, place.__name__, place)
    monkeypatch.setattr(LocalBackend, "__module__", "fake_art.local.backend")
    return LocalBackend


def test_a_backend_is_made_with_the_arguments_that_this_one_was_made_with(local_backend: type[LocalBackend]) -> None:
    """Run from another directory it would not find the checkpoints, so paths are absolute."""
    script = usage_example(model(), local_backend(path="elsewhere", in_process=True))

    path = str(Path("elsewhere").resolve())
    assert lines_with("backend = ", script) == [f"backend = LocalBackend(in_process=True, path={path!r})"]


def test_a_class_is_imported_from_the_shortest_place_that_offers_it(local_backend: type[LocalBackend]) -> None:
    """As its documentation would, and not from where it happens to be written."""
    script = usage_example(model(), local_backend())

    assert lines_with("import LocalBackend", script) == ["from fake_art.local import LocalBackend"]


def test_art_s_serverless_backend_is_made_without_its_key() -> None:
    """A report is printed, logged and sent around."""
    import art

    script = usage_example(model(), art.ServerlessBackend(api_key="made-up", base_url="http://127.0.0.1:9/v1"))

    assert lines_with("import ServerlessBackend", script) == ["from art import ServerlessBackend"]
    assert lines_with("backend = ", script) == ["backend = ServerlessBackend(base_url='http://127.0.0.1:9/v1/')"]
    assert "made-up" not in script


class Repeatable:
    """Its `repr` is the call that makes it."""

    def __repr__(self) -> str:
        return "Repeatable(3, name='x')"


def test_a_repr_that_is_a_call_is_believed() -> None:
    """Who writes one knows better than any guess."""
    assert lines_with("backend = ", usage_example(model(), Repeatable())) == ["backend = Repeatable(3, name='x')"]


def test_the_model_is_made_with_the_names_it_has(tmp_path: Path) -> None:
    """Equal names are the same run, with its checkpoints."""
    script = usage_example(model(run_name="run-1", base_path=str(tmp_path)), Repeatable())
    (call,) = (
        node
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "make_trainable_model"
    )

    made = make_trainable_model(**{word.arg: ast.literal_eval(word.value) for word in call.keywords})  # type: ignore[misc]

    assert made._get_output_dir() == f"{tmp_path}/p/models/run-1"


def test_the_question_is_one_that_the_model_knows() -> None:
    """Anything a script may hold: quotes, line ends, other alphabets, null."""
    messages = [{"role": "user", "content": 'say "hi"\n\\ü☃', "name": None}]
    script = usage_example(model(), Repeatable(), messages)
    (create,) = (
        word.value for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call) for word in node.keywords
        if word.arg == "messages"
    )  # fmt: skip

    assert ast.literal_eval(create) == messages


def asked(messages: list[dict[str, Any]]) -> Any:
    script = usage_example(model(), Repeatable(), messages)
    (question,) = (
        word.value for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call) for word in node.keywords
        if word.arg == "messages"
    )  # fmt: skip
    return ast.literal_eval(question)


def test_a_question_is_as_short_as_a_person_can_read() -> None:
    """It is printed: a prompt of twenty pages would hide the name of the model above it."""
    assert asked([{"role": "system", "content": "x" * 20_000}, {"role": "user", "content": "hi"}]) == [
        {"role": "system", "content": "x" * 500 + " […]"},
        {"role": "user", "content": "hi"},
    ]


def test_a_question_holds_no_pictures() -> None:
    """As text they are pages of letters."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    words = {"type": "text", "text": "what is this?"}

    assert asked([{"role": "user", "content": [picture, words]}]) == [{"role": "user", "content": "what is this?"}]
    assert asked([{"role": "user", "content": [picture]}]) == [{"role": "user", "content": "Hello"}]


def test_a_question_ends_with_the_first_message_of_a_user() -> None:
    """Examples that a prompt gives go on for long, and calls of tools need their answers."""
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": "first"},
        {"role": "user", "content": "second"},
    ]

    assert asked(messages) == [messages[0], messages[2]]
