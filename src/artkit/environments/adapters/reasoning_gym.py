"""The tasks of `reasoning-gym`, with its own scoring."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artkit.environments.adapters.counted import counted_seeds, name_with
from artkit.environments.adapters.optional_module import optional_module
from artkit.errors import ConfigurationError, RewardError
from artkit.scenarios import PromptScenario
from artkit.scenarios.content import content_digest

if TYPE_CHECKING:
    import art

__all__ = ["ReasoningGymScenario", "reasoning_gym_scenarios", "reasoning_gym_score"]

# By name and settings. Its seed and size don't matter to what an answer is worth.
_scorers: dict[str, Any] = {}


class ReasoningGymScenario(PromptScenario):
    """One task of a reasoning-gym dataset; `label` is its answer, where many may be right one of them.

    Attributes:
        dataset: The dataset's name.
        settings: Those of the dataset that are not its defaults.
        entry: The dataset's own entry, which its scoring reads: question, answer and metadata.
        answer_tag: The tag that the answer stands in; None where the whole reply is the answer.
    """

    dataset: str
    settings: dict[str, Any]
    entry: dict[str, Any]
    answer_tag: str | None = "answer"


def reasoning_gym_scenarios(
    dataset: str,
    *,
    count: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    system_prompt: str | None = None,
    answer_tag: str | None = "answer",
) -> list[ReasoningGymScenario]:
    """Return the tasks of a dataset, for `SingleTurnEnvironment` and `ProgrammaticReward(reasoning_gym_score)`.

    Most datasets make task number n of seed s from the number s + n, so that two seeds which lie near each other share
    most tasks. Make one list, and hold out a part of it by `split_scenarios`. A few datasets (word_ladder, knight_swap,
    ransom_note, isomorphic_strings, polynomial_multiplication) draw from sets: their tasks are the same in another
    process only with the same PYTHONHASHSEED, so a run over them resumes only with it.

    Args:
        dataset: Its name, such as "chain_sum".
        count: How many tasks.
        seed: The dataset's seed.
        settings: Further settings of the dataset, by name.
        system_prompt: What stands before each question. None is the package's own prompt, which asks for the answer in
            `<answer>` tags, or nothing without an `answer_tag`; "" is nothing.
        answer_tag: The tag that the answer is looked for in; None scores the whole reply.

    Raises:
        ConfigurationError: The package is not installed, or it knows no such dataset or setting; or `count` or `seed`
            is none.
    """
    counted_seeds(count, seed)
    own = dict(settings or {})
    tasks = _dataset(dataset, {**own, "size": count, "seed": seed})
    name = name_with(
        dataset,
        settings=own,
        system_prompt=system_prompt,
        answer_tag=None if answer_tag == "answer" else {"tag": answer_tag},
    )
    if system_prompt is None:
        prompts = optional_module("reasoning_gym.utils", extra="reasoning-gym").SYSTEM_PROMPTS
        system_prompt = "" if answer_tag is None else prompts["default"].replace("answer>", f"{answer_tag}>")
    before = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [
        ReasoningGymScenario(
            id=f"{name}-{seed}-{index}",
            messages=[*before, {"role": "user", "content": entry["question"]}],
            label=entry["answer"],
            dataset=dataset,
            settings=own,
            entry=entry,
            answer_tag=answer_tag,
        )
        for index, entry in enumerate(tasks[index] for index in range(count))
    ]


def reasoning_gym_score(episode: art.Trajectory) -> float:
    """Return what the dataset's own `score_answer` gives for the last reply, from 0 to 1.

    Raises:
        RewardError: The episode is not one of a `ReasoningGymScenario`.
    """
    scenario = getattr(episode, "scenario", None)
    if not isinstance(scenario, ReasoningGymScenario):
        raise RewardError(
            f"the episode's scenario is {scenario!r}, no task of reasoning-gym",
            "play scenarios of reasoning_gym_scenarios(…), and give them to a recording that is read back",
        )
    replies = [message for message in episode.messages() if message["role"] == "assistant"]
    said = str(replies[-1].get("content") or "") if replies else ""
    answer: str | None = said.strip()
    if scenario.answer_tag is not None:
        extract = optional_module("reasoning_gym.utils", extra="reasoning-gym").extract_answer
        answer = extract(said, scenario.answer_tag)
    return float(_scorer(scenario).score_answer(answer, scenario.entry))


def _scorer(scenario: ReasoningGymScenario) -> Any:
    key = f"{scenario.dataset} {content_digest(scenario.settings)}"
    if key not in _scorers:
        _scorers[key] = _dataset(scenario.dataset, scenario.settings)
    return _scorers[key]


def _dataset(name: str, settings: Mapping[str, Any]) -> Any:
    known = optional_module("reasoning_gym.factory", extra="reasoning-gym")
    if name not in known.DATASETS:
        near = difflib.get_close_matches(name, known.DATASETS, n=3) or sorted(known.DATASETS)[:3]
        raise ConfigurationError(f"reasoning-gym has no dataset {name!r}", f"did you mean {' or '.join(near)}?")
    try:
        return known.create_dataset(name, **settings)
    except (AssertionError, TypeError, ValueError) as error:  # how it refuses settings
        config = known.DATASETS[name][1]
        fields = ", ".join(field.name for field in dataclasses.fields(config) if field.name not in {"size", "seed"})
        raise ConfigurationError(
            f"reasoning-gym's {name} refuses {dict(settings)!r}: {error}", f"{config.__name__} has {fields}"
        ) from error
