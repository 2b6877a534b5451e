"""What a validation says beside its mean: how far to trust it, and whether the model got better."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import art
import pytest

from artkit import (
    AllRolloutsFailedError,
    AtStart,
    ConfigurationError,
    Every,
    KeepBest,
    Sampling,
    Validation,
    compare,
    estimate,
)
from artkit.testing import ChatServer, Reply
from artkit.tracking import ValidationFinished, Warned
from artkit.training.standing import Mark, Standing

NAMES = [f"{number:02}" for number in range(12)]


def logged(row: dict[str, Any], *names: str, prefix: str = "val") -> dict[str, float]:
    return {name: row[f"{prefix}/{name}"] for name in names}


async def test_the_mean_is_logged_with_its_error_and_interval(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """A mean of 64 says less than two digits seem to."""
    workshop.answers.replies = {name: str(int(name) % 3) for name in NAMES}

    await workshop.trainer(validation=[held_out(*NAMES), held_out(*NAMES[:6], name="few")]).run()

    first, second = workshop.rows("val")
    for row, names, prefix in ((first, NAMES, "val"), (second, NAMES[:6], "val/few")):
        found = estimate([[int(name) % 3] for name in names])
        assert logged(row, "reward", "reward_se", "reward_low", "reward_high", prefix=prefix) == {
            "reward": found.mean,
            "reward_se": found.standard_error,
            "reward_low": found.low,
            "reward_high": found.high,
        }


async def test_pass_at_k_is_logged_where_a_scenario_is_played_more_than_once(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """By itself where rewards are 0 or 1, else as it is asked for."""
    workshop.answers.replies = {"x": ["0", "0", "0", "1"], "y": "0", "z": ["1", "5", "1", "5"]}
    validations = [
        held_out(rollouts_per_scenario=4),
        held_out("z", name="graded", rollouts_per_scenario=4),
        held_out("z", name="asked", rollouts_per_scenario=4, pass_at=(2,), success_threshold=5.0),
    ]

    await workshop.trainer(validation=validations, settings={"max_concurrent": 1}).run()

    plain, graded, asked = workshop.rows("val")
    assert logged(plain, "pass@1", "pass@2", "pass@4") == {"pass@1": 0.125, "pass@2": 0.25, "pass@4": 0.5}
    assert [name for name in graded if "pass@" in name] == []
    assert {name: asked[name] for name in asked if "pass@" in name} == {"val/asked/pass@2": pytest.approx(5 / 6)}


async def test_the_rates_are_shares_of_all_rollouts(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """An episode that left its group is in no mean, and must not be forgotten for that."""
    workshop.answers.replies = {"x": Reply("5", finish_reason="length"), "y": Reply(status=400, error="lost")}

    await workshop.trainer(validation=held_out("x", "y", "z", "v")).run()

    (row,) = workshop.rows("val")
    assert logged(row, "error_rate", "truncated_rate", "scored_share", "rollouts_failed") == {
        "error_rate": 0.25,
        "truncated_rate": 0.25,
        "scored_share": 0.75,
        "rollouts_failed": 1.0,
    }


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_later_validations_are_compared_with_the_first_and_the_best(
    workshop: Any, held_out: Callable[..., Validation], is_resumed: bool
) -> None:
    """On the same scenarios, in pairs: that says more than two means do. A resumed run knows them too."""
    workshop.answers.replies = {name: ["0", "5", "3", "3"] for name in NAMES}
    settings = {"groups_per_step": 1, "num_epochs": 1, "max_concurrent": 1}
    data = workshop.scenarios("a", "b", "c")

    async def run(**changes: Any) -> None:
        validation = held_out(*NAMES, schedule=AtStart() | Every(1))
        await workshop.trainer(train=data, validation=validation, settings=settings | changes).run()

    if is_resumed:
        await run(max_steps=2)
    await run()

    rows = workshop.rows("val")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert [row.get("val/reward_vs_first") for row in rows] == [None, 5.0, 3.0, 3.0]
    assert [row.get("val/reward_vs_best") for row in rows] == [None, None, -2.0, -2.0]
    told = [event.comparisons for event in workshop.told.of(ValidationFinished)]
    assert list(told[-1]) == ["the first, step 0", "the best, step 1"]
    assert told[-1]["the first, step 0"].startswith("better: +3.000 (95 % interval ")
    assert told[-1]["the best, step 1"].startswith("worse: -2.000 (98.3333 % interval ")


async def test_a_validation_that_a_death_kept_out_of_the_journal_is_compared_with_all_the_same(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Its row and its recording are there."""
    workshop.answers.replies = {name: ["0", "5"] for name in NAMES}
    settings = {"groups_per_step": 1, "max_concurrent": 1}
    data = workshop.scenarios("a", "b")

    def trainer(**changes: Any) -> Any:
        validation = held_out(*NAMES, schedule=Every(1))
        return workshop.trainer(train=data, validation=validation, settings=settings | changes)

    await trainer(max_steps=1).run()
    journal = workshop.model_dir / "artkit" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"validated"' not in line and '"ended"' not in line))
    await trainer().run()

    rows = workshop.rows("val")
    assert [(row["step"], row.get("val/reward_vs_first")) for row in rows] == [(1, None), (2, 5.0)]
    told = [(event.step, event.metrics["val/reward"]) for event in workshop.told.of(ValidationFinished)]
    assert told == [(1, 0.0), (1, 0.0), (2, 5.0)]


async def test_what_only_one_of_two_validations_could_score_is_left_out_of_their_comparison(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Losing the hard scenarios must not look like getting better."""
    lost = Reply(status=400, error="lost")
    workshop.answers.replies = dict.fromkeys(NAMES, "1") | {"00": [Reply("-99"), lost]}

    await workshop.trainer(
        validation=held_out(*NAMES, schedule=AtStart() | Every(2)), settings={"max_concurrent": 1}
    ).run()

    last = workshop.rows("val")[-1]
    assert last["val/reward"] == 1.0
    assert last["val/reward_vs_first"] == 0.0


async def test_a_validation_in_which_everything_fails_is_logged_with_its_cause_and_deletes_nothing(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Days of training are not thrown away for it, and there is no silent gap."""
    workshop.answers.replies = dict.fromkeys("xy", Reply(status=400, error="no such tool"))

    report = await workshop.trainer(
        validation=held_out(schedule=Every(1)), checkpoint_policy=KeepBest(), settings={"num_epochs": 1}
    ).run()

    rows = workshop.rows("val")
    warnings = [event.text for event in workshop.told.of(Warned)]
    assert report.steps == 2
    assert [row["step"] for row in rows] == [1, 2]
    assert logged(rows[0], "scored_share", "error_rate", "scenarios") == {
        "scored_share": 0.0,
        "error_rate": 1.0,
        "scenarios": 2.0,
    }
    assert "val/reward" not in rows[0]
    assert [text for text in warnings if "could score only 0%" in text and "no such tool" in text] != []
    assert workshop.backend.checkpoint_steps(workshop.model()) == {0, 1, 2}


async def test_more_failures_than_are_allowed_stop_the_run_in_validation_too(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Somebody has said how many."""
    workshop.answers.replies = {"x": Reply(status=400, error="no such tool")}

    with pytest.raises(AllRolloutsFailedError):
        await workshop.trainer(validation=held_out(), settings={"max_exceptions": 0}).run()


async def test_a_validation_samples_as_it_says(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Greedy replies, say, while training samples at temperature 1."""
    validation = held_out(sampling=Sampling(temperature=0.25, max_completion_tokens=7))

    await workshop.trainer(validation=validation, settings={"seed": 3}).run()

    asked = [body for body in workshop.server.requests if body["messages"][0]["content"] in "xy"]
    assert [(body["temperature"], body["max_completion_tokens"]) for body in asked] == [(0.25, 7)] * 2
    assert all("seed" in body for body in asked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pass_at": (4,)}, "pass_at=.* with 1 rollouts per scenario .*give rollouts_per_scenario=4"),
        ({"pass_at": (0,)}, "pass_at=0 cannot be estimated"),
        ({"pass_at": (4,), "rollouts_per_scenario": 2}, "pass_at=4 cannot be estimated .*to rollouts_per_scenario=2"),
    ],
)
async def test_a_pass_at_k_that_cannot_be_estimated_is_refused_before_the_run(
    workshop: Any, held_out: Callable[..., Validation], changes: dict[str, Any], message: str
) -> None:
    """It would be missing from the log after days."""
    with pytest.raises(ConfigurationError, match=message):
        await workshop.trainer(validation=held_out(**changes)).run()


async def test_any_model_is_evaluated_on_any_set(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """The model to beat, on the same scenarios: nothing is trained, logged or opened for it."""
    trainer = workshop.trainer(validation=[held_out(), held_out("z", name="hard")])
    ours = await trainer.evaluate(sets=["val"])
    async with ChatServer(lambda body: "7") as other:
        rival = art.Model(
            name="rival",
            project="workshop",
            inference_model_name="rival",
            inference_base_url=other.base_url,
            inference_api_key=other.api_key,
            base_path=str(workshop.directory / "art"),
        )

        theirs = await trainer.evaluate(model=rival, sets=[trainer_set := held_out(*NAMES), "hard"])

    assert {name: result.metrics["reward"] for name, result in theirs.items()} == {"val": 7.0, "hard": 7.0}
    assert list(ours) == ["val"]
    assert len(theirs["val"].scores) == len(trainer_set.scenarios)
    assert [entry.call for entry in workshop.backend.diary] == ["register", "prepare", "close"]
    assert workshop.rows() == []
    assert compare(ours["val"].scores, {"x": 7.0, "y": 7.0}).difference == 7.0


async def test_a_set_that_is_not_there_is_refused(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """A misspelt name must not evaluate nothing."""
    with pytest.raises(ConfigurationError, match=r"sets='hrad' is no validation of the trainer .*it has val, hard"):
        await workshop.trainer(validation=[held_out(), held_out("z", name="hard")]).evaluate(sets=["hrad"])
    with pytest.raises(ConfigurationError, match="no validation to evaluate"):
        await workshop.trainer().evaluate()


async def test_a_result_prints_as_one_line(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """What is looked at first; the groups are there for whoever wants them."""
    workshop.answers.replies = {name: str(int(name) % 2) for name in NAMES} | {
        "z": Reply(status=400, error="no such tool")
    }
    results = await workshop.trainer(validation=[held_out(*NAMES), held_out("z", name="none")]).evaluate()

    assert str(results["val"]).startswith(
        "val: reward 0.500 (95 % interval 0.254 to 0.746), 12 scenarios, 100% scored, "
    )
    assert str(results["none"]).startswith("none: nothing could be scored: BadRequestError: ")
    assert "Trajectory" not in repr(results)


async def test_sets_that_cannot_work_are_refused_by_evaluate_too(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Two of one name would give one result; a set of training data says nothing."""
    async with ChatServer(lambda body: "7") as other:
        rival = art.Model(
            name="rival",
            project="workshop",
            inference_model_name="rival",
            inference_base_url=other.base_url,
            inference_api_key=other.api_key,
        )
        trainer = workshop.trainer()

        for sets, message in (
            ([held_out(), held_out("z")], "two validations share a name"),
            (held_out("a", "x"), "1 scenarios of validation 'val' are trained on too"),
            (held_out(pass_at=(4,)), "with 1 rollouts per scenario"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                await trainer.evaluate(model=rival, sets=sets)


async def test_a_model_that_never_changes_is_seldom_called_worse_than_its_luckiest_validation(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The best of many was lucky too."""
    chance = random.Random(1)
    names = [f"{number:02}" for number in range(64)]
    standing, verdicts = None, []
    for step in range(200):
        scores = {name: float(chance.random() < 0.5) for name in names}
        mark = Mark(step=step, mean=sum(scores.values()) / 64, scores=scores)
        if standing is not None:
            verdicts += [found.verdict for name, (_, found) in standing.compare(scores).items() if name == "best"]
        standing = Standing.begun(mark) if standing is None else standing.after(mark)

    assert verdicts.count("worse") <= 4
    assert len(verdicts) > 150
