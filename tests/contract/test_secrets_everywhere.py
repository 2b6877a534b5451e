"""A key that every part of a run fails with, and trips over, is nowhere but where it is used."""

from __future__ import annotations

import ast
import io
import itertools
import logging
import os
import stat
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import art
import openai
import polars as pl
import pytest

from artkit import (
    AllRolloutsFailedError,
    ConsoleTracker,
    EndpointJudge,
    EnvironmentReward,
    Episode,
    JsonlTracker,
    LiteLLMJudge,
    PromptScenario,
    RewardAdapter,
    Rollout,
    Sampling,
    StepResult,
    ToolEnvironment,
    ToolError,
    Trainer,
    TrainerSettings,
    Validation,
    capture_partial,
    make_trainable_model,
    tool,
)
from artkit.testing import ChatServer, DiaryBackend, Reply

SOURCE = Path(__file__).parents[2] / "src" / "artkit"

# None has the shape of a key: they are found because they are used.
MODEL_KEY = "model/Key+of-the-run="
JUDGE_KEY = "judge-Key-of-the-run"
TOOL_KEY = 'tool "Key" of\\the-run'
# And one that nobody told of.
STRANGE_KEY = "sk-aB3dE5fG7hJ9kL1m2n4"
KEYS = (MODEL_KEY, JUDGE_KEY, TOOL_KEY, STRANGE_KEY)
TRACES = ("Key+of", "Key%2Bof", "judge-Key", 'Key" of', 'Key\\" of', "Key%22", STRANGE_KEY)
ALL = " | ".join(KEYS)
USED = " | ".join(KEYS[:3])


class Desk(ToolEnvironment[PromptScenario]):
    """Its tools know keys, and talk about them."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return [{"role": "system", "content": f"use {TOOL_KEY}"}, *scenario.messages]

    @tool
    def refuse(self) -> str:
        """Fail in a way that the model is told of."""
        raise ToolError(f"refused: {MODEL_KEY} {JUDGE_KEY} {TOOL_KEY}")

    @tool
    def show(self) -> dict[str, str]:
        """Show the environment's variables."""
        return {"TOOL_API_KEY": TOOL_KEY, "header": f"Bearer {MODEL_KEY}"}

    @tool
    def crash(self) -> str:
        """Break the environment."""
        raise RuntimeError(f"crashed with {ALL}") from ValueError({"headers": {"Authorization": f"Bearer {MODEL_KEY}"}})

    async def step(self, action: Any) -> StepResult:
        result = await super().step(action)
        return StepResult(
            messages=result.messages,
            done=result.done,
            reward=len(action.text),
            outcome={"said": action.text, "by": USED},
        )


class Judged(RewardAdapter):
    """Asks a judge, which refuses one scenario in words that have its key."""

    def __init__(self, judge: EndpointJudge) -> None:
        self.judge = judge

    async def score(self, group: art.TrajectoryGroup) -> list[Any]:
        if group.metadata["scenario_id"] == "judged":
            await self.judge([{"role": "user", "content": "judge"}])
        for member in group.trajectories:
            member.logs.append(f"scored with {ALL}")
            member.metadata["note"] = f"scored with {ALL}"
        return [float(member.environment_reward) for member in group.trajectories]  # type: ignore[attr-defined]


class Uploading(DiaryBackend):
    """Keeps what it was given to train on, as a serverless backend would upload it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.uploaded: list[art.TrajectoryGroup] = []

    async def train(self, model: Any, trajectory_groups: Any, **options: Any) -> Any:
        self.uploaded += (groups := list(trajectory_groups))
        return await super().train(model, groups, **options)


def answer(body: dict[str, Any]) -> Reply | str:
    text = next(message["content"] for message in body["messages"] if message["role"] == "user")
    turns = sum(message["role"] == "assistant" for message in body["messages"])
    match text, turns:
        case (("refuse" | "show" | "crash"), 0):
            return Reply(tool_calls=[(text, {})])
        case "unreachable", _:
            return Reply(status=400, error=f"who sends {ALL}, as in {body['model']!r}?")
        case _:
            return "x" * (body["seed"] % 7)


def scenarios(*names: str) -> list[PromptScenario]:
    return [PromptScenario(id=name, messages=[{"role": "user", "content": name}]) for name in names]


@pytest.fixture(autouse=True)
def tool_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_API_KEY", TOOL_KEY)


@pytest.fixture
async def server() -> Any:
    server = ChatServer(answer)
    server._api_key = MODEL_KEY
    async with server:
        yield server


@pytest.fixture
async def judge() -> Any:
    server = ChatServer(lambda body: Reply(status=400, error=f"the key {JUDGE_KEY} is not for {body['model']}"))
    server._api_key = JUDGE_KEY
    async with server:
        yield EndpointJudge("judge", base_url=server.base_url, api_key=JUDGE_KEY)


def make_trainer(directory: Path, server: ChatServer, judge: EndpointJudge, **changes: Any) -> Trainer:
    model = make_trainable_model(
        name="agent", project="p", base_model="none", base_path=str(directory), report_metrics=[]
    )
    parts: dict[str, Any] = {
        "model": model,
        "backend": Uploading(server),
        "rollout": Rollout(Desk, sampling=Sampling(seed=0)),
        "train": scenarios("refuse", "show", "crash", "unreachable", "judged", "plain"),
        "validation": Validation(scenarios("refuse ", "plain ")),
        "reward": Judged(judge),
        "settings": TrainerSettings(
            groups_per_step=6, rollouts_per_group=3, max_failure_rate=1.0, check_environment=False
        ),
        **changes,
    }
    return Trainer(**parts)


def traces(text: str) -> list[str]:
    return [trace for trace in TRACES if trace in text]


def files(directory: Path) -> Iterator[tuple[str, str]]:
    """The text of every file below; packed columns are unpacked."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            text = path.read_bytes().decode(errors="replace")
            if path.suffix == ".parquet":
                text += str(pl.read_parquet(path).to_dicts())
            yield path.name, text


def texts_of(group: art.TrajectoryGroup) -> str:
    held = [group.metadata, group.logs, *((e.type, e.message, e.traceback) for e in group.exceptions)]
    for member in group.trajectories:
        held += [member.metadata, member.logs, member.messages_and_choices, member.tools, member.model_dump_json()]
    return repr(held)


async def test_no_key_leaves_a_run(
    tmp_path: Path,
    server: ChatServer,
    judge: EndpointJudge,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Tools, servers, environments and judges fail with keys in their words, rewards and outcomes hold them."""
    caplog.set_level(logging.INFO)
    screen = io.StringIO()
    trackers = (ConsoleTracker(file=screen), JsonlTracker(tmp_path / "told" / "events.jsonl"))
    trainer = make_trainer(tmp_path / "art", server, judge, trackers=trackers)
    parts = trainer._parts

    report = await trainer.run()

    uploaded = parts.backend.uploaded
    assert [group.metadata["scenario_id"] for group in uploaded] != []
    assert {name: found for name, text in files(tmp_path) if (found := traces(text))} == {}
    assert [traces(texts_of(group)) for group in uploaded if traces(texts_of(group))] == []
    printed = capfd.readouterr()
    told = [screen.getvalue(), caplog.text, printed.out, printed.err, str(report), repr(report), str(trainer.plan())]
    assert [traces(text) for text in told] == [[]] * len(told)
    assert "[secret]" in screen.getvalue()
    shown = [parts.model, parts.backend, parts.rollout, parts.reward, judge, trainer, parts]
    assert [traces(repr(part)) for part in shown] == [[]] * len(shown)


async def test_the_model_is_shown_what_is_recorded_and_trained_on(
    tmp_path: Path, server: ChatServer, judge: EndpointJudge
) -> None:
    """A key is taken out before the model reads it: afterwards its tokens and the text would no longer agree."""
    trainer = make_trainer(tmp_path, server, judge, train=scenarios("refuse", "show"), validation=None, trackers=())

    await trainer.run()

    sent = {str(body["messages"]) for body in server.requests if len(body["messages"]) > 2}
    trained = [
        str([item if isinstance(item, dict) else "reply" for item in member.messages_and_choices])
        for group in trainer._parts.backend.uploaded
        for member in group.trajectories
    ]
    assert traces(str(sent)) == []
    assert [text.count("[secret]") >= 3 for text in trained] == [True] * len(trained)


async def test_an_error_that_leaves_a_run_has_no_key_in_it_or_in_its_causes(
    tmp_path: Path, server: ChatServer, judge: EndpointJudge
) -> None:
    """It ends on a screen, in a log or in a report to somebody."""
    trainer = make_trainer(tmp_path, server, judge, train=scenarios("unreachable", "crash"), validation=None)

    with pytest.raises(AllRolloutsFailedError) as caught:
        await trainer.run()

    told = [str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))]
    assert [traces(text) for text in told] == [[], [], []]
    assert isinstance(caught.value.__cause__, openai.BadRequestError | RuntimeError)
    assert {name: found for name, text in files(tmp_path) if (found := traces(text))} == {}


async def test_a_rollout_of_ones_own_may_fail_with_a_key(
    tmp_path: Path, server: ChatServer, judge: EndpointJudge
) -> None:
    """What it wrote into its trajectory before is kept, without the key; the model's replies stay as they were."""
    rewards = itertools.count()

    async def rollout(model: Any, scenario: PromptScenario) -> art.Trajectory:
        messages: list[Any] = [*scenario.messages, {"role": "user", "content": f"the tool said {TOOL_KEY}"}]
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, seed=len(server.requests)
        )
        if scenario.id == "broken":
            raise RuntimeError(ALL)
        return art.Trajectory(
            messages_and_choices=[*messages, reply.choices[0]],
            reward=float(next(rewards)),
            logs=[ALL],
            metadata={"by": ALL},
        )

    trainer = make_trainer(
        tmp_path,
        server,
        judge,
        rollout=capture_partial(rollout),
        reward=EnvironmentReward(),
        train=scenarios("plain", "broken"),
        validation=None,
        trackers=(),
    )

    await trainer.run()
    await trainer._parts.model.openai_client().close()

    (group,) = trainer._parts.backend.uploaded
    assert {name: found for name, text in files(tmp_path) if (found := traces(text))} == {}
    assert traces(texts_of(group)) == []
    assert all(type(member) is Episode for member in group.trajectories)


async def test_what_a_run_leaves_is_readable_by_its_user_alone(
    tmp_path: Path, server: ChatServer, judge: EndpointJudge
) -> None:
    """Recordings hold what users of the agent said; the mode does not hang on anybody's umask."""
    mask = os.umask(0)
    try:
        await make_trainer(tmp_path, server, judge, trackers=(JsonlTracker(tmp_path / "told" / "events.jsonl"),)).run()
        await make_trainer(tmp_path, server, judge, resume="never").run()  # which sets files aside
        with pytest.raises(AllRolloutsFailedError):
            await make_trainer(tmp_path, server, judge, resume="never", train=scenarios("crash")).run()
    finally:
        os.umask(mask)

    own = tmp_path / "p" / "models" / "agent" / "artkit"
    places = [own, *own.rglob("*"), tmp_path / "told", *(tmp_path / "told").rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in places}
    assert {path.suffix for path in places} >= {".jsonl", ".json", ""}
    assert {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def test_a_judges_repr_has_no_key() -> None:
    """A proxy's address may have a password in it."""
    endpoint = EndpointJudge("m", base_url="http://me:pass-word@host/v1", api_key=JUDGE_KEY)
    litellm = LiteLLMJudge("openai/m", {"api_key": JUDGE_KEY})

    assert repr([endpoint, litellm]) == (
        "[EndpointJudge('m', base_url='http://me:[secret]@host/v1'), LiteLLMJudge('openai/m')]"
    )


# What runs code that it is given, and why it may.
ALLOWED = {
    ("environments/check/child.py", "pickle.loads"): "the task that its own parent wrote into a directory of its own",
    ("environments/check/fresh_process.py", "pickle.loads"): "the answer of its own child, in the same directory",
}
DANGEROUS = {
    "eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler", "dill.loads", "marshal.loads",
    "cloudpickle.loads", "shelve.open", "joblib.load", "yaml.load", "yaml.unsafe_load", "torch.load", "numpy.load", "np.load",
    "pandas.read_pickle", "os.system", "subprocess.getoutput",
}  # fmt: skip


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in DANGEROUS:
            yield ast.unparse(node.func), node


def is_true(call: ast.Call, name: str) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)


def test_nothing_that_is_read_is_run() -> None:
    """A recording, a dataset and a model's reply come from elsewhere: they are data."""
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name, call in called(ast.parse(path.read_text()))
        if not (name == "torch.load" and is_true(call, "weights_only"))
    }

    assert found == set(ALLOWED)


def test_nothing_asks_others_to_run_what_is_read() -> None:
    """A model's directory and a dataset may come with code, which some libraries run when they are told to."""
    keywords = {"trust_remote_code", "allow_pickle", "shell"}
    found = {
        (str(path.relative_to(SOURCE)), keyword.arg)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in keywords and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    }

    assert found == set()


def test_only_names_that_a_program_gives_are_imported() -> None:
    """Each place that imports by name takes it from artkit's own code or from the command line."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "import_module" in path.read_text() or "spec_from_file_location" in path.read_text()
    }

    assert found == {
        "__init__.py",  # the door's own table
        "cli/check.py",  # the command line's MODULE:CLASS
        "environments/adapters/optional_module.py",  # packages of artkit's extras
        "environments/adapters/textarena.py",  # the game's own registry
        "environments/check/child.py",  # files of its parent's modules
        "rewards/graders/math_worker.py",  # math_verify
        "tracking/tensorboard.py",  # tensorboardX
    }
