"""`artkit check`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artkit.cli import main
from artkit.environments import EnvironmentReport, check_environment

MODULE = """
from artkit import Environment, Scenario, StepResult
import random


class Order(Scenario):
    item: str


class Desk(Environment[Order]):
    async def reset(self, scenario):
        self.item = scenario.item
        return f"Buy {scenario.item}."

    async def step(self, action):
        return StepResult("go on", done=self.item in action.text, reward=1.0)


class Dice(Environment[Scenario]):
    async def reset(self, scenario):
        return f"You rolled {random.random()}."

    async def step(self, action):
        return StepResult(done=True)


class Asks(Environment):
    async def reset(self, scenario):
        return scenario.messages

    async def step(self, action):
        return StepResult(done=True)


class Needs(Desk):
    def __init__(self, size):
        self.size = size


class Shelf:
    desk = Desk


number = 3
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a module, and the command run in it, without a further process."""
    (tmp_path / "artkit_test_shop.py").write_text(MODULE)
    (tmp_path / "artkit_test_broken.py").write_text("raise RuntimeError('no GPU')")
    (tmp_path / "orders.jsonl").write_text(
        "\n".join(json.dumps({"id": item, "item": item}) for item in ("tea", "milk"))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(Path.cwd()))])
    yield tmp_path
    sys.modules.pop("artkit_test_shop", None)


@pytest.fixture(autouse=True)
def _here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("timeout"):  # it is played in other processes too, which takes its time
        return

    async def here(*arguments: object, **options: object) -> object:
        return await check_environment(*arguments, **options, fresh_process=False)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr("artkit.cli.check.check_environment", here)


@pytest.mark.parametrize(
    "arguments",
    [
        ["artkit_test_shop:Desk", "--scenarios", "orders.jsonl"],
        ["artkit_test_shop:Shelf.desk", "--scenarios", "orders.jsonl", "--seed", "3"],
        ["artkit_test_shop:Asks"],
    ],
    ids=["class", "inner, seeded", "made-up prompts"],
)
def test_a_right_environment_exits_with_0(shop: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """CI goes on."""
    assert main(["check", *arguments]) == 0
    assert ": keeps its promises (" in capsys.readouterr().out


@pytest.mark.timeout(300)
def test_the_command_plays_in_a_fresh_process_too(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The module is found there as it is here, from the directory that the command runs in."""
    limits = ["--max-scenarios", "1", "--time-limit", "250"]
    assert main(["check", "artkit_test_shop:Desk", "--scenarios", "orders.jsonl", *limits]) == 0

    out = capsys.readouterr().out
    assert " of 1 scenario played)" in out
    assert "not looked at" not in out


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ([], {"quick": False, "max_scenarios": None, "time_limit_s": None}),
        (
            ["--quick", "--max-scenarios", "3", "--time-limit", "0.5"],
            {"quick": True, "max_scenarios": 3, "time_limit_s": 0.5},
        ),
    ],
    ids=["none", "all"],
)
def test_limits_are_those_of_the_check(
    shop: Path, options: list[str], passed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI has its own minutes."""
    seen: dict[str, object] = {}

    async def notes(*arguments: object, **given: object) -> EnvironmentReport:
        seen.update(given)
        return EnvironmentReport(environment="Asks")

    monkeypatch.setattr("artkit.cli.check.check_environment", notes)
    main(["check", "artkit_test_shop:Asks", *options])

    assert seen == {"seed": 0, **passed}


def test_a_limit_that_is_not_positive_exits_with_2(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check of no scenarios has looked at nothing."""
    assert main(["check", "artkit_test_shop:Asks", "--max-scenarios", "0"]) == 2
    assert capsys.readouterr().err.startswith("artkit: max_scenarios=0 is not positive")


def test_a_broken_promise_exits_with_1(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CI stops, and the log says where to look."""
    assert main(["check", "artkit_test_shop:Dice"]) == 1

    out = capsys.readouterr().out
    assert "Dice: 1 broken promise" in out
    assert "likely cause: the global generator of `random` (random.random() at artkit_test_shop.py:" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["artkit_test_shop"], "'artkit_test_shop' is not MODULE:CLASS"),
        (["no_such_module:Desk"], "no_such_module cannot be imported"),
        (["artkit_test_broken:Desk"], "artkit_test_broken cannot be imported: RuntimeError: no GPU"),
        (["artkit_test_shop.py:Desk"], "artkit_test_shop.py is a file"),
        (["./artkit_test_shop:Desk"], "./artkit_test_shop is a file"),
        (["artkit_test_shop:Needs", "--scenarios", "orders.jsonl"], "Needs cannot be made without arguments: missing"),
        (["artkit_test_shop:Nothing"], "artkit_test_shop has no Nothing"),
        (["artkit_test_shop:number"], "artkit_test_shop:number is 3"),
        (["artkit_test_shop:Needs"], "a Order needs id, item"),
        (["artkit_test_shop:Desk"], "a Order needs id, item"),
        (["artkit_test_shop:Desk", "--scenarios", "missing.jsonl"], "missing.jsonl can't be read"),
    ],
    ids=[
        "no class",
        "no module",
        "raising module",
        "file",
        "path",
        "arguments",
        "no such class",
        "no factory",
        "scenarios to be made up",
        "no scenarios",
        "no file",
    ],
)
def test_what_cannot_be_checked_exits_with_2(
    shop: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name is not a broken environment, and not a kept promise either."""
    assert main(["check", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"artkit: {problem}")


def test_wrong_arguments_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    with pytest.raises(SystemExit) as stopped:
        main(["check"])

    assert stopped.value.code == 2
    assert "MODULE:CLASS" in capsys.readouterr().err
