"""What may leave the machine: groups and exceptions without the secrets in their texts."""

from __future__ import annotations

import traceback
from typing import Any

import art
import pytest
from pydantic import BaseModel, ValidationError

from artkit.bridge import group_exception, guard_keys, hide_secrets, loggable, make_trainable_model, without_secrets
from artkit.bridge.captured import further_history
from artkit.episodes import FailureKind, FailureRecord
from artkit.testing import choice

KEY = "the-key-of-this-process"
SHAPED = "sk-aB3dE5fG7hJ9kL1m2n4"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)


def group_of(*members: art.Trajectory, **fields: Any) -> art.TrajectoryGroup:
    group = art.TrajectoryGroup(list(members))
    for name, value in fields.items():
        setattr(group, name, value)
    return group


def test_what_holds_no_secret_is_the_same_object() -> None:
    """Nothing is copied for nothing, and a backend may write on what it is given."""
    group = group_of(
        art.Trajectory(
            messages_and_choices=[{"role": "user", "content": "hi"}, choice("hello")], reward=1.0, logs=["a"]
        ),
        metadata={"scenario_id": "a"},
    )

    assert without_secrets([group])[0] is group


def test_texts_about_the_episode_lose_what_looks_like_a_secret_and_messages_what_is_one() -> None:
    """A message may be about keys; a log may not hold one."""
    reply = choice(f"I will use {KEY}")
    member = art.Trajectory(
        messages_and_choices=[{"role": "user", "content": [{"type": "text", "text": f"{KEY} {SHAPED}"}]}, reply],
        additional_histories=[further_history([{"role": "user", "content": KEY}], None)],
        tools=[{"type": "function", "function": {"name": "f", "description": KEY, "parameters": {}}}],
        reward=1.0,
        logs=[f"{KEY} {SHAPED}"],
        metadata={"note": SHAPED},
    )
    before = member.model_copy(deep=True)
    group = group_of(member, logs=[SHAPED], metadata={"note": KEY}, metrics={"m": 1})

    (safe,) = without_secrets([group])

    (changed,) = safe.trajectories
    assert changed.messages_and_choices == [
        {"role": "user", "content": [{"type": "text", "text": f"[secret] {SHAPED}"}]},
        reply,
    ]
    assert changed.additional_histories[0].messages_and_choices == [{"role": "user", "content": "[secret]"}]
    assert changed.tools is not None
    assert changed.tools[0]["function"]["description"] == "[secret]"
    assert (changed.logs, changed.metadata, changed.reward) == (["[secret] [secret]"], {"note": "[secret]"}, 1.0)
    assert (safe.logs, safe.metadata, safe.metrics) == (["[secret]"], {"note": "[secret]"}, {"m": 1})
    assert (group.trajectories[0] is member, member) == (True, before)


@pytest.mark.art_captures
def test_requests_that_art_captured_lose_the_keys_of_this_process() -> None:
    """They are uploaded beside the messages, and are the same text."""
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice(KEY).model_dump()]}
    exchange = {
        "request": {"model": "m", "messages": [{"role": "user", "content": f"{KEY} {SHAPED}"}]},
        "response": reply,
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-01T00:00:01Z",
    }
    member: Any = art.Trajectory(exchanges={"chat_completions": [exchange]})

    [safe] = without_secrets([group_of(member)])[0].trajectories

    [captured] = safe.exchanges.chat_completions  # type: ignore[attr-defined]
    assert captured.request["messages"] == [{"role": "user", "content": f"[secret] {SHAPED}"}]
    assert captured.response == member.exchanges.chat_completions[0].response
    assert member.exchanges.chat_completions[0].request["messages"][0]["content"] == f"{KEY} {SHAPED}"


def test_exceptions_are_uploaded_without_secrets() -> None:
    """ART's serverless backend sends their tracebacks; a record may come from an old recording, or from ART itself."""
    record = FailureRecord(kind=FailureKind.TOOL, type="E", message=KEY, traceback=f"line 1: {SHAPED}")
    held = group_exception(record)
    arts = held.model_copy(update={"message": KEY, "traceback": SHAPED})
    group = group_of(exceptions=[arts])

    safe = [held, *without_secrets([group])[0].exceptions, *loggable([group])[0].exceptions]

    assert [(e.type, e.message) for e in safe] == [("E", "[secret]")] * 3
    assert [e.traceback for e in safe] == ["line 1: [secret]", "[secret]", "[secret]"]
    assert arts.message == KEY


class Broken(Exception):
    def __init__(self, code: int, *, body: Any) -> None:
        super().__init__(f"{code}: {body}")
        self.code, self.body = code, body

    def __str__(self) -> str:
        return f"{self.code} says {self.body!r}"


def test_an_error_stays_itself_and_loses_its_secrets() -> None:
    """Whoever catches it looks at its type and its fields."""
    error = Broken(401, body={"headers": {"authorization": f"Bearer {KEY}"}})
    error.add_note(f"asked with {SHAPED}")
    error.__cause__ = OSError(2, "no such file", f"./{KEY}.json")
    error.__context__ = KeyError(KEY)

    hide_secrets(error)

    assert (str(error), error.code) == ("401 says {'headers': {'authorization': 'Bearer [secret]'}}", 401)
    assert str(error.__cause__) == "[Errno 2] no such file: './[secret].json'"
    assert [*traces(error)] == []


def test_members_of_a_group_and_suppressed_contexts_lose_theirs() -> None:
    """A traceback shows the first; a debugger the second."""
    hidden = ValueError(KEY)
    inner = RuntimeError(KEY)
    try:
        try:
            raise hidden
        except ValueError:
            raise inner from None
    except RuntimeError:
        error = ExceptionGroup("all of it", [inner])

    hide_secrets(error)

    assert (traces(error), str(hidden), inner.__suppress_context__) == ([], "[secret]", True)


class Settings(BaseModel):
    number: int


def test_an_error_that_cannot_be_changed_is_told_by_another() -> None:
    """Pydantic's texts are made from the input that they keep."""
    try:
        try:
            Settings.model_validate({"number": KEY})
        except ValidationError as cause:
            raise RuntimeError("it failed") from cause
    except RuntimeError as raised:
        error = raised

    hide_secrets(error)

    assert traces(error) == []
    assert str(error.__cause__).startswith("ValidationError: 1 validation error for Settings")


def test_errors_that_came_from_each_other_are_gone_through_once() -> None:
    """A loop of causes must not become a loop of ours."""
    one, other = RuntimeError(KEY), RuntimeError(KEY)
    one.__cause__, other.__context__ = other, one

    hide_secrets(one)

    assert (str(one), str(other)) == ("[secret]", "[secret]")


def test_a_models_key_is_known_and_not_shown() -> None:
    """Pydantic's `repr` shows every field."""
    model = make_trainable_model(name="agent", project="p", base_model="none")
    model.inference_api_key = "model-key-12345"
    plain = art.Model(name="m", project="p", inference_api_key="plain-key-12345", inference_base_url="http://h/v1")

    guard_keys(model)
    guard_keys(plain)
    error = RuntimeError("model-key-12345 plain-key-12345")
    hide_secrets(error)

    assert str(error) == "[secret] [secret]"
    assert [text for text in (repr(model), str(model), repr(plain)) if "-key-12345" in text] == []
    assert plain.inference_api_key == "plain-key-12345"


def traces(error: BaseException) -> list[str]:
    text = "".join(traceback.format_exception(error))
    # The lines of this file are shown too, and name the keys but by their variables.
    return [key for key in (KEY, SHAPED) if key in text]
