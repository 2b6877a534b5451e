"""Examining a reward before anything is trained on it."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.episodes import Episode, StopReason
from artkit.errors import ConfigurationError
from artkit.rewards.doctor.diagnosis import RewardDiagnosis
from artkit.rewards.doctor.figures import reward_figures
from artkit.rewards.doctor.sorting import by_scenario, of_scenarios
from artkit.rewards.doctor.turned_round import turned_round
from artkit.rewards.environment_reward import EnvironmentReward
from artkit.rewards.reading import without_name
from artkit.rewards.reward_check import check_adapter
from artkit.rewards.score import ROUNDING
from artkit.rewards.turns import prompt
from artkit.rewards.weighted_reward import WeightedReward
from artkit.transport import first_failure_group

if TYPE_CHECKING:
    import art

    from artkit.rewards.adapter import RewardAdapter

__all__ = ["diagnose_reward"]


async def diagnose_reward(
    reward: RewardAdapter,
    episodes: Iterable[art.Trajectory | art.TrajectoryGroup],
    gold: Iterable[art.Trajectory | art.TrajectoryGroup] | None = None,
) -> RewardDiagnosis:
    """Score episodes, and some that are known to be good, and say what the reward really rewards.

    Copies are scored; the episodes stay as they are. The reward is asked twice about each scenario: about its episodes,
    and about doing nothing, an empty reply, beside its known-good episodes (and, if the reward is relative, beside the
    others). A relative one is asked a third time with the order of presentation reversed.

    Args:
        reward: The reward to examine.
        episodes: Played by the model that is to be trained, several per scenario, or groups of them, such as
            `read_groups` loads. Those of one scenario make a group: their `scenario_id` is the same in the metadata, or
            else their prompt.
        gold: Known-good episodes of some of these scenarios.

    Raises:
        ConfigurationError: `reward` is no `RewardAdapter`, there are no episodes, or a known-good one is of another
            scenario than all of them.
        Exception: What the reward raises, if its `on_error` says so.
    """
    check_adapter("reward", reward)
    groups = by_scenario(episodes)
    if not groups:
        raise ConfigurationError("there are no episodes to score", "play some scenarios first, several times each")
    golds = of_scenarios(gold or (), groups)
    plain = {name: _Probe.of(members) for name, members in groups.items()}
    probes = {
        name: _Probe.of([_do_nothing(members[0]), *golds.get(name, ()), *(members if reward.relative else ())])
        for name, members in groups.items()
    }
    turned = {name: _Probe.of(members) for name, members in groups.items() if reward.relative}
    jobs = [each.score(reward) for each in (*plain.values(), *probes.values())]
    jobs += [each.score(turned_round(reward)) for each in turned.values()]
    await _all(jobs)

    count = {name: len(golds.get(name, ())) for name in groups}
    nothing = {name: probe.rewards[0] for name, probe in probes.items()}
    best = {name: probe.rewards[1 : 1 + count[name]] for name, probe in probes.items()}
    beside = {
        name: probe.rewards[1 + count[name] :] if reward.relative else plain[name].rewards
        for name, probe in probes.items()
    }
    do_nothing = _mean(nothing.values())
    # What an environment pays for doing nothing is known only to those who play it.
    is_silent = do_nothing is not None or isinstance(reward, EnvironmentReward)
    unscored = () if is_silent else _most_common(probe.causes[0] for probe in probes.values())
    return RewardDiagnosis(
        reward=type(reward).__name__ if type(reward).__repr__ is object.__repr__ else repr(reward),
        figures=reward_figures(
            [each.group for each in plain.values()],
            weights=reward.weights if isinstance(reward, WeightedReward) else None,
        ),
        unscored=_most_common(cause for each in plain.values() for cause in each.causes),
        do_nothing=do_nothing,
        nothing_unscored=next(iter(unscored), None),
        episodes_beside=_mean(reward for rewards in beside.values() for reward in rewards),
        gold=_mean(reward for rewards in best.values() for reward in rewards),
        gold_losses=tuple(name for name in groups if any(not _beats(each, nothing[name]) for each in best[name])),
        order_agreement=_agreement([(plain[name].rewards, each.rewards) for name, each in turned.items()]),
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """Copies of some members, in a group that is scored."""

    members: Sequence[art.Trajectory]
    group: art.TrajectoryGroup

    @classmethod
    def of(cls, members: Sequence[art.Trajectory]) -> _Probe:
        import art

        copies = [_copy(member) for member in members]
        metadata = {"scenario_id": members[0].metadata["scenario_id"]} if "scenario_id" in members[0].metadata else {}
        return cls(copies, art.TrajectoryGroup(copies, metadata=metadata))

    async def score(self, reward: RewardAdapter) -> None:
        await reward(self.group)

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each member, None for one that could not be scored."""
        scored = {id(member) for member in self.group.trajectories}
        return [member.reward if id(member) in scored else None for member in self.members]

    @property
    def causes(self) -> list[str]:
        """Why members could not be scored, one cause each; equal ones read the same."""
        return [f"{record.type}: {without_name(record.message)}" for record in self.group.exceptions]


async def _all(jobs: Iterable[Any]) -> None:
    async with first_failure_group() as tasks:
        for job in jobs:
            tasks.create_task(job)


def _copy(trajectory: art.Trajectory) -> art.Trajectory:
    own = {"metrics": dict(trajectory.metrics), "metadata": dict(trajectory.metadata), "logs": list(trajectory.logs)}
    return trajectory.model_copy(update=own)


def _do_nothing(trajectory: art.Trajectory) -> Episode:
    """Return an episode of the same scenario in which the model said nothing; no environment was played for it."""
    metadata = {name: value for name, value in trajectory.metadata.items() if name != "failure_kind"}
    said_nothing = Episode(
        messages_and_choices=[*prompt(trajectory), {"role": "assistant", "content": ""}],
        tools=trajectory.tools,
        metadata=metadata | {"stop_reason": str(StopReason.DONE)},
        metrics={"turns": 1},
        scenario=getattr(trajectory, "scenario", None),
        stop_reason=StopReason.DONE,
    )
    return said_nothing.model_copy(update={"environment_reward": None})


def _beats(score: float | None, other: float | None) -> bool:
    return score is not None and (other is None or score > other + ROUNDING)


def _most_common(causes: Iterable[str]) -> dict[str, int]:
    """Count the causes, the most frequent first."""
    return dict(Counter(causes).most_common())


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _agreement(orders: Sequence[tuple[Sequence[float | None], Sequence[float | None]]]) -> float | None:
    """Return the share of pairs of one group that both scorings rank the same way."""
    agreed = []
    for before, after in orders:
        both = [(one, other) for one, other in zip(before, after, strict=True) if one is not None and other is not None]
        pairs: Iterable[tuple[tuple[float, float], tuple[float, float]]] = itertools.combinations(both, 2)
        agreed += [_sign(one[0] - two[0]) == _sign(one[1] - two[1]) for one, two in pairs]
    return statistics.fmean(agreed) if agreed else None


def _sign(difference: float) -> int:
    return 0 if abs(difference) <= ROUNDING else 1 if difference > 0 else -1
