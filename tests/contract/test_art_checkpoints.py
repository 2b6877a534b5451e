"""Listing, deleting and finding checkpoints on ART's own backends, by stand-ins with their signatures.

The real ones need a GPU, a service or both; the signatures are read in the source of the ART that is installed.
"""

from __future__ import annotations

import ast
import inspect
import json
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import art
import pytest

from artkit.bridge import (
    can_delete_checkpoints,
    checkpoint_dir,
    make_trainable_model,
    saved_steps,
    served_steps,
    storage_dir,
)
from artkit.checkpoints import KeepBest, KeepLatest
from artkit.errors import CheckpointError
from artkit.training import load_checkpoint, prune_checkpoints

SOURCES = Path(inspect.getfile(art)).parent
CALLS = ("_get_step", "_delete_checkpoint_files", "_model_inference_name")
HAS_RUN_NAMES = "run_name" in inspect.signature(art.TrainableModel.__init__).parameters


def key_of(model: Any) -> Any:
    """What ART's backends file a model under: 0.5.23 by project and storage name, 0.5.18 by the name."""
    return (model.project, model.run_name) if HAS_RUN_NAMES else model.name


class Leases:
    """Stands for ART's `AdapterLeaseManager`."""

    def __init__(self, *steps: int) -> None:
        self._counts = Counter(steps)

    def active_steps(self) -> set[int]:
        return set(self._counts)


class LocalBackend:
    """Keeps a directory for each step below its own path, as ART's does."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._adapter_leases: dict[Any, Leases] = {}

    async def register(self, model: Any) -> None:
        model.base_path = self._path

    async def _prepare_backend_for_training(self, model: Any, config: Any = None) -> tuple[str, str]:
        return "http://127.0.0.1:9/v1", "no-server"

    async def _get_step(self, model: Any) -> int:
        return max((int(path.name) for path in self._checkpoints(model)), default=0)

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        for path in self._checkpoints(model):
            if int(path.name) not in steps_to_keep:
                shutil.rmtree(path)

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        newest = max((int(path.name) for path in self._checkpoints(model)), default=0)
        return f"{model.name}@{newest if step is None else step}"

    def _checkpoints(self, model: Any) -> list[Path]:
        return [path for path in (storage_dir(model) / "checkpoints").glob("*") if path.name.isdecimal()]


class TinkerBackend(LocalBackend):
    """ART's is a LocalBackend too."""


class TinkerNativeBackend:
    """Keeps what it knows of its service in a state for each model, as ART's does, and cannot delete."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._model_state: dict[Any, Any] = {}
        if HAS_RUN_NAMES:
            self._model_key = key_of

    async def register(self, model: Any) -> None:
        model.base_path = self._path
        paths = {step: f"tinker://run/step_{step:06d}" for step in STEPS}
        self._model_state[key_of(model)] = SimpleNamespace(current_step=max(STEPS), sampler_checkpoint_paths=paths)

    async def _prepare_backend_for_training(self, model: Any, config: Any = None) -> tuple[str, str]:
        return "http://127.0.0.1:9/v1", "no-server"

    async def _get_step(self, model: Any) -> int:
        return self._model_state[key_of(model)].current_step

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        print("Checkpoint deletion is not yet implemented for TinkerNativeBackend.")  # noqa: T201  # as ART's does

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        return f"{model.name}@{self._model_state[key_of(model)].current_step if step is None else step}"


class Service:
    """Stands for the client of ART's serverless backend, which is the real one here."""

    api_key = "not-a-key"
    base_url = "http://127.0.0.1:9/v1"

    def __init__(self) -> None:
        self.steps = set(STEPS)
        self.models = SimpleNamespace(
            create=self._create, checkpoints=SimpleNamespace(list=self._list, delete=self._delete)
        )

    async def _create(self, **named: Any) -> Any:
        return SimpleNamespace(id="model-7", entity="team", run_id="run-7")

    async def _list(self, *, model_id: str, limit: int | None = None, order: str = "asc") -> AsyncIterator[Any]:
        for step in sorted(self.steps, reverse=order == "desc")[:limit]:
            yield SimpleNamespace(step=step)

    async def _delete(self, *, model_id: str, steps: list[int]) -> None:
        self.steps -= set(steps)


STEPS = (0, 1, 2, 3, 4)
LOCAL = {LocalBackend: "local", TinkerBackend: "tinker"}
STAND_INS = {**LOCAL, TinkerNativeBackend: "tinker_native"}

Make = Callable[[type[Any]], Any]


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a model that is registered with a backend of that kind, has checkpoints 0 to 4, and was best at 1."""

    async def make(kind: type[Any]) -> Any:
        model = make_trainable_model(
            name="agent",
            project="demo",
            run_name="run-1",
            base_model="none",
            base_path=str(tmp_path),
            report_metrics=[],
        )
        for known, room in STAND_INS.items():
            module = ModuleType(f"art.{room}.backend")
            setattr(module, known.__name__, known)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        if kind is art.ServerlessBackend:
            monkeypatch.setenv("WANDB_API_KEY", "not-a-key")
            backend = kind()
            await backend._client.close()
            backend._client = Service()
        else:
            backend = kind(str(tmp_path / "art"))
        await model.register(backend)
        directory = storage_dir(model)
        for step in STEPS:
            (directory / ("checkpoints" if kind in LOCAL else "") / f"{step:04d}").mkdir(parents=True)
        rows = ({"step": step, "val/reward": value} for step, value in {1: 0.9, 2: 0.5, 4: 0.7}.items())
        (directory / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return model

    return make


@pytest.mark.parametrize(("kind", "room"), STAND_INS.items())
@pytest.mark.parametrize("call", CALLS)
def test_the_stand_ins_have_the_signatures_of_art_s_backends(kind: type[Any], room: str, call: str) -> None:
    """Should ART change one, this fails before a run does."""
    source = ast.parse((SOURCES / room / "backend.py").read_text())
    classes = {node.name: node for node in source.body if isinstance(node, ast.ClassDef)}
    of_art = classes[kind.__name__]
    methods = {node.name: node for node in of_art.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if call not in methods:  # inherited
        assert [ast.unparse(base) for base in of_art.bases] == [base.__name__ for base in kind.__bases__]
        return
    arguments = methods[call].args
    ours = inspect.signature(getattr(kind, call)).parameters

    assert [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)] == list(ours)
    assert inspect.iscoroutinefunction(getattr(kind, call)) == isinstance(methods[call], ast.AsyncFunctionDef)


def test_the_serverless_backend_lists_and_deletes_by_the_calls_that_its_stand_in_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The backend is the real one; its client is not."""
    monkeypatch.setenv("WANDB_API_KEY", "not-a-key")
    real = art.ServerlessBackend()._client.models.checkpoints

    for ours, theirs in ((Service()._list, real.list), (Service()._delete, real.delete)):
        assert inspect.signature(ours).parameters.keys() <= inspect.signature(theirs).parameters.keys()


def test_art_s_native_tinker_backend_still_cannot_delete() -> None:
    """Its method prints that; should it do more one day, it is used as it is."""
    source = ast.parse((SOURCES / "tinker_native" / "backend.py").read_text())
    (method,) = (
        node
        for node in ast.walk(source)
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "_delete_checkpoint_files"
    )
    namespace: dict[str, Any] = {"TrainableModel": Any}
    exec(compile(ast.Module([method], []), "backend.py", "exec"), namespace)
    backend = SimpleNamespace(_delete_checkpoint_files=namespace["_delete_checkpoint_files"])

    assert (can_delete_checkpoints(backend), can_delete_checkpoints(LocalBackend(""))) == (False, True)


@pytest.mark.parametrize("kind", [*STAND_INS, art.ServerlessBackend])
async def test_every_backend_lists_its_checkpoints(registered: Make, kind: type[Any]) -> None:
    """What cannot be listed cannot be pruned."""
    model = await registered(kind)

    assert await saved_steps(model._backend, model) == set(STEPS)


@pytest.mark.parametrize("kind", [*LOCAL, art.ServerlessBackend])
async def test_the_best_and_the_latest_are_left(registered: Make, kind: type[Any]) -> None:
    """The rest is deleted by the backend's own method."""
    model = await registered(kind)

    decision = await prune_checkpoints(model, KeepBest() | KeepLatest())

    assert decision.keep == {1, 4} == await saved_steps(model._backend, model)
    assert decision.delete(STEPS) == {0, 2, 3}
    assert decision.why[2] == "val/reward is 0.5, the best is 0.9 at step 1; not among the latest 1"


async def test_pruning_is_refused_where_deleting_is_not_implemented(registered: Make, capsys: Any) -> None:
    """A decision that says what was deleted would not be true."""
    model = await registered(TinkerNativeBackend)
    with pytest.raises(CheckpointError, match="TinkerNativeBackend cannot delete checkpoints"):
        await prune_checkpoints(model, KeepLatest())

    assert capsys.readouterr().out == ""


async def test_what_the_local_backend_has_leased_is_kept(registered: Make) -> None:
    """Somebody is sampling from it, perhaps for a validation that takes its time."""
    model = await registered(LocalBackend)
    model._backend._adapter_leases[key_of(model)] = Leases(2)

    assert served_steps(model._backend, model) == {2, 4}
    assert (await prune_checkpoints(model, KeepLatest())).why[2] == "being sampled from"
    assert await saved_steps(model._backend, model) == {2, 4}


@pytest.mark.parametrize("kind", [*STAND_INS, art.ServerlessBackend])
async def test_a_checkpoint_is_found_on_every_backend(registered: Make, kind: type[Any]) -> None:
    """Named as that backend names it; with a directory where there is one on this machine."""
    model = await registered(kind)
    storage_name = "run-1" if HAS_RUN_NAMES else model.name
    prefix = f"wandb-artifact:///team/demo/{storage_name}:step" if kind is art.ServerlessBackend else f"{model.name}@"
    checkpoints = storage_dir(model) / "checkpoints"

    for which, step in (("best", 1), ("latest", 4), (3, 3)):
        found = await load_checkpoint(model, which)  # type: ignore[arg-type]

        assert (found.step, found.inference_name) == (step, f"{prefix}{step}")
        assert found.path == (checkpoints / f"{step:04d}" if kind in LOCAL else None)


async def test_a_model_that_tinker_has_not_registered_has_nothing_to_list(registered: Make) -> None:
    """Its steps are known from its registration on."""
    model = await registered(TinkerNativeBackend)
    model._backend._model_state.clear()

    assert await saved_steps(model._backend, model) is None


async def test_what_lies_beside_the_checkpoints_is_none(registered: Make) -> None:
    """Such as one that is still being written."""
    model = await registered(LocalBackend)
    for name in (".0007.partial", "0008-old", "\N{SUPERSCRIPT TWO}"):
        (storage_dir(model) / "checkpoints" / name).mkdir()

    assert await saved_steps(model._backend, model) == set(STEPS)
    assert checkpoint_dir(model._backend, model, 7) is None


@pytest.mark.torch
def test_art_s_real_local_backend_prunes_and_finds(tmp_path: Path) -> None:
    """Where torch is there, it is no stand-in that is held to this; it starts no server for it."""
    script = """
        import asyncio
        from art.local.backend import LocalBackend
        from artkit.bridge import make_trainable_model, saved_steps, storage_dir
        from artkit.checkpoints import KeepLatest
        from artkit.training import load_checkpoint, prune_checkpoints

        async def no_service(model):
            pass

        async def main():
            backend = LocalBackend(path="art")
            model = make_trainable_model(name="agent", project="demo", base_model="none", report_metrics=[])
            model.base_path, model._backend = backend._path, backend
            backend._get_service = no_service
            for step in range(5):
                (storage_dir(model) / "checkpoints" / f"{step:04d}").mkdir(parents=True)
            async with backend.adapter_lease(model, 2):
                decision = await prune_checkpoints(model, KeepLatest())
                print(sorted(decision.keep), decision.why[2], sorted(await saved_steps(backend, model)))
                leased = await load_checkpoint(model, 2)
            latest = await load_checkpoint(model, "latest")
            print(leased.inference_name, latest.inference_name, latest.path.name, latest.path.is_dir())

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[2, 4] being sampled from [2, 4]", "agent@2 agent@4 0004 True"]
