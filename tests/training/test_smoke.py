"""The smoke test: one tiny step through the same code, of which nothing stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from artkit import ConfigurationError, Every, Validation


async def test_one_tiny_step_is_trained_and_validated(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """What breaks after an hour breaks now."""
    trainer = workshop.trainer(
        validation=held_out(schedule=Every(100)), settings={"groups_per_step": 4, "rollouts_per_group": 8}
    )

    report = await trainer.smoke()

    (call,) = workshop.backend.calls("train")
    assert (report.steps, report.best_step) == (1, 1)
    assert [len(group["rewards"]) for group in call["groups"]] == [2]
    assert len(workshop.answers.asked) == 3


async def test_it_leaves_no_trace_and_the_run_begins_at_the_beginning(workshop: Any) -> None:
    """It has its own model name and journal, and both are gone afterwards."""
    trainer = workshop.trainer()

    await trainer.smoke()
    left = list((workshop.directory / "art" / "workshop" / "models").iterdir())
    report = await trainer.run()

    assert left == []
    assert (report.steps, [row["step"] for row in workshop.rows("train")]) == (2, [1, 2])


async def test_it_trains_also_where_its_two_rollouts_score_alike(workshop: Any) -> None:
    """Whether the backend can train on them is what is tried."""
    workshop.answers.replies = dict.fromkeys("abcd", "1")

    assert (await workshop.trainer().smoke()).steps == 1


async def test_it_needs_no_run_where_the_run_needs_one(workshop: Any) -> None:
    """`resume="require"` is about the run's journal, not about the throw-away one."""
    assert (await workshop.trainer(resume="require").smoke()).steps == 1


async def test_an_open_ended_source_that_cannot_go_back_is_refused(workshop: Any) -> None:
    """The scenario that the smoke test took would be missing from the run."""
    trainer = workshop.trainer(train=iter(workshop.scenarios("a", "b")), settings={"max_steps": 1})

    with pytest.raises(ConfigurationError, match="would be missing from the run"):
        await trainer.smoke()


class Own(BaseModel):
    depth: int


async def test_the_throw_away_model_is_made_like_the_model(workshop: Any) -> None:
    """Its config and adapter settings decide whether the backend can train it."""
    seen = []

    async def look(group: Any) -> Any:
        return group

    trainer = workshop.trainer(
        model=workshop.model(config=Own(depth=3), lora_config={"rank": 4}),
        stop_when=lambda progress, metrics: None,
        reward=look,
    )
    register = workshop.backend.register

    async def watched(model: Any) -> None:
        seen.append(model)
        await register(model)

    workshop.backend.register = watched
    await trainer.smoke()

    (model,) = seen
    lora = getattr(model, "lora_config", None) or model._internal_config["peft_args"]
    assert (model.config, list(lora.values())) == (Own(depth=3), [4])
    assert model.name.startswith("agent-smoke-")
