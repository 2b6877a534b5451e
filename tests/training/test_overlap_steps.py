"""Which steps rollouts ahead are sampled from: kept for as long as they are asked, and written down as they were."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artkit import (
    DropZeroVariance,
    Environment,
    KeepLatest,
    Limits,
    ProgrammaticReward,
    PromptScenario,
    Rollout,
    Sampling,
    ScenarioOrder,
    ScenarioStream,
    StepResult,
    Trainer,
    TrainerSettings,
    make_trainable_model,
    read_groups,
)
from artkit.errors import ConfigurationError
from artkit.testing import DiaryBackend, Reply
from artkit.tracking import Warned
from artkit.training import ahead

AHEAD = {"groups_per_step": 1, "max_staleness": 1, "check_environment": False}


def order(workshop: Any, *names: str) -> ScenarioOrder[Any]:
    return ScenarioOrder(workshop.scenarios(*names), shuffle=False)


@pytest.mark.torch
async def test_a_checkpoint_that_rollouts_still_ask_is_not_pruned(workshop: Any, tmp_path: Path) -> None:
    """Their next turn would find no such model, and the run would end."""
    from artkit.backends.torch import TorchBackend

    class Tool(Environment[Any]):
        async def reset(self, scenario: Any) -> Any:
            self.turns = 0
            return scenario.messages

        async def step(self, action: Any) -> StepResult:
            self.turns += 1
            await asyncio.sleep(0.1)
            return StepResult(messages=[{"role": "user", "content": "go on"}], done=self.turns >= 4, reward=0.0)

    backend = TorchBackend(tmp_path, seed=0)
    model = make_trainable_model(
        name="agent", project="p", base_model="artkit/micro", base_path=str(tmp_path), report_metrics=[]
    )
    report = await Trainer(
        model=model,
        backend=backend,
        rollout=Rollout(
            Tool, sampling=Sampling(seed=0, max_completion_tokens=4), limits=Limits(stop_when_truncated=False)
        ),
        train=order(workshop, "a", "b", "c", "d"),
        reward=ProgrammaticReward(lambda episode: float(episode.member)),
        trackers=(),
        checkpoint_policy=KeepLatest(1),
        settings=TrainerSettings(**AHEAD, rollouts_per_group=2),
    ).run()
    await backend.close()

    assert report.steps == 4
    assert [path.name for path in tmp_path.glob("**/checkpoints/*")] == ["0004"]  # noqa: ASYNC240


async def test_groups_are_stamped_with_the_step_in_the_name_that_was_asked(workshop: Any) -> None:
    """Training that ends meanwhile changes nothing of what a rollout asks."""
    workshop.answers.replies = {"01": Reply("1", delay_s=0.3)}

    class Pinned(DiaryBackend):
        served = 0

        async def train(self, *arguments: Any, **options: Any) -> Any:
            while self.served == 0 and "01" not in workshop.answers.asked:  # noqa: ASYNC110  # a fact of the server
                await asyncio.sleep(0.005)
            result = await super().train(*arguments, **options)
            self.served = result.step
            return result

        def _model_inference_name(self, model: Any, step: int | None = None) -> str:
            return f"{model.name}@{self.served if step is None else step}"

    trainer = workshop.trainer(
        train=order(workshop, "00", "01"), backend=Pinned(workshop.server), filters=None, settings=AHEAD
    )
    await trainer.run()

    recordings = sorted((workshop.model_dir / "artkit" / "recordings").glob("batch-*.jsonl"))
    stamps = [group.metadata for path in recordings for group in read_groups(path)[0]]
    assert [(one["policy_step"], "policy_step_last" in one) for one in stamps] == [(0, False), (0, False)]


async def test_surplus_has_its_age_logged_without_staleness(workshop: Any) -> None:
    """It is one step old all the same."""
    workshop.answers.replies = {"a": "1", "b": "1"}
    await workshop.trainer(
        train=order(workshop, *"abcdefgh"), filters=DropZeroVariance(), settings={"max_extra_groups": 4}
    ).run()

    assert [row["train/policy_age_max"] for row in workshop.rows("train")] == [0, 1, 0]


async def test_a_training_that_makes_episodes_too_old_is_warned_of(workshop: Any) -> None:
    """Nothing else would say that the setting was not kept."""

    class Jumps(DiaryBackend):
        async def train(self, *arguments: Any, **options: Any) -> Any:
            while "01" not in workshop.answers.asked:  # noqa: ASYNC110  # a fact of the server
                await asyncio.sleep(0.005)
            await super().train(*arguments, **options)
            return await super().train(*arguments, **options)

    await workshop.trainer(train=order(workshop, "00", "01"), backend=Jumps(workshop.server), settings=AHEAD).run()

    [text] = [event.text for event in workshop.told.of(Warned) if "steps older" in event.text]
    assert text.startswith("episodes that are 2 steps older than the weights of step 2 are trained on")


@pytest.mark.parametrize(
    ("staleness", "extra", "words", "warns"),
    [(1, 2, "", True), (2, 2, "1 step ahead of training", False), (2, 0, "2 steps ahead of training", False)],
)
def test_the_plan_says_how_far_rollouts_are_ahead(
    workshop: Any, staleness: int, extra: int, words: str, warns: bool
) -> None:
    """Surplus takes one step."""
    plan = workshop.trainer(settings={"max_staleness": staleness, "max_extra_groups": extra}).plan()

    assert plan.lines[0].partition("; rollouts up to ")[2] == words
    assert any("overlaps nothing" in text for text in plan.warnings) == warns


@pytest.mark.parametrize("value", [True, "1"])
def test_a_staleness_that_is_no_whole_number_is_refused(value: object) -> None:
    """True would be 1."""
    with pytest.raises(ConfigurationError, match=r"max_staleness=.*give a whole number"):
        TrainerSettings(max_staleness=value)  # type: ignore[arg-type]


async def test_sigterm_begins_nothing_more(workshop: Any) -> None:
    """What is begun then is paid for and thrown away."""
    workshop.answers.replies = {"00": [Reply("0", delay_s=0.2), Reply("1", delay_s=0.2)]}
    read: list[str] = []

    async def source() -> AsyncIterator[PromptScenario]:
        for name in ("00", "01", "02"):
            read.append(name)
            yield workshop.scenarios(name)[0]

    settings = {**AHEAD, "max_staleness": 3, "max_steps": 3}
    run = asyncio.create_task(workshop.trainer(train=ScenarioStream(source()), settings=settings).run())
    while "00" not in workshop.answers.asked:  # noqa: ASYNC110  # a fact of the server
        await asyncio.sleep(0.005)
    signal.raise_signal(signal.SIGTERM)
    report = await run

    assert report.reason == "stopped: SIGTERM"
    assert workshop.trained_ids() == [["00"]]
    assert read == ["00"]


async def test_a_source_that_does_not_heed_its_cancellation_is_given_up_and_named(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is over; a queue that is asked again and again would hold it for ever."""
    monkeypatch.setattr(ahead, "_PATIENCE_S", 0.05)
    is_over = asyncio.Event()

    async def source() -> AsyncIterator[PromptScenario]:
        for name in ("00", "01"):
            yield workshop.scenarios(name)[0]
        while not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()

    report = await workshop.trainer(
        train=ScenarioStream(source()),
        settings={**AHEAD, "max_steps": 9},
        stop_when=lambda progress, metrics: "enough" if progress.step == 2 else None,
    ).run()
    is_over.set()

    assert report.reason == "stopped: enough"
    [text] = [event.text for event in workshop.told.of(Warned) if "is given up" in event.text]
    assert text.startswith("ScenarioStream(")


async def test_a_failure_ahead_is_a_note_where_training_fails_too(workshop: Any) -> None:
    """Else nobody would know of it before the next start."""
    workshop.answers.replies["01"] = Reply(status=401, error="no such key")
    failed = "failed-000001.jsonl"

    class Falls(DiaryBackend):
        async def train(self, *arguments: Any, **options: Any) -> Any:
            while "01" not in workshop.answers.asked:  # noqa: ASYNC110  # a fact of the server
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.3)
            raise RuntimeError("the GPU fell off")

    with pytest.raises(RuntimeError, match="the GPU fell off") as caught:
        await workshop.trainer(train=order(workshop, "00", "01"), backend=Falls(workshop.server), settings=AHEAD).run()

    assert (workshop.model_dir / "artkit" / "recordings" / failed).exists()
    assert "what was played ahead had failed too, with OutageError" in caught.value.__notes__[0]
