"""Kills training runs with SIGKILL and resumes them; a run that was killed has to end as one that was not.

Each run is a real process: forked from a server that has the imports loaded, so that a kill costs a second and not ten.
It trains on `DiaryBackend` and samples over HTTP from a `ChatServer` whose replies follow from the request, so two runs
differ in nothing but when they are killed. With `--backend torch` the embedded backend trains the micro model instead:
what is compared then is the order of the batches, the rows and the checkpoints, for the replies are the model's own.
With `--max-staleness K` rollouts are played ahead of training, and die with the run; on the diary K has to be 2 for
that, because what a batch leaves over takes one step of it.

    python benchmarks/kill_resume.py [--kills 200] [--seed 0] [--boundaries] [--quick] [--backend torch]
                                     [--max-staleness K]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

__all__ = ["KillServer", "Outcome", "check", "events_of", "main", "missing_rows", "outcome_of"]

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHON_DOTENV_DISABLED": "1",
    "WANDB_MODE": "disabled",
    "WEAVE_DISABLED": "true",
    # What forks should have no threads to lose.
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}


# The run -------------------------------------------------------------------------------------------------------------


def build(directory: Path, max_staleness: int) -> Any:
    """Return the trainer of the run in `directory`: 4 scenarios twice, two of which never teach anything.

    The first of these is replaced, and what was played too much for that is kept for the next step.
    """
    from artkit import (
        AtEnd,
        EnvironmentReward,
        Every,
        KeepBest,
        KeepLatest,
        PromptScenario,
        Rollout,
        Sampling,
        ScenarioOrder,
        Trainer,
        TrainerSettings,
        Validation,
        make_trainable_model,
    )
    from artkit.testing import ChatServer, DiaryBackend

    model = make_trainable_model(
        name="killed", project="faults", base_model="none", base_path=str(directory / "art"), report_metrics=[]
    )

    def reply(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        if text.startswith("flat"):
            return "5"
        # Validation is best at step 2 of 4: the best checkpoint is not the last.
        step = max(int(path.name) for path in checkpoints.iterdir() if path.name.isdigit())
        chance = random.Random(f"{text}:{body['seed']}").randrange(1_000)
        return str(9_000 - 1_000 * abs(step - 2) + chance if text.startswith("held out") else chance)

    checkpoints = directory / "art" / "faults" / "models" / "killed" / "checkpoints"
    texts = ["flat one", "one", "two", "flat two"]
    held_out = ["held out one", "held out two"]
    train, validation = (
        [PromptScenario(id=text, messages=[{"role": "user", "content": text}]) for text in group]
        for group in (texts, held_out)
    )
    return Trainer(
        model=model,
        backend=DiaryBackend(ChatServer(reply), diary_path=directory / "diary.jsonl"),
        rollout=Rollout(_environment(), sampling=Sampling(seed=0)),
        train=ScenarioOrder(train, shuffle=False),
        reward=EnvironmentReward(),
        validation=[
            Validation(validation, schedule=Every(2) | AtEnd()),
            Validation(validation[:1], schedule=Every(3), name="further"),
        ],
        checkpoint_policy=KeepBest() | KeepLatest(),
        trackers=(),
        settings=TrainerSettings(
            groups_per_step=1,
            rollouts_per_group=2,
            num_epochs=2,
            max_extra_groups=2,
            max_staleness=max_staleness,
            # What it has time to find out depends on the load, and each warning is a file operation to be killed at.
            check_environment=False,
        ),
    )


def build_torch(directory: Path, max_staleness: int) -> Any:
    """Return a trainer like that of `build`, on the embedded backend."""
    from artkit import (
        AtEnd,
        EnvironmentReward,
        Every,
        KeepBest,
        KeepLatest,
        PromptScenario,
        Rollout,
        Sampling,
        Trainer,
        TrainerSettings,
        Validation,
        make_trainable_model,
    )
    from artkit.backends.torch import TorchBackend

    scenarios = [PromptScenario(id=str(n), messages=[{"role": "user", "content": f"say {n}"}]) for n in range(8)]
    return Trainer(
        model=make_trainable_model(
            name="killed",
            project="faults",
            base_model="artkit/micro",
            base_path=str(directory / "art"),
            report_metrics=[],
        ),
        backend=TorchBackend(path=str(directory / "art")),
        rollout=Rollout(_letters(), sampling=Sampling(seed=0, max_completion_tokens=8)),
        train=scenarios[:6],
        reward=EnvironmentReward(),
        validation=Validation(scenarios[6:], schedule=Every(1) | AtEnd(), rollouts_per_scenario=4),
        checkpoint_policy=KeepBest() | KeepLatest(),
        filters=None,
        trackers=(),
        settings=TrainerSettings(
            learning_rate=1e-3, groups_per_step=2, rollouts_per_group=4, num_epochs=2, max_staleness=max_staleness
        ),
    )


def _letters() -> type[Any]:
    from artkit import Action, Environment, PromptScenario, StepResult

    class Letters(Environment[PromptScenario]):
        """Rewards the letters in what the model says."""

        async def reset(self, scenario: PromptScenario) -> Any:
            return scenario.messages

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, reward=float(sum(map(str.isalpha, action.text))))

    return Letters


def _environment() -> type[Any]:
    from artkit import Action, Environment, PromptScenario, StepResult

    class Number(Environment[PromptScenario]):
        """Rewards the number that the model says."""

        async def reset(self, scenario: PromptScenario) -> Any:
            return scenario.messages

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, reward=int(action.text) / 10_000)

    return Number


# The server of processes ---------------------------------------------------------------------------------------------


BUILDERS = {"diary": build, "torch": build_torch}


def serve(backend: str) -> None:
    """Fork a run for each job on stdin, kill it when the job says, and answer how it ended on stdout."""
    # Left are an allocator's thread, which knows about forks, and one of polars, which no run uses.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    with tempfile.TemporaryDirectory() as name:
        _load_what_a_run_loads(Path(name), backend)
    gc.freeze()  # so that a child's garbage collector does not copy what they share
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(job, backend)
        started = time.monotonic()
        if job["after_s"] is not None:
            _wait(child, job["after_s"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(
            json.dumps({"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started}), flush=True
        )


def _load_what_a_run_loads(directory: Path, backend: str) -> None:
    """Import what a run imports on its way, without running one here: this process must stay without threads."""
    child = os.fork()
    if child == 0:
        _child({"directory": str(directory), "at_event": None, "max_staleness": 0}, backend)
    os.waitpid(child, 0)
    for module in (directory / "modules.txt").read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def _wait(child: int, seconds: float) -> None:
    """Wait until the child is over, but no longer than `seconds`; it is not reaped."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.001)


def _child(job: Mapping[str, Any], backend: str) -> None:
    directory = Path(job["directory"])
    code = 1
    try:
        directory.mkdir(parents=True, exist_ok=True)
        os.dup2(os.open(directory / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        os.dup2(2, 1)
        if job["at_event"] is not None:
            _die_at_event(directory, job["at_event"])
        report = asyncio.run(BUILDERS[backend](directory, job["max_staleness"]).run())
        (directory / "report.txt").write_text(report.reason, encoding="utf-8")
        (directory / "modules.txt").write_text("\n".join(list(sys.modules)), encoding="utf-8")
        code = 0
    except BaseException:  # noqa: BLE001  # this process is a copy of the server: it must end here
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _die_at_event(directory: Path, number: int) -> None:
    """Kill this process just before its file operation `number` (from 0) below `directory`; note each on the way."""
    seen = 0
    log = os.open(directory / "events.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    root = str(directory / "art"), str(directory / "diary.jsonl")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in {"open", "os.rename", "os.truncate", "shutil.rmtree"}:
            return
        path = str(arguments[0])
        is_read = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if is_read or not path.startswith(root):
            return
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(log, f"{event} {path.removeprefix(str(directory))}\n".encode())
        seen += 1

    sys.addaudithook(watch)


@dataclass
class KillServer:
    """The server of processes, as a context manager."""

    backend: str = "diary"
    _process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--backend", self.backend],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )
        self._read()
        return self

    def __exit__(self, *error: object) -> None:
        with self._process as process:
            process.kill()  # a quiet end would take seconds, with all those modules

    def run(
        self, directory: Path, *, after_s: float | None = None, at_event: int | None = None, max_staleness: int = 0
    ) -> dict[str, Any]:
        """Run in `directory`, from where it stands; kill it after `after_s` seconds, or before a file operation.

        Returns:
            `code` (-9 where it was killed) and `seconds`.
        """
        job = {
            "directory": str(directory),
            "after_s": after_s,
            "at_event": at_event,
            "max_staleness": max_staleness,
        }
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._read())
        if answer["code"] not in {0, -signal.SIGKILL}:
            raise RuntimeError((directory / "stderr.txt").read_text(encoding="utf-8"))
        return answer

    def _read(self) -> str:
        return self._process.stdout.readline()  # type: ignore[union-attr]  # it is a pipe


# What is compared ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a run has left on the disk.

    Attributes:
        trained: The last train entry of the diary for each step: scenarios, rewards, options.
        batches: How often each batch was finished, by the journal.
        scenarios: The scenarios of each batch, by its recording.
        rows: Each row of the history by step and split, without what tells the time.
        checkpoints: The steps that have one.
        recovered: The rows that are marked so.
        doubled: The rows that are there twice.
        age: How many steps older than the weights the oldest group that was trained on was; 0 where no row says so.
    """

    trained: dict[int, Any]
    batches: dict[int, int]
    scenarios: dict[int, list[str]]
    rows: dict[str, dict[str, Any]]
    checkpoints: list[int]
    recovered: frozenset[str]
    doubled: list[str]
    age: float


def outcome_of(directory: Path) -> Outcome:
    """Read what the run in `directory` has left."""
    model = directory / "art" / "faults" / "models" / "killed"
    trained = {}
    for entry in _lines(directory / "diary.jsonl"):
        if entry["call"] == "train":
            trained[entry["arguments"]["step"]] = entry["arguments"]
    finished = [e["index"] for e in _lines(model / "artkit" / "journal.jsonl") if e["kind"] in {"trained", "emptied"}]
    scenarios = {
        int(path.stem.removeprefix("batch-")): [
            line["group"]["metadata"]["scenario_id"] for line in _lines(path) if "group" in line
        ]
        for path in (model / "artkit" / "recordings").glob("batch-*.jsonl")
    }
    rows: dict[str, dict[str, Any]] = {}
    doubled, recovered, age = [], set(), 0.0
    for row in _lines(model / "history.jsonl"):
        split = "train" if "train/batch_index" in row else "further" if "val/further/scenarios" in row else "val"
        name = f"{split} {row['step']}"
        if name in rows:
            doubled.append(name)
        if row.get(f"{split}/recovered") or row.get("val/recovered"):
            recovered.add(name)
        age = max(age, row.get("train/policy_age_max", 0.0))
        rows[name] = {key: value for key, value in row.items() if _is_settled(key)}
    return Outcome(
        trained=trained,
        batches=dict(Counter(finished)),
        scenarios=scenarios,
        rows=rows,
        checkpoints=sorted(int(path.name) for path in (model / "checkpoints").iterdir() if path.name.isdigit()),
        recovered=frozenset(recovered),
        doubled=doubled,
        age=age,
    )


def order_of(outcome: Outcome) -> Outcome:
    """Return what of an outcome does not depend on what the model said."""
    return dataclasses.replace(outcome, rows={key: {} for key in outcome.rows}, checkpoints=[])


def best_is_there(outcome: Outcome) -> bool:
    """Whether the step with the highest `val/reward`, the earliest among equals, has its checkpoint."""
    values = {row["step"]: row["val/reward"] for row in outcome.rows.values() if "val/reward" in row}
    return max(values, key=lambda step: (values[step], -step)) in outcome.checkpoints


def check(killed: Outcome, whole: Outcome, missing: frozenset[str], max_staleness: int = 0) -> list[str]:
    """Return what is wrong with a run that was killed and resumed, beside one that was not.

    Args:
        killed: What the killed run left in the end.
        whole: What the other one left.
        missing: The training rows that were missing when it was killed.
        max_staleness: How many steps old a group may be when it is trained on.
    """
    wrong = [
        f"{name}: {getattr(killed, name)} is not {getattr(whole, name)}"
        for name in ("trained", "batches", "scenarios", "checkpoints", "rows", "doubled")
        if getattr(killed, name) != getattr(whole, name)
    ]
    marked = frozenset(name for name in killed.recovered if name.startswith("train"))
    if marked != missing:
        wrong.append(f"rows {sorted(missing)} were missing and {sorted(marked)} are marked recovered")
    # What a step leaves over is one step older in the next, whether anything overlaps or not.
    if killed.age > max(max_staleness, 1):
        wrong.append(f"a group that was trained on was {killed.age} steps old")
    return wrong


def missing_rows(directory: Path) -> frozenset[str]:
    """Return the training rows that a killed run owes: trained steps whose whole row is not in the history."""
    model = directory / "art" / "faults" / "models" / "killed"
    if not (model / "checkpoints").exists():
        return frozenset()
    newest = max((int(path.name) for path in (model / "checkpoints").iterdir() if path.name.isdigit()), default=0)
    logged = {row["step"] for row in _lines(model / "history.jsonl") if "train/batch_index" in row}
    return frozenset(f"train {step}" for step in range(1, newest + 1) if step not in logged)


def _is_settled(key: str) -> bool:
    """Whether a metric is the same in every run.

    Times are not, nor what ART sums up in its own memory, nor how old groups are, of which none are ahead at first.
    """
    unsettled = ("time/", "recorded_at", "duration_s", "recovered", "cum/", "loss/", "loop_blocked", "policy_age")
    return not any(part in key for part in unsettled)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


# The benchmark -------------------------------------------------------------------------------------------------------


def moments(
    server: KillServer, root: Path, chance: random.Random, boundaries_of: int | None
) -> Iterator[dict[str, Any]]:
    """Yield when to kill: before every file operation in turn of a run of this staleness, or at random, without end."""
    if boundaries_of is not None:
        yield from ({"at_event": number} for number in range(len(events_of(server, root / "events", boundaries_of))))
        return
    while True:
        yield {"share": chance.random()}


def events_of(server: KillServer, directory: Path, max_staleness: int = 0) -> list[str]:
    """Return the file operations of a run that nobody kills."""
    server.run(directory, at_event=sys.maxsize, max_staleness=max_staleness)
    return (directory / "events.txt").read_text(encoding="utf-8").splitlines()


def main() -> None:
    """Kill runs, resume them and compare; one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--boundaries", action="store_true", help="kill before each file operation, not at random")
    parser.add_argument("--quick", action="store_true", help="stop within 50 s")
    parser.add_argument("--backend", choices=sorted(BUILDERS), default="diary")
    parser.add_argument("--max-staleness", type=int, default=0, metavar="K", help="play rollouts ahead of training")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.backend)
        return
    chance = random.Random(arguments.seed)
    deadline = time.monotonic() + (30 if arguments.quick else float("inf"))
    kills, recovered, wrong = 0, 0, []
    is_own_words = arguments.backend == "torch"
    staleness = arguments.max_staleness
    with KillServer(arguments.backend) as server, tempfile.TemporaryDirectory() as name:
        root = Path(name)
        seconds = server.run(root / "whole", max_staleness=staleness)["seconds"]
        whole = outcome_of(root / "whole")
        for number, moment in enumerate(moments(server, root, chance, staleness if arguments.boundaries else None)):
            if kills == arguments.kills or time.monotonic() > deadline:
                break
            directory = root / f"run-{number}"
            # A moment is a share of how long runs take now: another program may slow them down.
            when = {"after_s": moment["share"] * seconds} if "share" in moment else moment
            ended = server.run(directory, **when, max_staleness=staleness)
            if ended["code"] == 0:
                seconds = ended["seconds"]  # it was over before the moment
                continue
            kills += 1
            missing = missing_rows(directory)
            recovered += len(missing)
            server.run(directory, max_staleness=staleness)
            outcome = outcome_of(directory)
            if not best_is_there(outcome):
                wrong.append(f"{when}: the best checkpoint is gone")
            pair = (order_of(outcome), order_of(whole)) if is_own_words else (outcome, whole)
            wrong += [f"{when}: {text}" for text in check(*pair, missing, staleness)]
            shutil.rmtree(directory)
    for text in wrong:
        print(text, file=sys.stderr)
    print(
        json.dumps(
            {
                "benchmark": "kill_resume",
                "backend": arguments.backend,
                "max_staleness": staleness,
                "kills": kills,
                "rows_recovered": recovered,
                "runs_that_differ": len(wrong),
                "seconds_of_a_run": round(seconds, 3),
                "seed": arguments.seed,
                "machine": {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()},
            }
        )
    )


if __name__ == "__main__":
    main()
