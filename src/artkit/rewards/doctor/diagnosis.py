"""What the reward doctor found: values for code, a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.rewards.doctor.figures import RewardFigures

__all__ = ["RewardDiagnosis"]

# Chance agrees on half of the pairs; below four in five, every fifth comparison is one of the order.
_MIN_AGREEMENT = 0.8
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardDiagnosis:
    """What `diagnose_reward` found; `str()` of it is a table.

    Attributes:
        reward: The reward in words.
        figures: Of the episodes as they are.
        unscored: How many of the episodes could not be scored, by their cause, the most frequent first.
        do_nothing: The mean score of doing nothing: an empty reply to each scenario. None if it was never scored.
        nothing_unscored: Why it was never scored; None if it was, or if the reward is the environment's own, for that
            was not played.
        episodes_beside: The mean score of the episodes that doing nothing was compared with.
        gold: The mean score of the known-good episodes; None if there were none, or none was scored.
        gold_losses: The scenarios whose known-good episode is unscored, or scores no higher than doing nothing.
        order_agreement: For a relative reward, the share of pairs that are ranked the same way when the order of
            presentation is reversed. None for an absolute one, or without pairs.
    """

    reward: str
    figures: RewardFigures
    unscored: Mapping[str, int]
    do_nothing: float | None
    episodes_beside: float | None
    gold: float | None
    gold_losses: tuple[str, ...]
    order_agreement: float | None
    nothing_unscored: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong, in words; none is no proof that nothing is."""
        found = []
        if self.unscored:
            count = sum(self.unscored.values())
            found.append(f"{count} of {count + self.figures.members} episodes could not be scored")
        if self.nothing_unscored is not None:
            found.append(
                f"doing nothing could not be scored ({self.nothing_unscored}): such an episode escapes its reward, "
                "instead of losing; unless that is because this one, an empty reply that was not played, has no outcome"
            )
        if self.do_nothing is not None and self.episodes_beside is not None and self.do_nothing > self.episodes_beside:
            found.append(f"doing nothing scores {self.do_nothing:g}, the episodes {self.episodes_beside:g} on average")
        if self.gold_losses:
            names = ", ".join(self.gold_losses[:_SHOWN]) + (", …" if len(self.gold_losses) > _SHOWN else "")
            found.append(f"the known-good episode does not beat doing nothing in {len(self.gold_losses)}: {names}")
        if self.order_agreement is not None and self.order_agreement < _MIN_AGREEMENT:
            found.append(
                f"with the order reversed, the judge agrees with itself on {self.order_agreement:.0%} of pairs"
            )
        return (*found, *self.figures.warnings)

    def __str__(self) -> str:
        figures = self.figures
        rows = [
            ("episodes scored", f"{figures.members}, in {figures.groups} groups of two or more"),
            ("not scored", f"{sum(self.unscored.values())}"),
            *(
                ("  once" if count == 1 else f"  {count} times", cause)
                for cause, count in list(self.unscored.items())[:_SHOWN]
            ),
            ("range", "-" if figures.low is None else f"{figures.low:g} to {figures.high:g}, mean {figures.mean:.3g}"),
            ("known-good episodes", _number(self.gold)),
            ("doing nothing", _number(self.do_nothing)),
            ("groups of equal rewards", _share(figures.equal_share)),
            ("correlation with length", _number(figures.length_correlation, "+.2f")),
            *((f"part {name!r}", f"{share:.0%} of the differences") for name, share in figures.part_shares.items()),
            ("agreement, order reversed", _share(self.order_agreement)),
        ]
        width = max(len(name) for name, _ in rows)
        table = [f"{name:<{width}}  {value}" for name, value in rows]
        notes = [f"! {warning}" for warning in self.warnings] or ["nothing looks wrong"]
        return "\n".join([self.reward, *table, *notes])


def _number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else f"{value:{form}}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
