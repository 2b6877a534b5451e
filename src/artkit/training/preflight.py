"""What can be found out before anything is spent."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from artkit.backends import required_environment
from artkit.bridge import check_wandb, train_options, why_no_overlap
from artkit.errors import ConfigurationError
from artkit.rollouts import TaskRollout, rollouts_of, takes_sampling
from artkit.scenarios import find_leaks
from artkit.training.parts import is_relative
from artkit.training.validating import rollouts_per_scenario
from artkit.validation import Never

if TYPE_CHECKING:
    from artkit.training.parts import Parts

__all__ = ["check", "check_validations", "warnings_of"]


def check(parts: Parts) -> None:
    """Refuse what cannot work.

    Raises:
        ConfigurationError: The first thing that was found.
    """
    _check_model(parts)
    check_wandb(parts.model)
    _check_variables(parts)
    _check_train_options(parts)
    _check_overlap(parts)
    check_validations(parts)
    if is_relative(parts.reward) and parts.settings.rollouts_per_group < 2:
        raise ConfigurationError("rollouts_per_group=1 leaves a relative reward nothing to compare", "give at least 2")
    _check_logged(parts)


def check_validations(parts: Parts) -> None:
    """Refuse validations that cannot work.

    Raises:
        ConfigurationError: The first thing that was found.
    """
    _check_splits(parts)
    _check_tasks(parts)
    _check_relative(parts)
    _check_samples(parts)


def warnings_of(parts: Parts) -> Iterator[str]:
    """Yield what works but is seldom meant."""
    yield from _near_leaks(parts)
    if parts.settings.rollouts_per_group == 1:
        yield "rollouts_per_group=1: a group of one has advantage 0, so nothing will be learned; give at least 2"
    if parts.settings.max_extra_groups and parts.filters is None:
        yield f"max_extra_groups={parts.settings.max_extra_groups} does nothing: with filters=None no group is dropped"
    if parts.settings.max_staleness and not parts.settings.lead:
        yield (
            "max_staleness=1 overlaps nothing: what max_extra_groups leaves over is trained on one step later, which "
            "takes that step; give max_staleness=2"
        )
    for task, rollout in rollouts_of(parts.rollout).items():
        sampling = rollout.sampling
        if sampling.temperature != 1 or sampling.top_p != 1:
            who = f"training of task {task!r}" if task else "training"
            yield (
                f"{who} samples at temperature {sampling.temperature} and top_p {sampling.top_p}: "
                "ART's importance ratios assume 1 and 1"
            )
    if parts.validations and is_relative(parts.reward_of(parts.validations[0])):
        policy, stop_when = parts.checkpoint_policy, parts.stop_when
        reward = {"val/reward", "val/reward_low", "val/reward_high"}
        because = "a relative reward: its val/reward says which sibling was better, not whether the model is"
        if policy.ranks_by & reward:
            yield f"{policy!r} ranks by {because}"
        if stop_when is not None and stop_when.reads & reward:
            yield f"{stop_when!r} goes by {because}"


def _check_model(parts: Parts) -> None:
    if not getattr(parts.model, "trainable", False):
        raise ConfigurationError(
            f"model={parts.model!r} cannot be trained",
            "make it by make_trainable_model(…), or as an art.TrainableModel",
        )


def _check_variables(parts: Parts) -> None:
    needed = {name: type(parts.backend).__name__ for name in required_environment(parts.backend)}
    rewards = [parts.reward, *(parts.reward_of(validation) for validation in parts.validations)]
    for reward in rewards:
        for name in getattr(reward, "required_environment", ()):
            needed.setdefault(name, type(reward).__name__)
    for name, who in needed.items():
        if not os.environ.get(name):
            raise ConfigurationError(
                f"the environment variable {name} is not set, and {who} needs it",
                f"export {name}=… before the run, or put it into the .env file that ART loads",
            )


def _check_train_options(parts: Parts) -> None:
    taken = train_options(parts.backend)
    given = parts.settings.train_options
    if "learning_rate" in given:
        raise ConfigurationError("train_options holds learning_rate", "give it as TrainerSettings(learning_rate=…)")
    if not taken.accepts_any:
        _check_option_names(parts, taken.names)
    # A backend that can tells which values it would refuse, before the first rollouts are paid for.
    if (check_values := getattr(parts.backend, "check_train_options", None)) is not None:
        check_values({"learning_rate": parts.settings.learning_rate, **given})


def _check_overlap(parts: Parts) -> None:
    staleness = parts.settings.max_staleness
    if staleness and (why := why_no_overlap(parts.backend, parts.model)) is not None:
        raise ConfigurationError(f"max_staleness={staleness} overlaps nothing: {why}", "give max_staleness=0")


def _check_option_names(parts: Parts, taken: frozenset[str]) -> None:
    backend = type(parts.backend).__name__
    for name in parts.settings.train_options:
        if name not in taken:
            right = sorted(taken - {"learning_rate"})
            near = difflib.get_close_matches(name, right, n=1)
            first = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigurationError(
                f"train_options[{name!r}]: {backend}.train takes no such option",
                f"{first}it takes {', '.join(right) or 'none'}",
            )
    if "learning_rate" not in taken:
        raise ConfigurationError(
            f"{backend}.train takes no learning_rate", "give a backend whose train follows ART's protocol"
        )


def _check_splits(parts: Parts) -> None:
    names = [validation.name for validation in parts.validations]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"two validations share a name: {names!r}", "give each its own name=")
    for validation in parts.validations:
        if leaks := find_leaks(parts.feed.scenarios, validation.scenarios):
            in_train, in_validation = leaks[0]
            known_as = "" if in_train == in_validation else f", which is {in_train!r} in the training data"
            raise ConfigurationError(
                f"{len(leaks)} scenarios of validation {validation.name!r} are trained on too, such as "
                f"{in_validation!r}{known_as}",
                "hold them out of the training data: split_scenarios does",
            )


def _near_leaks(parts: Parts) -> Iterator[str]:
    """Other spellings of a task that is trained on are no proof of a leak, as the same task is."""
    for validation in parts.validations:
        if leaks := find_leaks(parts.feed.scenarios, validation.scenarios, match="normalised"):
            in_train, in_validation = leaks[0]
            yield (
                f"{len(leaks)} scenarios of validation {validation.name!r} differ from what is trained on in their "
                f"spelling alone, such as {in_validation!r} from {in_train!r}: split_scenarios keeps them together"
            )


def _check_tasks(parts: Parts) -> None:
    """What is held out is seldom part of the mixture that names the tasks."""
    for rollout, scenarios in parts.played:
        if isinstance(rollout, TaskRollout):
            for scenario in scenarios:
                rollout.find(scenario)


def _check_relative(parts: Parts) -> None:
    for validation in parts.validations:
        reward = parts.reward_of(validation)
        if is_relative(reward) and rollouts_per_scenario(validation, reward, parts.settings) < 2:
            raise ConfigurationError(
                f"validation {validation.name!r}: rollouts_per_scenario=1 leaves a relative reward nothing to compare",
                "give at least 2, or None for rollouts_per_group",
            )


def _check_samples(parts: Parts) -> None:
    for validation in parts.validations:
        if validation.sampling is not None and not takes_sampling(validation.rollout or parts.rollout):
            raise ConfigurationError(
                f"validation {validation.name!r}: sampling= does not reach a rollout function",
                "let the function sample so itself, and give the validation that function as rollout=",
            )
        rollouts = rollouts_per_scenario(validation, parts.reward_of(validation), parts.settings)
        if any(k > rollouts for k in validation.pass_at or ()):
            raise ConfigurationError(
                f"validation {validation.name!r}: pass_at={validation.pass_at!r} with {rollouts} rollouts per scenario",
                f"give rollouts_per_scenario={max(validation.pass_at or ())}",
            )


def _check_logged(parts: Parts) -> None:
    """What checkpoints are ranked by must get logged, else none would ever be deleted; so must what ends the run."""
    policy, stop_when = parts.checkpoint_policy, parts.stop_when
    _check_metrics(parts, policy.ranks_by, f"{policy!r} ranks by", "use KeepLatest(…)")
    if stop_when is not None:
        _check_metrics(parts, stop_when.reads, f"{stop_when!r} reads", "leave that condition out")


def _check_metrics(parts: Parts, metrics: frozenset[str], who: str, otherwise: str) -> None:
    logged = {
        "val" if number == 0 else f"val/{validation.name}": validation
        for number, validation in enumerate(parts.validations)
        if not isinstance(validation.schedule, Never)
    }
    for metric in sorted(metrics):
        owner, _, name = metric.rpartition("/")
        # What else a backend logs is not known here; where it does not come, nothing is deleted, and that is said.
        if owner and not (owner == "val" or owner.startswith("val/")):
            continue
        if owner not in logged:
            near = [f"{validation}/{name}" for validation in logged]
            raise ConfigurationError(
                f"{who} {metric!r}, which no validation will log",
                f"the validations log {', '.join(near) or 'nothing'}; add a Validation, or {otherwise}",
            )
