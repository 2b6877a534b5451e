"""Secrets are found by value and by shape, in every form in which a text may hold them."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.secrets import MARKER, is_secret_name, known_secret, scrub, scrub_known, scrub_line, scrub_values

KEY = "correct-horse-battery"
ODD_KEY = 'pa"ss/wö\\rd+ 1'


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key in the environment, and one that was told."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    monkeypatch.setenv("DB_PASSWORD", "86753094")
    known_secret(ODD_KEY)


WRITTEN = {
    "plain": str,
    "repr": repr,
    "bytes": lambda key: repr(key.encode()),
    "json": json.dumps,
    "unescaped json": lambda key: json.dumps(key, ensure_ascii=False),
    "json in json": lambda key: json.dumps(json.dumps({"key": key})),
    "json with escaped slashes": lambda key: json.dumps(key).replace("/", "\\/"),
    "url": quote,
    "url parameter": lambda key: quote(key, safe=""),
}


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_known_key_is_found_however_it_is_written(written: Any, key: str) -> None:
    """An error quotes a header as `repr`, a body as JSON, an address as a URL."""
    text = f"refused: {written(key)} (401)"

    found = scrub_known(text)

    assert (MARKER in found, written(key)[1:-1] in found) == (True, False)


SHAPES = {
    "openai": "Incorrect API key provided: sk-proj-aB3dE5fG7hJ9kL1m2n4",
    "anthropic": "x-api-key sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
    "behind an escaped line end": r"'first line\nsk-aB3dE5fG7hJ9kL1m2n4'",
    "hugging face": "token hf_abcdefghijklmnopqrstuvwxyz is invalid",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "aws": "credential AKIAIOSFODNN7EXAMPLE is not known",
    "google": "AIzaSyA-aB3dE5fG7hJ9kL1m2n4aB3dE5fG7hJ9",
    "json web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "header": "Authorization: Bearer abcdefgh",
    "headers of a request": "{'host': 'x', 'authorization': 'Bearer abcdefgh'}",
    "headers as bytes": "[(b'Host', b'x'), (b'Authorization', b'Bearer abcdefgh')]",
    "headers in json in json": r'"{\"Authorization\": \"Bearer abcdefgh\"}"',
    "basic authorization": "Authorization: Basic YXBpOmFiY2RlZmdo",
    "bearer alone": "sent Bearer abcdefgh12345678",
    "argument": "OpenAI(api_key='abcdefgh')",
    "argument without quotes": "api_key=abcdefgh1",
    "json": '{"api_key": "abcdefgh"}',
    "variable": "HF_TOKEN=abcdefgh1 python train.py",
    "url parameter": "GET http://host/v1/models?api_key=abcdefgh&page=2",
    "url": "postgres://user:abcdefgh@host/db",
    "url without a user": "git clone https://abcdefghijklmnopqrst@host/repository",
    "command line": "serve --port 8000 --api-key abcdefgh1",
    "command line as a list": "Command '['serve', '--auth-token', 'abcdefgh1']' returned non-zero exit status 1",
    "signed url": "GET https://bucket.s3.amazonaws.com/a?X-Amz-Date=20260101T000000Z&X-Amz-Signature=abcdefgh1",
    "connection string": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abcdefgh1;",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nabcdefgh\n-----END RSA PRIVATE KEY-----",
}
GIVEN_AWAY = ("sk-", "hf_", "ghp_", "AKIA", "AIza", "eyJ", "abcdefgh", "YXBp")


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_key_that_nobody_told_of_is_found_by_its_shape(text: str) -> None:
    """A tool may use a key of its own, and its error show it."""
    found = scrub(text)

    assert (MARKER in found, [part for part in GIVEN_AWAY if part in found]) == (True, [])


@pytest.mark.parametrize(
    "text",
    [
        "client = OpenAI(api_key=self.api_key, password=get_password(user))",
        "KeyError: 'token'",
        "max_tokens=12345678, eos_token='<|endoftext|>', token_id=151643",
        "task-sk-learn-based-model, disk-usage-analysis, ask-2-questions-per-turn",
        "401: bearer authentication is required",
        "http://127.0.0.1:8000/v1/chat/completions",
        "train --eos-token <|endoftext|> --max-tokens=16384 --token-budget 12345678",
        "mail me@example.com at http://host/path",
        "api_key=None",
        "OPENAI_API_KEY is not set, and the judge needs it",
    ],
)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    """An error that says what to do about a key must still say it."""
    assert scrub(text) == text


def test_a_model_is_shown_what_only_looks_like_a_key() -> None:
    """Text of that shape may be what the task is about; a key of this process never is."""
    text = f"Is sk-aB3dE5fG7hJ9kL1m2n4 a key? And {KEY}?"

    assert scrub_known(text) == f"Is sk-aB3dE5fG7hJ9kL1m2n4 a key? And {MARKER}?"


@pytest.mark.parametrize("value", [None, 7, b"bytes-are-no-key", "", "none", "EMPTY", "default", "short", "not-needed"])
def test_what_is_no_secret_is_not_looked_for(value: object) -> None:
    """A key of "none" would turn every text that has the word into a riddle."""
    known_secret(value)

    assert scrub(f"the value {value} stays") == f"the value {value} stays"


def test_a_key_inside_another_leaves_nothing_of_it() -> None:
    """The longer one is looked for first."""
    known_secret("inner-key-of-two")
    known_secret("outer-inner-key-of-two-more")

    assert scrub("outer-inner-key-of-two-more inner-key-of-two") == f"{MARKER} {MARKER}"


def test_the_oldest_of_many_keys_are_forgotten() -> None:
    """A program that starts a server, with a key of its own, for each test must not get slower and slower."""
    known_secret("the-first-of-many")
    for number in range(100):
        known_secret(f"number-{number:03}-of-many")

    assert scrub("the-first-of-many number-099-of-many") == f"the-first-of-many {MARKER}"


def test_variables_are_known_secrets_by_their_names() -> None:
    """What a variable holds is known from what it is called."""
    names = (
        "OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "CLIENT_SECRET", "apikey",
        "OPENAI_API_KEY_2", "HF_TOKEN1", "AZURE_OPENAI_KEY", "DB_PASS", "MYSQL_PWD", "GITHUB_PAT",
    )  # fmt: skip
    others = (
        "PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MAX_TOKENS", "SECRET_SANTA", "GPG_KEY", "PWD", "OLDPWD",
        "BYPASS",
    )  # fmt: skip

    assert ([*filter(is_secret_name, names)], [*filter(is_secret_name, others)]) == ([*names], [])


texts = st.text() | st.lists(
    st.sampled_from([
        KEY, ODD_KEY, MARKER, "sk-", "aB3", "abcdefgh12345", "Bearer ", "Authorization", ": ", "api_key", "=", '"', "'", "\\",
        "://", ":", "@", "_TOKEN", "-----BEGIN PRIVATE KEY-----", "eyJ", ".", "?key=", "&", " ", "\n", "hf_", "A" * 16, "AKIA",
        "[", "secret", "]", "%20",
    ])
).map("".join)  # fmt: skip


@given(texts)
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    """A text passes through several hands, and each scrubs it."""
    once = scrub(text)

    assert (scrub(once), scrub_known(scrub_known(text))) == (once, scrub_known(text))


@given(texts, texts)
def test_no_known_key_is_left(before: str, after: str) -> None:
    """Whatever stands around it."""
    assert KEY not in scrub(before + KEY + after)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([KEY, ODD_KEY, "86753094"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(KEY), inner),
)


@given(json_values)
def test_a_line_of_json_stays_one_and_has_no_known_key(value: Any) -> None:
    """A recording is searched as a whole; a password that is a number is no part of the numbers."""
    found = json.loads(scrub_line(json.dumps(value) + "\n"))

    assert json.dumps(found) == json.dumps(scrub_values(value, known_only=True))


def test_a_line_without_a_secret_is_returned_as_it_is() -> None:
    """Most are: they are not read."""
    line = '{"text":"plain",  "number": 12345.678}\n'

    assert scrub_line(line) is line


def test_a_number_that_reads_like_a_password_stays_a_number() -> None:
    """Times and log probabilities have many digits."""
    line = '{"note": "it is 86753094", "logprob": -0.8675309491, "id": 86753094}\n'

    assert json.loads(scrub_line(line)) == {"note": f"it is {MARKER}", "logprob": -0.8675309491, "id": 86753094}


def test_values_without_a_secret_are_the_same_objects() -> None:
    """Nobody's messages are copied for nothing."""
    values: Any = {"a": ["b", ("c", 1)], "d": OrderedDict(e=None)}

    assert scrub_values(values) is values


def test_only_texts_with_a_secret_are_new() -> None:
    """The rest is shared with what was given, objects of others included."""
    reply = object()
    values = {
        "messages": [reply, {"role": "tool", "content": f"the key is {KEY}"}],
        KEY: (1, KEY),
        "api": "sk-0123456789abcdef",
    }

    found = scrub_values(values)

    assert found == {
        "messages": [reply, {"role": "tool", "content": f"the key is {MARKER}"}],
        MARKER: (1, MARKER),
        "api": MARKER,
    }
    assert values["messages"][1]["content"] == f"the key is {KEY}"


def test_what_holds_itself_is_left() -> None:
    """It cannot be written anyway, and scrubbing never raises."""
    values: list[Any] = []
    values.append(values)

    assert scrub_values(values) is values


@pytest.mark.parametrize(
    "part", ["a", "sk-", "eyJ-", "key: ", "://a:", "authorization:", "bearer ", "password=\\\\\\", 'api_key: "']
)
def test_a_huge_text_takes_time_in_proportion(part: str) -> None:
    """A dump of memory in an error must not stop a run; a pattern that turns back would outlast any test's time."""
    assert MARKER in scrub(part * (1_000_000 // len(part)) + KEY)
