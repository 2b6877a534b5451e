"""The example with a real model runs, here on the micro model."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2_reasoning_gym.py"

pytestmark = pytest.mark.worlds


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def question(task: Any) -> str:
    return task.messages[-1]["content"]


def is_drawn(file: Path) -> bool:
    return file.read_text().endswith("</svg>\n")


def test_no_question_is_asked_twice_or_shown_as_an_example(example: dict[str, Any]) -> None:
    """A held-out task that was shown or trained on would be remembered, not solved."""
    for dataset in example["TASKS"]:
        tasks = example["tasks_of"](dataset, 500)
        shown = {message["content"] for message in tasks[0].messages[:-1]}

        questions = [question(task) for task in tasks]
        assert len(set(questions)) == len(questions) > 300
        assert shown.isdisjoint(questions)


def test_what_is_given_wins_over_what_quick_means(example: dict[str, Any]) -> None:
    """Somebody who tries one setting wants the others short."""
    options = example["parse"](["--quick", "--steps", "3"])

    assert (options.steps, options.groups) == (3, 8)


@pytest.mark.timeout(180)
async def test_the_example_with_a_real_model_trains_and_draws(
    example: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that takes a GPU must not fail at its end, when it draws."""
    monkeypatch.chdir(tmp_path)
    main = example["main"]
    # A model that was never trained is never right, and equal rewards teach nothing.
    monkeypatch.setitem(main.__globals__, "is_right", lambda episode: len(episode.messages()[-1]["content"]) % 2 == 0)
    small = "--device cpu --base-model artkit/micro --tasks 40 --steps 1 --groups 3 --rollouts 4 --held-out 6"

    report = await main(example["parse"]([*small.split(), "--lora-rank", "2", "--plot", "run.svg"]))

    lines = capsys.readouterr().out.splitlines()[-2:]
    assert report.steps == 1
    assert [line.partition(":")[0] for line in lines] == ["held out, step 0", "held out, step 1"]
    assert "% interval" in lines[1]
    assert is_drawn(tmp_path / "run.svg")
