"""Which replies a check plays in which scenarios."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from openai.types.chat.chat_completion import Choice

from artkit.environments.check.playing import Case
from artkit.environments.check.replies import Reply, Script, as_choice
from artkit.episodes import Recordings, iter_episodes
from artkit.errors import ConfigurationError

__all__ = ["make_cases"]

_MAX_RECORDED = 2


def make_cases(
    scenarios: Iterable[Any],
    *,
    actions: Sequence[Reply] | Callable[[Any], Sequence[Reply]],
    recordings: Recordings,
    seed: int,
    max_scenarios: int,
    scripts: int,
) -> list[Case]:
    """Return the cases of each scenario, scenario by scenario; they share a copy of it, as the members of a group do.

    Args:
        scenarios: The first `max_scenarios` of these are played.
        actions: As for `check_environment`.
        recordings: As for `check_environment`.
        seed: As for `check_environment`.
        max_scenarios: As for `check_environment`.
        scripts: How many series of random replies each scenario gets.

    Raises:
        ConfigurationError: There is no scenario, or an action is no reply.
    """
    chosen = [_copy(scenario) for scenario in itertools.islice(scenarios, max_scenarios)]
    if not chosen:
        raise ConfigurationError("there is no scenario to play", "give at least one")
    recorded = _recorded(recordings, {str(getattr(scenario, "id", "")) for scenario in chosen})
    cases = []
    for number, scenario in enumerate(chosen):
        given = actions(scenario) if callable(actions) else actions
        if isinstance(given, str):
            raise ConfigurationError(f"actions={given!r} is not a sequence of replies", f"write actions=[{given!r}]")
        samples = [as_choice(reply) for reply in given]
        name = f"{seed}/{number}/{getattr(scenario, 'id', '')}"
        series = [samples] if samples else []
        series += recorded[str(getattr(scenario, "id", ""))]
        # The last begins with a reply that says nothing: a model's often does, and few who write a `step` think of it.
        series += [[]] * scripts if scripts == 1 else [*[[]] * (scripts - 1), [as_choice("")]]
        cases += [
            Case(scenario=scenario, script=Script(f"{name}/{n}", scenario, replies, samples))
            for n, replies in enumerate(series)
        ]
    return cases


def _recorded(recordings: Recordings, ids: set[str]) -> dict[str, list[list[Choice]]]:
    """Return the replies of the first recorded episodes of each scenario."""
    found: dict[str, list[list[Choice]]] = defaultdict(list)
    for episode in iter_episodes(recordings):
        scenario_id = str(episode.metadata.get("scenario_id", ""))
        replies = [turn for turn in episode.messages_and_choices if isinstance(turn, Choice)]
        if scenario_id in ids and replies and len(found[scenario_id]) < _MAX_RECORDED:
            found[scenario_id].append(replies)
    return found


def _copy(scenario: Any) -> Any:
    try:
        return copy.deepcopy(scenario)
    except Exception:  # noqa: BLE001  # a scenario may hold what cannot be copied, and is then played itself
        return scenario
