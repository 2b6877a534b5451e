"""A recording gives back equal objects."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import art
import numpy as np
import pytest
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel, Field, computed_field

from artkit.episodes import Episode, FailureKind, FailureRecord, StopReason, read_groups, write_groups
from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario
from artkit.testing import Reply, choice, episode

PICTURE = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
SCENARIO = Scenario(id="s")


class Verdict(BaseModel):
    label: str
    parts: list[Verdict] = []


class Sets(BaseModel):
    own: set[int] = Field(serialization_alias="ownSet")
    parts: list[Sets] = []
    by_name: dict[int, frozenset[int]] = {}


@dataclass(frozen=True)
class HoldsSets:
    own: set[int]
    held: tuple[Sets, ...] = ()


@dataclass(frozen=True)
class Own:
    id: str
    sizes: tuple[int, ...] = (3,)


class Aliased(BaseModel):
    name: str = Field(alias="itsName")


class Computed(BaseModel, extra="forbid"):
    left: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.left


class Unseen(BaseModel):
    label: str
    secret: str = Field(default="", exclude=True)


class Strict(BaseModel, strict=True):
    at: datetime
    sizes: tuple[int, ...]


class Part(BaseModel):
    a: int = 1


class Further(Part):
    b: int = 2


class Holder(BaseModel):
    parts: list[Part]


class Raw(BaseModel):
    content: bytes


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Made:
    id: str = "s"

    def __post_init__(self) -> None:
        """Open something."""


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("half made")


class OwnTrajectory(art.Trajectory):
    notes: str = ""


def recorded(path: Path, *episodes: art.Trajectory) -> list[Episode]:
    """Write and read them as the members of a group."""
    write_groups(path, [art.TrajectoryGroup(list(episodes))])
    groups, lost = read_groups(path, [SCENARIO])
    assert lost == []
    return groups[0].trajectories  # type: ignore[return-value]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "batch-000.jsonl"


@pytest.mark.parametrize(
    "turn",
    [
        choice("5"),
        choice(Reply(token_ids=[1, 2], prompt_token_ids=[3], logprobs=[-0.5, 0.0], text="ab")),
        choice(Reply(tool_calls=[("look", {"at": "door"}), ("look", "{at:")])),
        choice(Reply(reasoning="hm", refusal="no")),
        choice(Reply("half an emoji \ud83d")),
        Choice.construct(index=0, finish_reason="eos_of_this_server", message={"role": "assistant", "content": None}),
        {"role": "tool", "tool_call_id": "call_1", "content": PICTURE},
        {"role": "user", "content": "half an emoji \ud83d"},
    ],
    ids=["text", "token ids", "tool calls", "reasoning", "surrogate", "unheard-of", "picture", "surrogate of user"],
)
def test_a_turn_comes_back_as_it_was(path: Path, turn: Any) -> None:
    """ART's own JSON turns every `Choice` into a role-less dict, with no error: nothing of it could be trained on."""
    [read] = recorded(path, episode("hi", turn))

    assert (read.messages_and_choices[1], type(read.messages_and_choices[1])) == (turn, type(turn))


def test_an_episode_comes_back_whole(path: Path) -> None:
    """A resumed run logs and counts from the recording what it would have from memory."""
    whole = episode("hi", choice("5"), reward=0.5, scenario=SCENARIO, metrics={"turns": 1, "won": True})
    whole.outcome = {"answer": 5}
    whole.stop_reason = StopReason.ERROR
    whole.environment_reward = 0.25
    whole.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'", traceback="…")
    whole.member = 3
    whole.logs = ["it broke"]
    whole.tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    whole.initial_policy_version, whole.final_policy_version = 4, 5

    [read] = recorded(path, whole)

    assert read == whole


def test_a_path_may_be_a_text(path: Path) -> None:
    """It is what people type."""
    write_groups(str(path), [art.TrajectoryGroup([episode("?", choice("5"))])])
    groups, _ = read_groups(str(path))

    assert [len(group.trajectories) for group in groups] == [1]


def test_further_histories_come_back(path: Path) -> None:
    """They are trained on too."""
    whole = episode("hi", choice("5"))
    history = art.Trajectory.model_fields["additional_histories"].annotation.__args__[0]
    whole.additional_histories = [history(messages_and_choices=[{"role": "user", "content": "sum up"}, choice("4")])]

    [read] = recorded(path, whole)

    assert read == whole


@pytest.mark.art_captures
def test_turns_that_art_captured_come_back(path: Path) -> None:
    """Under ART 0.5.23 a trajectory may hold its turns as the requests and replies on the wire."""
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice("5").model_dump()]}
    exchange = {
        "request": {"model": "m", "messages": [{"role": "user", "content": "2+3="}]},
        "response": reply,
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-01T00:00:01Z",
    }
    whole = Episode(exchanges={"chat_completions": [exchange]})

    [read] = recorded(path, whole)

    assert (read.exchanges, read.messages()) == (whole.exchanges, whole.messages())


def test_a_group_comes_back_with_what_left_it(path: Path) -> None:
    """Exceptions, metadata, metrics and logs of a group are part of what was paid for."""
    group = art.TrajectoryGroup([episode("a", choice("b"))], metadata={"scenario_id": "s"}, metrics={"m": 1.0})
    group.logs = ["judged"]
    group.exceptions = [_exception("KeyError", "'door'")]
    empty = art.TrajectoryGroup([], metadata={"scenario_id": "t"})
    lost = episode("c", choice("d"))

    write_groups(path, [group, empty], [lost])

    assert read_groups(path) == ([group, empty], [lost])


def test_a_structured_outcome_comes_back_equal(path: Path) -> None:
    """The outcome is kept nowhere else: ART's log never sees it."""
    outcome = Verdict(label="good", parts=[Verdict(label="best")])

    [read] = recorded(path, episode("a", outcome=outcome))

    assert read.outcome == outcome


def test_an_outcome_whose_class_is_not_loaded_comes_back_as_its_data(path: Path) -> None:
    """A recording is data: it can be read without the program that made it, and importing is not for it to ask."""

    class Local(BaseModel):
        label: str

    [read] = recorded(path, episode("a", outcome=Local(label="good")))

    assert read.outcome == {"label": "good"}


@pytest.mark.parametrize(
    ("outcome", "read_back"),
    [
        ((1, 2), [1, 2]),
        ({3: "c"}, {"3": "c"}),
        ({(0, 1): "x"}, {"(0, 1)": "x"}),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (1 + 2j, "(1+2j)"),
        ({"inf": math.inf}, {"inf": math.inf}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        ([Decimal("1.10"), Path("/x"), b"raw", {2, 1}], ["1.10", "/x", "raw", [1, 2]]),
        ({"broken": Broken()}, {"broken": "<Broken>"}),
        ({("a",): "half an emoji \ud83d"}, {"('a',)": "half an emoji \ud83d"}),
        ({"large": 10**5000}, {"large": hex(10**5000)}),
    ],
    ids=[
        "tuple", "int key", "tuple key", "numpy number", "numpy array", "no JSON", "infinity", "date", "others",
        "broken itself", "tuple key beside a surrogate", "number",
    ],
)  # fmt: skip
def test_an_odd_outcome_never_costs_the_step(path: Path, outcome: Any, read_back: Any) -> None:
    """The episodes are on disk before they are trained on; an odd value in one must not stop that."""
    [read] = recorded(path, episode("a", outcome=outcome))

    assert read.outcome == read_back


def test_what_holds_itself_is_cut_off(path: Path) -> None:
    """A node that knows its parent is an ordinary outcome, and so is a deep tree."""
    node: dict[str, Any] = {"name": "root"}
    node["children"] = [{"name": "leaf", "parent": node}]
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]

    [loop, tree] = recorded(path, episode("a", outcome=node), episode("a", outcome=deep))

    assert loop.outcome["children"][0]["parent"]["name"] == "root"
    assert tree.outcome[0][0][0]


def test_the_reward_of_a_plain_trajectory_is_its_own(path: Path) -> None:
    """It came from the rollout itself; `EnvironmentReward` must not find 0 in its place."""
    plain = art.Trajectory(messages_and_choices=[{"role": "user", "content": "a"}, choice("b")], reward=0.7)

    [read] = recorded(path, plain)

    assert (read.reward, read.environment_reward) == (0.7, 0.7)


def test_recordings_can_be_joined_end_to_end(path: Path, tmp_path: Path) -> None:
    """`cat` joins JSON lines; each member stays in its own group."""
    first, second = [
        art.TrajectoryGroup([episode("q", choice(name))], metadata={"scenario_id": name}) for name in ("a", "b")
    ]
    write_groups(path, [first])
    write_groups(tmp_path / "b.jsonl", [second])
    path.write_bytes(path.read_bytes() + b"\n" + (tmp_path / "b.jsonl").read_bytes())

    assert read_groups(path) == ([first, second], [])


@pytest.mark.parametrize(
    "content",
    [
        b"one line of notes",
        b"one line of notes\n",
        bytes(range(256)),
        b"[" * 100_000 + b"\n",
        b'{"format": "x", "group": {}}\n',
        b'{"format": 1}\n',
        b'{"format": 1, "group": null}\n',
        b'{"format": 1, "place": "alone", "episode": []}\n',
        b'{"format": 1, "place": "alone", "episode": {}}\n',
        b'{"format": 1, "place": 0, "episode": {}}\n',
    ],
)
def test_what_is_no_recording_is_refused_by_name(path: Path, content: bytes) -> None:
    """A person who mixed up two files is told which one."""
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"{path.name} is no recording"):
        read_groups(path)


def test_a_reward_that_is_no_number_is_written_as_it_is(path: Path) -> None:
    """A recording shows what went wrong; it does not tidy up."""
    broken = episode("a", choice("b"), reward=math.nan)
    broken.metrics["unknown"] = None  # type: ignore[assignment]  # what users do

    [read] = recorded(path, broken)

    assert math.isnan(read.reward)
    assert read.metrics == {"unknown": None}


def test_any_trajectory_comes_back_as_an_episode(path: Path) -> None:
    """Rollouts that were written for plain ART are recorded like others."""
    own = OwnTrajectory(messages_and_choices=[{"role": "user", "content": "a"}, choice("b")], reward=1.0)

    [read] = recorded(path, own)

    assert (type(read), read.messages_and_choices, read.reward) == (Episode, own.messages_and_choices, 1.0)


def test_a_scenario_that_is_not_given_comes_back_equal(path: Path) -> None:
    """What reads `episode.scenario.label` need not look for the data set first."""
    task = PromptScenario(id="other", messages=[{"role": "user", "content": "2+3="}], label="5")
    write_groups(path, [], [episode("a", scenario=task)])

    _, [read] = read_groups(path, [SCENARIO])
    assert read.scenario == task


def test_a_scenario_whose_class_is_not_loaded_comes_back_as_its_fields(path: Path) -> None:
    """A recording can be read without the program that made it."""

    class Local(Scenario):
        left: int

    write_groups(path, [], [episode("a", scenario=Local(id="other", left=2))])

    _, [read] = read_groups(path)
    assert read.scenario == {"id": "other", "left": 2}


@pytest.mark.parametrize(
    "outcome",
    [
        Verdict(label="half an emoji \ud83d"),
        Aliased(itsName="x"),
        Computed(left=2),
        Unseen(label="x", secret="y"),
        Strict(at=datetime(2026, 1, 2, tzinfo=UTC), sizes=(1, 2)),
        Colour.RED,
        Own("x", (1, 2)),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_an_outcome_of_any_class_comes_back_equal(path: Path, outcome: Any) -> None:
    """How a class writes and reads itself by default is not always both ways."""
    [read] = recorded(path, episode("a", outcome=outcome))

    assert (read.outcome, type(read.outcome)) == (outcome, type(outcome))


@pytest.mark.parametrize(
    ("outcome", "data"),
    [
        (Holder(parts=[Part(), Further(b=4)]), {"parts": [{"a": 1}, {"a": 1, "b": 4}]}),
        ({"held": Holder(parts=[Further(b=4)])}, {"held": {"parts": [{"a": 1, "b": 4}]}}),
        (Raw(content=b"\xff"), {"content": {"base64": "/w=="}}),
        (Made(), {"id": "s"}),
    ],
    ids=["subclass in a field", "model in a dict", "bytes", "dataclass that acts"],
)
def test_what_would_not_come_back_equal_comes_back_as_all_its_data(path: Path, outcome: Any, data: Any) -> None:
    """An object that has lost a part of it, or has another in its place, is worse than none."""
    [read] = recorded(path, episode("a", outcome=outcome))

    assert read.outcome == data


def test_equal_sets_are_recorded_alike(path: Path) -> None:
    """Python walks two equal sets in the order that each of them grew in, and a replay compares what was recorded."""
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)

    def outcomes(of: set[int]) -> list[Any]:
        held = Sets(own=of, parts=[Sets(own=of)], by_name={3: frozenset(of)})
        return [{"set": of}, held, HoldsSets(of, (held,)), {"in a mapping": [held]}]

    def written(outcome: Any) -> str:
        played.outcome = outcome
        write_groups(path, [], [played])
        return path.read_text()

    played = episode("a")
    for first, second in zip(outcomes(one), outcomes(other), strict=True):
        assert written(first) == written(second)


def test_a_module_is_not_asked_for_what_it_has_not_loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many load their classes on demand, and reading a file is no reason to."""
    asked: list[str] = []
    lazy = ModuleType("lazy")
    lazy.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    write_groups(path, [art.TrajectoryGroup([episode("a", outcome=Verdict(label="good"))])])
    path.write_text(re.sub(r'"outcome_type": \[[^]]*\]', '"outcome_type": ["lazy", "Verdict"]', path.read_text()))

    [read] = read_groups(path)[0][0].trajectories

    assert (read.outcome, asked) == ({"label": "good", "parts": []}, [])  # type: ignore[attr-defined]


def test_a_last_line_that_was_cut_off_is_left_out(path: Path) -> None:
    """A copy that broke off is worth what it holds."""
    write_groups(path, [], [episode("a"), episode("b")])
    path.write_text(path.read_text()[:-20])

    _, lost = read_groups(path)
    assert [one.messages_and_choices[0]["content"] for one in lost] == ["a"]


def test_a_broken_line_in_the_middle_is_an_error(path: Path) -> None:
    """To skip it would shift or lose episodes without a word."""
    write_groups(path, [], [episode("a"), episode("b")])
    path.write_text("{" + path.read_text())

    with pytest.raises(ConfigurationError, match=f"{path.name} is no recording: line 1 is no JSON: Expecting"):
        read_groups(path)


def test_a_recording_of_a_later_artkit_is_refused(path: Path) -> None:
    """Half understood, it would come back as something else."""
    path.parent.mkdir()
    path.write_text('{"format": 99, "group": {}}\n')

    with pytest.raises(ConfigurationError, match="a recording of format 99"):
        read_groups(path)


def test_a_recording_is_replaced_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may fill up half-way; the old recording is then what there is."""
    write_groups(path, [], [episode("old")])
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", _full_disk)

    with pytest.raises(OSError, match="no space"):
        write_groups(path, [], [episode("new")])

    assert (path.read_bytes(), [file.name for file in path.parent.iterdir()]) == (before, [path.name])


def test_a_recording_is_the_users_own(path: Path) -> None:
    """Episodes may hold what customers wrote."""
    write_groups(path, [], [episode("a")])

    assert path.stat().st_mode & 0o777 == 0o600


def _exception(kind: str, message: str) -> Any:
    from artkit.bridge import group_exception

    return group_exception(FailureRecord(kind=FailureKind.ENVIRONMENT, type=kind, message=message, traceback="…"))


def _full_disk(descriptor: int) -> None:
    raise OSError("no space left on device")


@pytest.mark.parametrize("metadata", [{}, {("a", "b"): 1}], ids=["plain", "with a key that JSON cannot have"])
def test_dataclasses_are_recorded_by_their_fields(path: Path, metadata: dict[Any, Any]) -> None:
    """Scenarios and outcomes need not be pydantic models; their `repr` would be no use."""
    whole = episode("hi", choice("5"))
    whole.scenario, whole.outcome = Own("s"), {"parts": [Own("x")]}
    group = art.TrajectoryGroup([whole])
    whole.metadata.update(metadata)
    write_groups(path, [group])

    [read] = read_groups(path)[0][0].trajectories

    assert (read.scenario, read.outcome) == (Own("s"), {"parts": [{"id": "x", "sizes": [3]}]})  # type: ignore[attr-defined]
