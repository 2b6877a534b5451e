"""What the judge costs, and the cap on it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError, OutageError

if TYPE_CHECKING:
    from artkit.rewards.judges import JudgeReply
    from artkit.rewards.ruler.counts import JudgeCounts

__all__ = ["Spending", "book_metric"]

_SOURCE = "judge/ruler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Books every reply, the useless ones too.

    The cost goes to ART's metric `costs/<train or eval>/judge/ruler` where ART's cost context is active, as it is in a
    run of the Trainer; the tokens go to `data/step_judge_prompt_tokens` and `data/step_judge_completion_tokens`.

    Attributes:
        counts: Where the sums are kept.
        max_cost_usd: The cap, in US dollars; None is none.
    """

    counts: JudgeCounts
    max_cost_usd: float | None

    def check(self) -> None:
        """Stop where the cap is reached.

        Raises:
            OutageError: It is.
        """
        if self.max_cost_usd is not None and self.counts.cost_usd >= self.max_cost_usd:
            raise OutageError(
                f"the judge cost {self.counts.cost_usd:.4f} USD, and max_cost_usd={self.max_cost_usd:g} is reached",
                "raise max_cost_usd, or choose a cheaper judge, fewer rollouts or fewer validations",
            )

    def book(self, reply: JudgeReply) -> None:
        """Book one reply.

        Raises:
            ConfigurationError: There is a cap, and what the reply cost is unknown.
        """
        self.counts.prompt_tokens += reply.prompt_tokens
        self.counts.completion_tokens += reply.completion_tokens
        book_metric("data/step_judge_prompt_tokens", reply.prompt_tokens)
        book_metric("data/step_judge_completion_tokens", reply.completion_tokens)
        cost_usd = _book_cost(reply)
        if cost_usd is not None:
            self.counts.cost_usd += cost_usd
        elif self.max_cost_usd is not None:
            raise ConfigurationError(
                f"max_cost_usd={self.max_cost_usd:g} cannot be held: what a reply of the judge costs is unknown",
                "give EndpointJudge its prices, a JudgeReply its cost_usd, or the model its prices by "
                "model.metrics_builder().register_model_pricing(…)",
            )


def book_metric(name: str, value: float) -> None:
    """Add to a metric of ART's next row, where a cost context is active."""
    if (builder := _active_builder()) is not None:
        with contextlib.suppress(ValueError):  # ART cannot hold it beside what the user logs under a part of its name
            builder.add_metric(name, value)


def _book_cost(reply: JudgeReply) -> float | None:
    """Return what `reply` cost, by ART's prices where it has them, and book it."""
    builder = _active_builder()
    if reply.response is not None and reply.model:
        with contextlib.suppress(ValueError):  # ART knows no price
            pricing = builder or _own_builder()
            provider = reply.model.partition("/")[0]
            cost = pricing.add_response_cost(_SOURCE, reply.response, provider=provider, model_name=reply.model)
            if cost is not None:
                return float(cost)
    if reply.cost_usd is not None and builder is not None:
        with contextlib.suppress(ValueError):
            builder.add_cost(f"{builder.cost_context}/{_SOURCE}", reply.cost_usd)
    return reply.cost_usd


def _active_builder() -> Any:
    from art.metrics import MetricsBuilder

    try:
        return MetricsBuilder.get_active()
    except LookupError:
        return None


def _own_builder() -> Any:
    from art.metrics import MetricsBuilder

    return MetricsBuilder(cost_context="unlogged")
