"""What is found out before anything is spent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import art
import pytest

from artkit import ConfigurationError, Every, KeepBest, Never, PromptScenario, RewardAdapter, Score, Validation
from artkit.testing import DiaryBackend


class Judging(RewardAdapter):
    """A reward that asks a service, as an OpenAI judge does."""

    relative = True
    required_environment = ("OPENAI_API_KEY",)

    async def score(self, group: art.TrajectoryGroup) -> Sequence[Score]:
        return [Score(float(number)) for number in range(len(group.trajectories))]


class ServerlessBackend(DiaryBackend):
    """What is asked for goes by the name of the class."""


class TinkerNativeBackend(DiaryBackend):
    """Likewise."""


@pytest.mark.parametrize(
    ("kind", "variable"), [(ServerlessBackend, "WANDB_API_KEY"), (TinkerNativeBackend, "TINKER_API_KEY")]
)
async def test_a_key_that_the_backend_needs_is_asked_for_before_anything_is_spent(
    workshop: Any, kind: type[DiaryBackend], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found after the first rollouts it has cost them."""
    with pytest.raises(ConfigurationError, match=f"{variable} is not set, and {kind.__name__} needs it"):
        await workshop.trainer(backend=kind(workshop.server)).run()
    before = list(workshop.answers.asked)

    monkeypatch.setenv(variable, "made-up")
    report = await workshop.trainer(backend=kind(workshop.server)).run()

    assert (before, report.steps) == ([], 2)


async def test_a_key_that_a_judge_needs_is_asked_for_before_anything_is_spent(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Also where only the validation has that judge."""
    for changes in ({"reward": Judging()}, {"validation": held_out(reward=Judging())}):
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set, and Judging needs it"):
            await workshop.trainer(**changes).run()

    assert workshop.answers.asked == []


async def test_nothing_else_is_demanded(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on a backend of one's own needs no account anywhere."""
    for name in ("WANDB_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "TINKER_API_KEY", "HOME"):
        monkeypatch.delenv(name, raising=False)

    assert (await workshop.trainer().run()).steps == 2


async def test_a_serverless_backend_with_a_key_but_no_variable_is_refused_before_anything_is_sent(
    workshop: Any,
) -> None:
    """ART reads the variable in more places than its constructor."""
    backend = art.ServerlessBackend(api_key="made-up", base_url="http://127.0.0.1:9/v1")

    with pytest.raises(ConfigurationError, match="WANDB_API_KEY is not set, and ServerlessBackend needs it"):
        await workshop.trainer(backend=backend).run()

    assert backend._client.is_closed()


@pytest.mark.timeout(180)  # it imports ART in a process of its own
def test_a_script_on_serverless_without_a_key_stops_at_once_and_names_the_variable(tmp_path: Any) -> None:
    """Its own constructor says so; nothing was imported, sampled or sent before."""
    script = "import art\nart.ServerlessBackend()\n"

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "WANDB_API_KEY" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("epsilom", r"DiaryBackend.train takes no such option .*did you mean 'epsilon'\?.* it takes epsilon, .*ppo"),
        ("zzz", r"it takes epsilon, epsilon_high, kl_penalty_coef, ppo, scale_rewards, verbose"),
        ("learning_rate", r"give it as TrainerSettings\(learning_rate="),
    ],
)
async def test_a_wrong_option_for_train_is_refused_before_the_first_rollout_and_the_right_ones_named(
    workshop: Any, option: str, message: str
) -> None:
    """The backend would say so after the rollouts of a step were paid for."""
    with pytest.raises(ConfigurationError, match=message):
        await workshop.trainer(settings={"train_options": {option: 1.0}}).run()

    assert workshop.answers.asked == []


async def test_a_value_that_the_backend_would_refuse_is_refused_before_the_first_rollout(workshop: Any) -> None:
    """A backend that can be asked is asked, with the learning rate that it will get."""
    asked = []

    class Strict(DiaryBackend):
        def check_train_options(self, options: Mapping[str, object]) -> None:
            asked.append(dict(options))
            raise ConfigurationError("epsilon=-1 is negative", "try 0.2")

    options = {"learning_rate": 0.5, "train_options": {"epsilon": -1}}
    with pytest.raises(ConfigurationError, match="epsilon=-1 is negative"):
        await workshop.trainer(backend=Strict(workshop.server), settings=options).run()

    assert (asked, workshop.answers.asked) == ([{"learning_rate": 0.5, "epsilon": -1}], [])


async def test_options_of_a_backend_that_takes_any_are_passed_on(workshop: Any) -> None:
    """Megatron's and Tinker's backends take `**kwargs`: only they know."""
    seen = []

    class Open(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0, **options: Any) -> Any:
            seen.append(options)
            return await super().train(model, groups, learning_rate=learning_rate)

    await workshop.trainer(backend=Open(workshop.server), settings={"max_steps": 1, "train_options": {"x": 1}}).run()

    assert seen == [{"x": 1}]


async def test_a_scenario_that_is_trained_and_validated_on_is_refused(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """What was trained on says nothing about the rest."""
    with pytest.raises(ConfigurationError, match="1 scenarios of validation 'val' are trained on too, such as 'a'"):
        await workshop.trainer(validation=held_out("a", "x")).run()


async def test_a_task_that_is_trained_on_under_another_id_is_refused(workshop: Any) -> None:
    """The model learns what is asked, not what it is called."""
    twin = PromptScenario(id="twin", messages=[{"role": "user", "content": "a"}])

    with pytest.raises(ConfigurationError, match="such as 'twin', which is 'a' in the training data"):
        await workshop.trainer(validation=Validation([twin])).run()


async def test_two_validations_of_one_name_are_refused(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """One would overwrite the other's rows."""
    with pytest.raises(ConfigurationError, match="two validations share a name"):
        await workshop.trainer(validation=[held_out(), held_out("z")]).run()


async def test_a_relative_reward_needs_siblings_in_validation_too(
    workshop: Any, held_out: Callable[..., Validation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, an episode is the best and the worst of its group."""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")

    with pytest.raises(ConfigurationError, match="rollouts_per_group=1 leaves a relative reward nothing to compare"):
        await workshop.trainer(reward=Judging(), settings={"rollouts_per_group": 1}).run()
    with pytest.raises(ConfigurationError, match="rollouts_per_scenario=1 leaves a relative reward nothing"):
        await workshop.trainer(reward=Judging(), validation=held_out(rollouts_per_scenario=1)).run()
    report = await workshop.trainer(reward=Judging(), validation=held_out()).run()

    assert report.steps == 2
    assert workshop.answers.asked.count("x") == 2


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("reward", r"ranks by 'reward', which no validation will log .*val/reward"),
        ("val/hard/reward", r"the validations log val/reward, val/easy/reward"),
    ],
)
async def test_a_metric_that_no_validation_logs_is_refused_with_those_that_are(
    workshop: Any, held_out: Callable[..., Validation], metric: str, message: str
) -> None:
    """A policy that never finds its metric never deletes, and the disk fills up."""
    validations = [held_out(), held_out("z", name="easy"), held_out("w", name="never", schedule=Never())]

    with pytest.raises(ConfigurationError, match=message):
        await workshop.trainer(validation=validations, checkpoint_policy=KeepBest(metric)).run()


async def test_a_further_validation_s_metric_ranks(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Any metric that is logged may rank."""
    workshop.answers.replies = {"z": ["3", "1"]}
    validations = [held_out(schedule=Every(1)), held_out("z", name="easy", schedule=Every(1))]

    report = await workshop.trainer(validation=validations, checkpoint_policy=KeepBest("val/easy/reward")).run()

    assert (report.best_step, report.best_value) == (1, 3.0)


async def test_a_model_that_cannot_be_trained_is_refused(workshop: Any) -> None:
    """An endpoint alone can be evaluated, not trained."""
    with pytest.raises(ConfigurationError, match="cannot be trained"):
        await workshop.trainer(model=workshop.server.model()).run()


async def test_another_spelling_of_a_task_that_is_trained_on_is_warned_about(workshop: Any) -> None:
    """It is no proof of a leak, as the same task is, and a split made elsewhere has many."""
    spelt = PromptScenario(id="x", messages=[{"role": "user", "content": "A."}])

    (warning,) = workshop.trainer(validation=Validation([spelt])).plan().warnings

    assert warning.startswith("1 scenarios of validation 'val' differ from what is trained on in their spelling alone")
