"""Validation: which scenarios, how often, what is logged, and what may rank."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit import (
    AtEnd,
    AtStart,
    ConfigurationError,
    Every,
    KeepBest,
    KeepLatest,
    ProgrammaticReward,
    PromptScenario,
    RewardAdapter,
    Validation,
)
from artkit.testing import DiaryBackend, Reply
from artkit.tracking import RolloutFinished, ValidationFinished, Warned

if TYPE_CHECKING:
    import art


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenarios": []}, "leaves nothing to validate on"),
        ({"max_scenarios": 0}, "max_scenarios=0 is not positive"),
        ({"rollouts_per_scenario": 0}, "rollouts_per_scenario=0 is not positive"),
        ({"rollouts_per_scenario": 2.5}, "rollouts_per_scenario=2.5 is not positive"),
        ({"max_scenarios": "2"}, "max_scenarios='2' is not positive"),
        ({"pass_at": 2}, "pass_at=2 is no sequence"),
        ({"pass_at": [1.5]}, "pass_at=1.5 cannot be estimated"),
        ({"sampling": {"temperature": 0}}, "is no Sampling"),
        ({"success_threshold": float("nan")}, "success_threshold=nan is no finite number"),
        ({"success_threshold": "x"}, "success_threshold='x' is no finite number"),
        ({"name": "hard/ones"}, "'hard/ones' is no name for a metric"),
    ],
)
def test_a_validation_that_cannot_work_is_refused_when_it_is_made(arguments: dict[str, Any], message: str) -> None:
    """Before anything expensive starts."""
    with pytest.raises(ConfigurationError, match=message):
        Validation(**{"scenarios": _scenarios(["a"]), **arguments})


@given(st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=30), st.integers(1, 10), st.text(min_size=1))
def test_the_same_scenarios_are_chosen_and_growing_the_data_replaces_few(ids: list[str], cap: int, added: str) -> None:
    """Validations are compared over time: they have to ask the same."""
    before = {item.id for item in Validation(_scenarios(ids), max_scenarios=cap).selected}
    after = {item.id for item in Validation(_scenarios([*ids, added]), max_scenarios=cap).selected}

    assert len(before) == min(cap, len(ids))
    assert [item.id for item in Validation(_scenarios(ids), max_scenarios=cap).selected if item.id not in ids] == []
    assert len(before - after) <= 1


def _scenarios(ids: Sequence[str]) -> list[PromptScenario]:
    messages = [{"role": "user", "content": "any"}]
    return [PromptScenario(id=name, messages=messages) for name in dict.fromkeys(ids)]


async def test_the_first_validation_is_art_s_split_and_further_ones_are_named(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """`val/reward` is what checkpoints are ranked by, here and in ART."""
    workshop.answers.replies = {"x": "2", "y": "4", "z": "9"}

    await workshop.trainer(validation=[held_out(), held_out("z", name="hard")]).run()

    first, second = workshop.rows("val")
    assert {key: first[key] for key in ("step", "val/reward", "val/scenarios", "val/scored_share", "val/is_high")} == {
        "step": 2,
        "val/reward": 3.0,
        "val/scenarios": 2.0,
        "val/scored_share": 1.0,
        "val/is_high": 1.0,
    }
    assert {key: second[key] for key in ("step", "val/hard/reward", "val/hard/scenarios", "val/hard/is_high")} == {
        "step": 2,
        "val/hard/reward": 9.0,
        "val/hard/scenarios": 1.0,
        "val/hard/is_high": 1.0,
    }
    assert "val/reward" not in second


async def test_every_validation_asks_the_same_with_the_same_seeds(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Else two values differ by luck."""
    await workshop.trainer(validation=held_out(schedule=AtStart() | Every(1))).run()

    asked = [
        (body["messages"][0]["content"], body["seed"])
        for body in workshop.server.requests
        if body["messages"][0]["content"] in "xy"
    ]
    assert len(asked) == 6
    assert sorted(asked[:2]) == sorted(asked[2:4]) == sorted(asked[4:])


async def test_each_scenario_is_played_once_unless_said_otherwise(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """An absolute reward needs no siblings."""
    await workshop.trainer(validation=[held_out(), held_out("z", name="often", rollouts_per_scenario=3)]).run()

    assert [workshop.answers.asked.count(text) for text in "xyz"] == [1, 1, 3]


async def test_at_end_is_done_once_also_where_another_schedule_asks_for_the_same_step(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The same weights were validated already."""
    await workshop.trainer(validation=held_out(schedule=Every(2) | AtEnd())).run()
    await workshop.trainer(validation=held_out(schedule=Every(2) | AtEnd())).run()

    assert [row["step"] for row in workshop.rows("val")] == [2]


async def test_a_validation_that_could_score_under_90_percent_ranks_no_checkpoint(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Losing the hard scenarios must not look like getting better."""
    workshop.answers.replies = {"x": [Reply("1"), Reply("5")], "y": [Reply("1"), Reply(status=400, error="lost")]}

    report = await workshop.trainer(
        validation=held_out(schedule=Every(1)), checkpoint_policy=KeepBest() | KeepLatest()
    ).run()

    second = workshop.rows("val")[1]
    warnings = [event.text for event in workshop.told.of(Warned)]
    assert (report.best_step, report.best_value) == (1, 1.0)
    assert "val/reward" not in second
    assert (second["val/reward_incomplete"], second["val/scored_share"]) == (5.0, 0.5)
    assert [text for text in warnings if "could score only 50% of its episodes" in text] != []
    assert workshop.backend.checkpoint_steps(workshop.model()) == {1, 2}


async def test_a_validation_s_own_rollout_and_reward_hold_before_the_trainer_s(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """What is measured may be graded more strictly than what is trained on."""
    validation = held_out(reward=ProgrammaticReward(lambda episode: 7.0))

    await workshop.trainer(validation=validation).run()

    assert workshop.rows("val")[0]["val/reward"] == 7.0


class Beside(RewardAdapter):
    """A relative reward."""

    relative = True

    async def score(self, group: art.TrajectoryGroup) -> Sequence[float]:
        return [float(number) for number in range(len(group.trajectories))]


async def test_a_relative_reward_validates_with_a_whole_group_and_ranks_nothing_by_itself(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The best of its siblings is no better than the best of last week's."""
    report = await workshop.trainer(reward=Beside(), validation=held_out()).run()

    assert workshop.answers.asked.count("x") == 2
    assert workshop.rows("val")[0]["val/reward"] == 0.5
    assert (report.best_step, report.best_value) == (None, None)


async def test_trackers_are_told_what_was_logged(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """By ART's names, so that a screen and W&B say the same."""
    await workshop.trainer(validation=held_out()).run()

    (event,) = workshop.told.of(ValidationFinished)
    assert (event.name, event.step, event.metrics["val/reward"]) == ("val", 2, 0.0)


async def test_evaluate_opens_a_backend_that_is_not_open_and_closes_it(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A model is often looked at without being trained."""
    workshop.answers.replies = {"x": "2", "y": "4"}
    trainer = workshop.trainer(validation=held_out())

    results = await trainer.evaluate()

    assert (results["val"].metrics["reward"], results["val"].ranks) == (3.0, True)
    assert [entry.call for entry in workshop.backend.diary] == ["register", "prepare", "close"]
    assert workshop.rows() == []


async def test_evaluate_leaves_a_backend_open_that_was_open(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Whoever registered the model goes on with it."""
    trainer = workshop.trainer(model=(model := workshop.model()), validation=held_out())
    await model.register(workshop.backend)

    await trainer.evaluate()

    assert [entry.call for entry in workshop.backend.diary] == ["register", "prepare"]


async def test_evaluate_works_before_and_after_a_run(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """The run has closed the backend; and its server may come back at another address."""
    from artkit.testing import ChatServer

    backend = DiaryBackend(ChatServer(workshop.answers))
    workshop.answers.replies = {"x": "2", "y": "4"}
    trainer = workshop.trainer(backend=backend, validation=held_out())

    before = await trainer.evaluate()
    await trainer.run()
    after = await trainer.evaluate()

    assert before["val"].metrics["reward"] == after["val"].metrics["reward"] == 3.0
    assert backend.diary[-1].call == "close"


async def test_evaluate_closes_what_it_opened_also_the_second_time(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A backend that was closed is not open, although the model knows it."""
    trainer = workshop.trainer(validation=held_out())

    await trainer.evaluate()
    await trainer.evaluate()

    assert [entry.call for entry in workshop.backend.diary] == ["register", "prepare", "close"] * 2


async def test_evaluate_is_refused_while_a_run_is_under_way_and_leaves_it_alone(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Whichever ends first would close the backend under the other."""
    trainer = workshop.trainer(validation=held_out(), backend=(backend := Waiting(workshop.server)))
    run = asyncio.create_task(trainer.run())
    await backend.is_training.wait()

    for call in (trainer.evaluate, trainer.run, trainer.smoke):
        with pytest.raises(ConfigurationError, match="while run\\(\\) of the same trainer is under way"):
            await call()
    backend.let_go.set()
    report = await run
    results = await trainer.evaluate()

    assert (report.steps, list(results)) == (2, ["val"])
    assert [entry.call for entry in backend.diary].count("close") == 2


class Waiting(DiaryBackend):
    """Trains once it is let go."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.is_training, self.let_go = asyncio.Event(), asyncio.Event()

    async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
        self.is_training.set()
        await self.let_go.wait()
        return await super().train(model, groups, learning_rate=learning_rate)


async def test_what_a_judge_costs_in_evaluate_is_booked_to_eval(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Else it would look like a cost of training."""
    from art.metrics import MetricsBuilder

    booked = []

    async def grade(group: Any) -> Any:
        booked.append(MetricsBuilder.get_active().cost_context)
        return group

    await workshop.trainer(validation=held_out("x", reward=grade)).evaluate()

    assert booked == ["eval"]


async def test_the_means_of_a_validation_are_worked_out_once(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Making large groups safe for the log takes long."""
    result = (await workshop.trainer(validation=held_out()).evaluate())["val"]

    assert result.metrics is result.metrics


class CancelAfter:
    """Cancels a run after so many rollouts of its validation."""

    def __init__(self, rollouts: int) -> None:
        self._left = rollouts
        self.task: asyncio.Task[Any] | None = None

    def handle(self, event: Any) -> None:
        self._left -= isinstance(event, RolloutFinished) and event.split == "val"
        if self._left == 0 and self.task is not None:
            self.task.cancel()


async def test_what_a_validation_that_was_cut_off_has_played_is_not_played_again(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Cut off after 7 of 10: each finished rollout is on the disk, and only the rest is played by the next session."""
    names = [f"h{number}" for number in range(10)]
    workshop.answers.replies = {name: str(number) for number, name in enumerate(names)}
    tracker = CancelAfter(7)

    def trainer(**changes: Any) -> Any:
        return workshop.trainer(validation=held_out(*names), settings={"max_concurrent": 1}, **changes)

    tracker.task = asyncio.create_task(trainer(trackers=(tracker,)).run())
    with pytest.raises(asyncio.CancelledError):
        await tracker.task
    recordings = workshop.model_dir / "artkit" / "recordings"
    (unfinished,) = recordings.glob("unfinished-val-*")
    with unfinished.open("a") as file:
        file.write('{"place": ')  # half a last line
    workshop.answers.asked.clear()
    await trainer().run()

    (row,) = workshop.rows("val")
    assert len(workshop.answers.asked) == 3
    assert (row["val/reward"], row["val/scenarios"]) == (4.5, 10.0)
    assert list(recordings.glob("unfinished-*")) == []
