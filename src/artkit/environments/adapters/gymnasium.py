"""Environments of `gymnasium` whose observations and actions can be said in words."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from pydantic import Field

from artkit.environments.adapters.counted import counted_seeds, name_with
from artkit.environments.adapters.optional_module import optional_module
from artkit.environments.environment import Environment
from artkit.environments.step_result import StepResult
from artkit.errors import ConfigurationError
from artkit.scenarios import Scenario

if TYPE_CHECKING:
    from artkit.environments.action import Action

__all__ = ["GymnasiumEnvironment", "GymnasiumScenario", "gymnasium_scenarios"]


class GymnasiumScenario(Scenario):
    """One episode of a Gymnasium environment.

    Attributes:
        seed: What `reset` is seeded with.
        options: The options of `reset`.
    """

    seed: int = Field(ge=0)
    options: dict[str, Any] | None = None


def gymnasium_scenarios(
    name: str, *, count: int, seed: int = 0, options: Mapping[str, Any] | None = None
) -> list[GymnasiumScenario]:
    """Return `count` episodes, seeded from `seed` on.

    Args:
        name: What their ids begin with, such as "FrozenLake-v1"; which environment is played, `make` says.
        count: How many episodes.
        seed: Of the first; each next one has the next seed.
        options: The options of `reset`, the same for all.

    Raises:
        ConfigurationError: `count` or `seed` is none.

    >>> [(scenario.id, scenario.seed) for scenario in gymnasium_scenarios("lake", count=2, seed=5)]
    [('lake-5', 5), ('lake-6', 6)]
    """
    own = dict(options) if options is not None else None
    begins = name_with(name, options=own)
    return [
        GymnasiumScenario(id=f"{begins}-{number}", seed=number, options=own) for number in counted_seeds(count, seed)
    ]


class GymnasiumEnvironment(Environment[GymnasiumScenario]):
    """Plays a Gymnasium environment by text. A subclass makes it, and says what is not text already.

    The first message is the instructions and the first observation. A reply that is no action is answered with the
    actions there are, counted in the metric `invalid_actions`, and moves nothing. The outcome says whether the
    environment terminated, or was truncated by a limit of its own. Its calls run on the event loop.

    Attributes:
        instructions: The task, in front of the first observation.
        actions: The words of a `Discrete` space in the order of its numbers, or the action that each word stands for.
            None means those numbers themselves, or any text that a `Text` space holds.
    """

    instructions: str = ""
    actions: Mapping[str, Any] | Sequence[str] | None = None

    _env: Any = None

    @abstractmethod
    def make(self) -> Any:
        """Return the Gymnasium environment; called once, at `reset`."""

    def describe(self, observation: Any) -> str:
        """Return what the model sees of an observation. The default knows texts and numbers of a `Discrete` space.

        Raises:
            ConfigurationError: It is something else.
        """
        if isinstance(observation, str | Integral):
            return str(observation)
        raise ConfigurationError(
            f"{type(self).__name__} observes {type(observation).__name__}, which is no text",
            "override describe(observation) to return what the model sees",
        )

    def parse(self, text: str) -> Any | None:
        """Return the action that a reply stands for, or None.

        The default is the last word of `actions` that the reply contains, whatever its case; without `actions`, the
        last number of a `Discrete` space, or the whole text.

        Raises:
            ConfigurationError: There are no `actions`, and the space is neither `Discrete` nor `Text`.
        """
        space = self._env.action_space
        spaces = optional_module("gymnasium.spaces", extra="gymnasium")
        if self.actions is not None:
            # The longest first: "north" is no answer where "north west" was said.
            words = sorted(self.actions, key=len, reverse=True)
            pairs = self.actions.items() if isinstance(self.actions, Mapping) else _numbered(self.actions, space)
            known = {word.casefold(): action for word, action in pairs}
            said = re.findall(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", text, flags=re.IGNORECASE)
            # Some letters are found by another one that does not fold to it (a dotless i).
            return known.get(said[-1].casefold()) if said else None
        if isinstance(space, spaces.Text):
            return text if space.contains(text) else None
        if isinstance(space, spaces.Discrete):
            # No number of a space is longer, and Python itself refuses those of thousands of digits.
            numbers = re.findall(r"(?<![\w.])-?\d{1,18}(?![\w.]*\d)", text)
            return int(numbers[-1]) if numbers and space.contains(int(numbers[-1])) else None
        raise ConfigurationError(
            f"{type(self).__name__} acts in {space!r}, which has no words", "give actions, or override parse(text)"
        )

    async def reset(self, scenario: GymnasiumScenario) -> str:
        optional_module("gymnasium", extra="gymnasium")
        self._env = self.make()
        observation, _ = self._env.reset(seed=scenario.seed, options=scenario.options)
        return "\n\n".join(filter(None, [self.instructions, self.describe(observation)]))

    async def step(self, action: Action) -> StepResult:
        parsed = self.parse(action.text)
        if parsed is None:
            return StepResult(self._refusal(), metrics={"invalid_actions": 1})
        observation, reward, terminated, truncated, _ = self._env.step(parsed)
        done = bool(terminated or truncated)
        return StepResult(
            self.describe(observation),
            done=done,
            reward=float(reward),
            metrics={"invalid_actions": 0},
            outcome={"terminated": bool(terminated), "truncated": bool(truncated)} if done else None,
        )

    async def close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _refusal(self) -> str:
        if self.actions is not None:
            return f"That is no action. Say one of: {', '.join(self.actions)}."
        space = self._env.action_space
        if hasattr(space, "n"):
            return f"That is no action. Say a number from {space.start} to {space.start + space.n - 1}."
        return f"That is no action. Say a text that fits {space!r}."


def _numbered(words: Sequence[str], space: Any) -> list[tuple[str, int]]:
    return [(word, number) for number, word in enumerate(words, start=int(getattr(space, "start", 0)))]
