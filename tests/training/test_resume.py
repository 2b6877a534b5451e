"""Resuming: the journal and the backend's own step say where a run stands."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from filelock import FileLock, Timeout

from artkit import (
    AtStart,
    Every,
    EveryEpoch,
    KeepLatest,
    Limits,
    ResumeError,
    Rollout,
    Sampling,
    ScenarioOrder,
    Validation,
)
from artkit.testing import DiaryBackend
from artkit.tracking import Warned


class DyingError(Exception):
    """Ends a run where a test wants it."""


class Dying(DiaryBackend):
    """Dies before, or after, it has trained for the given time."""

    def __init__(self, *arguments: Any, before: int = 0, after: int = 0) -> None:
        super().__init__(*arguments)
        self._before, self._after, self._calls = before, after, 0

    async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
        self._calls += 1
        if self._calls == self._before:
            raise DyingError
        result = await super().train(model, groups, learning_rate=learning_rate)
        if self._calls == self._after:
            raise DyingError
        return result


async def test_a_run_goes_on_where_its_journal_ends(workshop: Any) -> None:
    """The same batches as without the interruption, none twice and none left out."""
    with pytest.raises(DyingError):
        await workshop.trainer(backend=Dying(workshop.server, before=2), settings={"num_epochs": 2}).run()
    first = workshop.trained_ids()

    report = await workshop.trainer(settings={"num_epochs": 2}).run()

    expected = [
        [scenario.id for scenario in batch.items]
        for batch in ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), seed=0).batches(2, 2)
    ]
    assert first + workshop.trained_ids() == expected
    assert [row["step"] for row in workshop.rows("train")] == [1, 2, 3, 4]
    assert (report.reason, report.steps) == ("finished: all batches were trained", 4)


async def test_a_training_that_was_not_written_down_is_known_from_the_backend(workshop: Any) -> None:
    """Its batch is not done again, and the row that is missing is written from the recording, and marked."""
    with pytest.raises(DyingError):
        await workshop.trainer(backend=Dying(workshop.server, after=1)).run()
    asked = len(workshop.answers.asked)

    await workshop.trainer().run()

    first, second = workshop.rows("train")
    assert len(workshop.backend.calls("train")) == 1
    assert len(workshop.answers.asked) - asked == 4
    assert (first["train/recovered"], first["train/reward"], first["train/batch_index"]) == (1.0, 0.5, 0.0)
    assert "train/recovered" not in second


async def test_a_row_is_recovered_also_where_its_recording_is_gone(workshop: Any) -> None:
    """Somebody made room on the disk: the counts are in the journal."""
    with pytest.raises(DyingError):
        await workshop.trainer(backend=Dying(workshop.server, after=1)).run()
    (workshop.model_dir / "artkit" / "recordings" / "batch-000000.jsonl").unlink()

    await workshop.trainer().run()

    row = workshop.rows("train")[0]
    assert (row["train/recovered"], row["train/groups_submitted"]) == (1.0, 2.0)


async def test_a_finished_run_says_that_there_is_nothing_to_do(workshop: Any) -> None:
    """A second start by mistake costs nothing, and is no error."""
    first = await workshop.trainer().run()
    asked = len(workshop.answers.asked)

    again = await workshop.trainer().run()

    assert (first.reason, again.reason) == (
        "finished: all batches were trained",
        "nothing to do: finished: all batches were trained",
    )
    assert again.steps == 2
    assert len(workshop.answers.asked) == asked


@pytest.mark.parametrize("settings", [{"num_epochs": 1}, {"num_epochs": 9, "max_steps": 2}])
async def test_a_step_past_the_end_says_nothing_to_do(workshop: Any, settings: dict[str, int]) -> None:
    """Fewer epochs or steps than were trained already."""
    await workshop.trainer(settings={"num_epochs": 2}).run()

    report = await workshop.trainer(settings=settings).run()

    assert report.reason.startswith("nothing to do: finished")
    assert workshop.backend.calls("train") == ()


async def test_a_run_resumed_at_an_epoch_boundary_goes_on_with_the_next_epoch(workshop: Any) -> None:
    """Elsewhere the position at the end of an epoch was taken for the end of the run."""
    await workshop.trainer(settings={"num_epochs": 2, "max_steps": 2}).run()

    report = await workshop.trainer(settings={"num_epochs": 2}).run()

    assert [call["step"] for call in workshop.backend.calls("train")] == [3, 4]
    assert report.steps == 4


async def test_max_steps_counts_the_whole_run_resumes_included(workshop: Any) -> None:
    """A limit that begins anew with every start is none."""
    await workshop.trainer(settings={"num_epochs": 5, "max_steps": 3}).run()

    report = await workshop.trainer(settings={"num_epochs": 5, "max_steps": 4}).run()

    assert (report.steps, len(workshop.backend.calls("train"))) == (4, 1)
    assert report.reason == "finished: max_steps=4 were trained"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"train": ["a", "b", "c", "e"]}, "the training data changed"),
        ({"settings": {"seed": 1}}, "the training data changed"),
        ({"settings": {"seed": 1}}, "seed was 0 and is 1"),
        ({"rollout": Sampling(seed=1)}, "sampling was"),
        ({"rollout": Limits(max_turns=1)}, "max_turns was None and is 1"),
        ({"settings": {"groups_per_step": 4}}, "groups_per_step was 2 and is 4"),
        ({"settings": {"rollouts_per_group": 3}}, "rollouts_per_group was 2 and is 3"),
        ({"settings": {"learning_rate": 0.5}}, "learning_rate was 1e-05 and is 0.5"),
        ({"settings": {"train_options": {"ppo": True}}}, "train_options was {} and is {'ppo': 'True'}"),
    ],
)
async def test_changed_data_or_settings_are_refused_with_the_choices(
    workshop: Any, changes: dict[str, Any], what: str
) -> None:
    """Going on with other batches repeats some scenarios and skips others, in silence."""
    await workshop.trainer(settings={"max_steps": 1}).run()
    if "train" in changes:
        changes = {"train": workshop.scenarios(*changes["train"])}
    if "rollout" in changes:
        changes = {"rollout": rollout(workshop, changes["rollout"])}

    with pytest.raises(ResumeError) as caught:
        await workshop.trainer(**changes).run()

    assert what in caught.value.problem
    assert ['resume="never"' in caught.value.hint, "run_name" in caught.value.hint] == [True, True]
    assert workshop.backend.calls("train") == ()


def rollout(workshop: Any, part: Sampling | Limits) -> Rollout[Any]:
    if isinstance(part, Sampling):
        return Rollout(workshop.Numbers, sampling=part)
    return Rollout(workshop.Numbers, sampling=Sampling(seed=0), limits=part)


async def test_a_longer_timeout_does_not_keep_a_run_from_resuming(workshop: Any) -> None:
    """It is how a run is mended that could not reach its service in time."""
    await workshop.trainer(settings={"max_steps": 1}).run()

    report = await workshop.trainer(rollout=rollout(workshop, Limits(request_timeout_s=900))).run()

    assert report.steps == 2


class Tuning:
    """An option that is no plain value: its `repr` differs in every process."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


async def test_an_option_whose_repr_holds_its_address_does_not_keep_a_run_from_resuming(workshop: Any) -> None:
    """The same script, started again, has made the same run."""

    class Open(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0, **options: Any) -> Any:
            return await super().train(model, groups, learning_rate=learning_rate)

    for max_steps in (1, 2):
        settings = {
            "max_steps": max_steps,
            "train_options": {"tuning": Tuning(3), "how": functools.partial(max, Tuning(3)), "names": {"x", "y", "z"}},
        }
        report = await workshop.trainer(backend=Open(workshop.server), settings=settings).run()

    assert report.steps == 2


async def test_a_backend_that_is_ahead_is_refused(workshop: Any) -> None:
    """Something else trained these weights: which batches they saw is not known."""
    await workshop.trainer(settings={"max_steps": 1}).run()
    (workshop.model_dir / "checkpoints" / "0005").mkdir()

    with pytest.raises(ResumeError, match=r"the backend is at step 5, but this run left it at 1.*resume=.never"):
        await workshop.trainer().run()


async def test_a_backend_that_is_further_ahead_than_one_training_is_refused(workshop: Any) -> None:
    """One step may be the training that was not written down; two are not."""
    with pytest.raises(DyingError):
        await workshop.trainer(backend=Dying(workshop.server, before=2)).run()
    (workshop.model_dir / "checkpoints" / "0003").mkdir()

    with pytest.raises(ResumeError, match="the backend is at step 3, but this run left it at 1"):
        await workshop.trainer().run()


async def test_a_training_that_finished_after_its_session_was_killed_is_told_from_a_stranger_s(workshop: Any) -> None:
    """A service trains on when nobody waits for it: the batch was begun twice, so it may have been trained on twice."""
    for _ in range(2):
        with pytest.raises(DyingError):
            await workshop.trainer(backend=Dying(workshop.server, before=1)).run()
    for step in (1, 2):
        (workshop.model_dir / "checkpoints" / f"{step:04d}").mkdir()

    report = await workshop.trainer().run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert [row["step"] for row in workshop.rows("train")] == [2, 3]
    assert [text for text in warnings if "batch 0 was begun 2 times" in text] != []
    assert report.steps == 2


async def test_a_training_that_finishes_late_within_a_session_is_a_warning(workshop: Any) -> None:
    """The step that the journal holds is the backend's own, so that the next session finds it where it was left."""

    class Jumping(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            await super().train(model, [], learning_rate=learning_rate)
            return await super().train(model, groups, learning_rate=learning_rate)

    await workshop.trainer(backend=Jumping(workshop.server), settings={"max_steps": 1}).run()

    report = await workshop.trainer().run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert [text for text in warnings if "train() of Jumping went from step 0 to 2: a training that" in text] != []
    assert [row["step"] for row in workshop.rows("train")] == [2, 3]
    assert report.steps == 2


async def test_a_backend_that_is_behind_is_refused(workshop: Any) -> None:
    """Weights are missing; going on would train batches on others than the log says."""
    await workshop.trainer().run()
    for step in (1, 2):
        (workshop.model_dir / "checkpoints" / f"{step:04d}").rename(workshop.directory / f"{step}")

    with pytest.raises(ResumeError, match="the journal says step 2, but the backend has only step 0"):
        await workshop.trainer().run()


async def test_resume_never_begins_anew_on_the_present_weights(workshop: Any) -> None:
    """The old journal is set aside, and the rows of the new run follow the old ones."""
    await workshop.trainer(settings={"learning_rate": 0.5}).run()

    report = await workshop.trainer(resume="never").run()

    assert report.steps == 2
    assert [row["step"] for row in workshop.rows("train")] == [1, 2, 3, 4]
    own = workshop.model_dir / "artkit"
    assert (own / "journal.1.jsonl").exists()
    assert len(list((own / "recordings.1").iterdir())) == len(list((own / "recordings").iterdir())) == 2


async def test_resume_require_refuses_to_begin_anew(workshop: Any) -> None:
    """A mistyped run name would quietly train from the start."""
    with pytest.raises(ResumeError, match="there is no run to resume"):
        await workshop.trainer(resume="require").run()
    await workshop.trainer(settings={"max_steps": 1}).run()

    report = await workshop.trainer(resume="require").run()

    assert report.steps == 2


async def test_an_empty_batch_is_not_played_again_and_its_counts_wait_for_the_next_row(workshop: Any) -> None:
    """The cursor goes on although the backend's step does not; the counts are in the journal."""
    workshop.answers.replies = {"a": "1"}
    data = ScenarioOrder(workshop.scenarios("a", "b"), shuffle=False)
    with pytest.raises(DyingError):
        await workshop.trainer(
            backend=Dying(workshop.server, before=1), train=data, settings={"groups_per_step": 1}
        ).run()

    await workshop.trainer(train=data, settings={"groups_per_step": 1}).run()

    (row,) = workshop.rows("train")
    assert workshop.answers.asked.count("a") == 2
    assert workshop.trained_ids() == [["b"]]
    assert (row["train/groups_submitted"], row["train/groups_trainable"], row["step"]) == (2.0, 1.0, 1)


async def test_a_validation_that_an_error_cut_short_is_done_on_resume(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Its row is marked, for it was logged later than its step."""
    deaths = iter([True])

    async def grade(group: Any) -> Any:
        if group.metadata["scenario_id"] == "x" and next(deaths, False):
            raise DyingFatallyError("judge", "start again")
        return group

    validation = held_out("x", schedule=Every(1), reward=grade)
    with pytest.raises(DyingFatallyError):
        await workshop.trainer(validation=validation).run()
    before = workshop.rows("val")

    await workshop.trainer(validation=validation).run()

    assert before == []
    assert [(row["step"], row.get("val/recovered")) for row in workshop.rows("val")] == [(1, 1.0), (2, None)]
    assert [row["step"] for row in workshop.rows("train")] == [1, 2]


class DyingFatallyError(ResumeError):
    """An error of artkit's own, which no reward policy swallows."""


async def test_a_start_validation_that_an_error_cut_short_is_done_on_resume(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """It belongs to the run, not to the session; and it is done once."""
    deaths = iter([True])

    async def grade(group: Any) -> Any:
        if next(deaths, False):
            raise DyingFatallyError("judge", "start again")
        return group

    validation = held_out("x", schedule=AtStart(), reward=grade)
    with pytest.raises(DyingFatallyError):
        await workshop.trainer(validation=validation).run()
    for _ in range(2):
        await workshop.trainer(validation=validation).run()

    assert [row["step"] for row in workshop.rows("val")] == [0]


async def test_validations_come_at_the_same_steps_whether_resumed_or_not(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """An epoch that ends with an empty batch ends all the same."""
    workshop.answers.replies = {"b": "1"}
    data = ScenarioOrder(workshop.scenarios("a", "b"), shuffle=False)
    changes = {"train": data, "validation": held_out("x", schedule=EveryEpoch())}
    settings = {"groups_per_step": 1, "num_epochs": 2}
    with pytest.raises(DyingError):
        await workshop.trainer(backend=Dying(workshop.server, before=2), settings=settings, **changes).run()

    await workshop.trainer(settings=settings, **changes).run()

    assert [row["step"] for row in workshop.rows("val")] == [1, 2]


async def test_whether_to_stop_is_asked_again_for_the_last_step_of_a_session_that_died(workshop: Any) -> None:
    """Else a run that was about to stop would train on."""
    seen = []

    def stop(progress: Any, metrics: Any) -> str | None:
        seen.append((progress.step, metrics["train/reward"]))
        if len(seen) == 1:
            raise DyingError
        return "good enough" if progress.step == 1 else None

    with pytest.raises(DyingError):
        await workshop.trainer(stop_when=stop).run()

    report = await workshop.trainer(stop_when=stop).run()

    assert seen == [(1, 0.5), (1, 0.5)]
    assert report.reason == "nothing to do: stopped: good enough"


class Endless(Iterator[Any]):
    """A source that can be brought to any place."""

    def __init__(self, make: Callable[..., list[Any]]) -> None:
        self._make, self._next = make, 0

    def seek(self, number: int) -> None:
        self._next = number

    def __next__(self) -> Any:
        self._next += 1
        return self._make(f"s{self._next - 1}")[0]


async def test_an_open_ended_source_with_seek_resumes(workshop: Any) -> None:
    """It is brought to the item where the run goes on."""
    await workshop.trainer(train=Endless(workshop.scenarios), settings={"max_steps": 2}).run()
    first = workshop.trained_ids()

    await workshop.trainer(train=Endless(workshop.scenarios), settings={"max_steps": 3}).run()

    assert first + workshop.trained_ids() == [["s0", "s1"], ["s2", "s3"], ["s4", "s5"]]


async def test_an_open_ended_source_without_seek_is_refused_on_resume(workshop: Any) -> None:
    """It would begin again, and its first scenarios be trained on twice."""
    names = [f"s{number}" for number in range(9)]
    await workshop.trainer(train=iter(workshop.scenarios(*names)), settings={"max_steps": 1}).run()

    with pytest.raises(ResumeError, match=r"the source stands at item 0, .* seek"):
        await workshop.trainer(train=iter(workshop.scenarios(*names)), settings={"max_steps": 2}).run()

    assert workshop.backend.calls("train") == ()


async def test_an_open_ended_source_that_ends_ends_the_run(workshop: Any) -> None:
    """The last batch may be short, and is trained on."""
    report = await workshop.trainer(train=iter(workshop.scenarios("a", "b", "c")), settings={"max_steps": 9}).run()

    assert workshop.trained_ids() == [["a", "b"], ["c"]]
    assert report.reason == "finished: all batches were trained"


async def test_a_second_trainer_on_the_same_run_is_refused(workshop: Any) -> None:
    """Two processes would train each batch twice, and neither journal would be true."""
    directory = workshop.model_dir / "artkit"
    directory.mkdir(parents=True)

    with FileLock(directory / "lock"), pytest.raises(ResumeError, match="another process is running this run"):
        await workshop.trainer().run()

    assert (await workshop.trainer().run()).steps == 2


HOLD = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print('held', flush=True); input()"


async def test_another_process_that_holds_the_run_keeps_it(workshop: Any) -> None:
    """The lock is the operating system's, and goes with the process that holds it."""
    directory = workshop.model_dir / "artkit"
    directory.mkdir(parents=True)
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, directory / "lock", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout
    assert await holder.stdout.readline() == b"held\n"

    with pytest.raises(ResumeError, match="another process is running this run"):
        await workshop.trainer().run()
    holder.kill()
    await holder.wait()

    assert (await workshop.trainer().run()).steps == 2


async def test_a_run_that_is_held_is_refused_before_its_backend_is_opened(workshop: Any) -> None:
    """Opening may start a server on the GPU that the other process uses; and the place is the backend's own."""

    class Local(DiaryBackend):
        def __init__(self, server: Any) -> None:
            super().__init__(server)
            self._path = str(workshop.directory / "elsewhere")

        async def register(self, model: Any) -> None:
            model.base_path = self._path
            await super().register(model)

    directory = workshop.directory / "elsewhere" / "workshop" / "models" / "agent" / "artkit"
    directory.mkdir(parents=True)

    with FileLock(directory / "lock"), pytest.raises(ResumeError, match="another process is running this run"):
        await workshop.trainer(backend=Local(workshop.server)).run()
    refused = [entry.call for entry in workshop.backend.diary]

    report = await workshop.trainer(backend=Local(workshop.server)).run()

    assert refused == ["close"]
    assert (report.steps, (directory / "journal.jsonl").exists()) == (2, True)


async def test_a_time_out_of_another_lock_is_not_taken_for_that_of_the_run(workshop: Any) -> None:
    """Rollouts and stop conditions lock files of their own."""

    def stop(progress: Any, metrics: Any) -> str | None:
        raise Timeout("somebody's")

    with pytest.raises(Timeout):
        await workshop.trainer(stop_when=stop).run()


async def test_a_run_goes_on_in_the_same_process_with_the_same_trainer(workshop: Any) -> None:
    """A notebook's cell is run twice: the backend is opened again, and closed again."""
    trainer = workshop.trainer(checkpoint_policy=KeepLatest())

    reports = [await trainer.run(), await trainer.run()]

    assert [report.steps for report in reports] == [2, 2]
    assert [entry.call for entry in workshop.backend.diary if entry.call in {"register", "close"}] == [
        "register",
        "close",
    ] * 2
