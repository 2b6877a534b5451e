"""The RULER reward: a judge compares the members of a group."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from artkit.bridge.safe_values import safe_number
from artkit.errors import ConfigurationError, JudgeError, NothingToCompareError, OutageError, RewardError
from artkit.rewards.adapter import Answer, OnError, RewardAdapter, check_on_error
from artkit.rewards.judges import Judge, LiteLLMJudge, judge_name
from artkit.rewards.reading import Scored, Unscored
from artkit.rewards.ruler.asking import Asking
from artkit.rewards.ruler.counts import JudgeCounts
from artkit.rewards.ruler.lineup import Lineup
from artkit.rewards.ruler.prompt import prompt
from artkit.rewards.ruler.recent_failures import RecentFailures
from artkit.rewards.ruler.shared_calls import SharedCalls
from artkit.rewards.ruler.spending import Spending, book_metric
from artkit.rewards.ruler.verdict_cache import VerdictCache
from artkit.rewards.score import Score
from artkit.rewards.settings import check_count, check_positive
from artkit.transport import ConcurrencyLimit, RetryPolicy

if TYPE_CHECKING:
    import art

    from artkit.rewards.ruler.verdict import Judgement

__all__ = ["RulerReward"]

_DEFAULT_JUDGE = "openai/gpt-5.4"


class RulerReward(RewardAdapter):
    """Rewards each member with the score, in [0, 1], that a judge gives it beside its siblings.

    RULER is ART's idea: one judge sees all trajectories of a group, and GRPO needs no more than how they compare. The
    judge is shown what was said, called and answered, and how an episode broke off. Equal transcripts are judged once
    and score the same; a group with fewer than two distinct ones is not judged, and its members are left unscored.
    The order of the transcripts is shuffled, the same way for the same transcripts.

    A reply counts only if every transcript has exactly one score in [0, 1] in it: nothing is padded, clamped or matched
    by position. Otherwise the judge is told what was wrong and asked again. Where it fails for good, the members are
    left unscored. A judge that refuses us (401, 403), fails too often or costs too much stops the run.

    The reward a member had before is kept as its metric `independent_reward`; the score is also its `<name>_score`.

    Args:
        judge_model: The judge by its LiteLLM name.
        rubric: The grading standards; None is ART's default.
        judge: The judge itself, in place of a name: an `EndpointJudge` or any `async judge(messages) -> str`.
        extra_litellm_params: Further arguments of `litellm.acompletion`, such as `api_base`.
        name: Names the metric of the score; two such rewards in one `WeightedReward` need two names.
        seed: Shuffles the order of presentation; None shows the transcripts in the order of the members.
        show_pictures: Whether pictures are shown as pictures; else each is a short note of its type and size. None asks
            the judge: its `sees_pictures`, and litellm of a name.
        max_concurrent: Groups before the judge at once; None is no limit.
        request_timeout_s: The deadline of one request, in seconds; None is no limit.
        group_timeout_s: The deadline of one group, retries and re-asks included, in seconds; None is no limit.
        max_retries: How often one request is repeated that the transport lost (429, 5xx, time-outs).
        max_reasks: How often the judge is told what was wrong with its reply.
        retry_policy: How long to wait before a retry; None is `RetryPolicy()`.
        max_failure_rate: The share of the last 20 groups that the judge may fail on before the run stops.
        max_cost_usd: What the judge may cost before the run stops, in US dollars; requests that are out already are
            still paid for. None is no cap.
        max_cached_groups: How many verdicts are kept for groups that come again; 0 keeps none. Equal groups that come
            at the same time share one verdict in any case.
        on_error: What a judge that failed for good leads to.

    Attributes:
        counts: What judging came to so far.
        is_reversed: Whether the order of presentation is turned round.

    Raises:
        ConfigurationError: A setting that cannot work.

    Source:
        RULER, https://art.openpipe.ai/fundamentals/ruler; `art.rewards.ruler` of openpipe-art.
    """

    relative = True

    def __init__(
        self,
        judge_model: str = _DEFAULT_JUDGE,
        rubric: str | None = None,
        judge: Judge | None = None,
        *,
        extra_litellm_params: Mapping[str, object] | None = None,
        name: str = "ruler",
        seed: int | None = 0,
        show_pictures: bool | None = None,
        max_concurrent: int | None = 16,
        request_timeout_s: float | None = 120.0,
        group_timeout_s: float | None = 600.0,
        max_retries: int = 3,
        max_reasks: int = 2,
        retry_policy: RetryPolicy | None = None,
        max_failure_rate: float = 0.5,
        max_cost_usd: float | None = None,
        max_cached_groups: int = 10_000,
        on_error: OnError = "drop_member",
    ) -> None:
        _check_judge(judge_model, judge, extra_litellm_params)
        for setting, seconds in (("request_timeout_s", request_timeout_s), ("group_timeout_s", group_timeout_s)):
            if seconds is not None:
                check_positive(setting, seconds, "give seconds, or None for no limit")
        check_count("max_retries", max_retries, "give 0 for none")
        check_count("max_reasks", max_reasks, "give 0 for none")
        check_count("max_cached_groups", max_cached_groups, "give 0 for none")
        if max_concurrent is not None:
            check_count("max_concurrent", max_concurrent, "give at least 1, or None for no limit", least=1)
        if max_cost_usd is not None:
            check_positive("max_cost_usd", max_cost_usd, "give US dollars, or None for no cap")
        _check_text("name", name, 'give one such as "ruler"')
        if rubric is not None:
            _check_text("rubric", rubric, "give the grading standards in words, or None for ART's default")
        check_on_error(on_error)
        self.rubric = rubric
        self.name = name
        self.seed = seed
        self.show_pictures = show_pictures
        self.group_timeout_s = group_timeout_s
        self.on_error = on_error
        self.counts = JudgeCounts()
        self.is_reversed = False
        self.metric_names = (f"{name}_score",)
        self._limit = ConcurrencyLimit(max_concurrent)
        self._failures = RecentFailures(max_failure_rate)
        self._cache = VerdictCache(max_cached_groups)
        self._in_flight: SharedCalls[Mapping[str, Judgement]] = SharedCalls()
        self._ask = Asking(
            judge=judge or LiteLLMJudge(judge_model, extra_litellm_params),
            request_timeout_s=request_timeout_s,
            max_retries=max_retries,
            max_reasks=max_reasks,
            retry_policy=retry_policy or RetryPolicy(),
            spending=Spending(counts=self.counts, max_cost_usd=max_cost_usd),
            counts=self.counts,
        )

    @property
    def judge(self) -> Judge:
        """The judge; another one needs another reward, for this one's verdicts and counts are its."""
        return self._ask.judge

    @property
    def required_environment(self) -> tuple[str, ...]:  # type: ignore[override]  # another one of two keys may be set
        """The environment variables that the judge needs."""
        return tuple(getattr(self.judge, "required_environment", ()))

    def reversed_order(self) -> Self:
        """Return this reward with the order of presentation turned round: does the judge still say the same?

        It shares the judge, the limits, the cap and the counts.
        """
        other = copy.copy(self)
        other.is_reversed = not self.is_reversed
        return other

    async def score(self, group: art.TrajectoryGroup) -> list[Answer]:
        """Return the judge's score for each member; None, with the reason, for one that can't be judged.

        Raises:
            JudgeError: The judge failed for good.
            OutageError: Asking it again is useless: it refuses us, failed too often, or the cap is reached.
        """
        lineup = Lineup.of(group.trajectories)
        if reason := lineup.reason_not_to_judge:
            self.counts.groups_not_judged += 1
            alike = NothingToCompareError(reason, "more varied rollouts can be compared: is the temperature 0?")
            return [Score(None, explanation=why) if (why := _unread(member)) else alike for member in lineup.members]
        judgements = await self._judgements(lineup)
        return [
            Score(None, explanation=_unread(member))
            if isinstance(member, RewardError)
            else self._answer(judgements[lineup.transcripts[member].digest], trajectory)
            for member, trajectory in zip(lineup.members, group.trajectories, strict=True)
        ]

    async def preview(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        """Judge `group` and write nothing; see `RewardAdapter`. The reward that an unscored member had is kept."""
        results = await super().preview(group)
        return [
            result
            if isinstance(result, Scored)
            else dataclasses.replace(result, metrics={**result.metrics, **_independent(member)})
            for result, member in zip(results, group.trajectories, strict=True)
        ]

    async def _judgements(self, lineup: Lineup) -> Mapping[str, Judgement]:
        """Return the judgements by the digest of the transcript."""
        order = lineup.order(self.seed, is_reversed=self.is_reversed)
        rubric = _default_rubric() if self.rubric is None else self.rubric
        asked = json.dumps([lineup.digest, rubric, lineup.tools, self.seed, self.is_reversed], sort_keys=True)
        key = hashlib.sha256(asked.encode()).hexdigest()
        if (known := self._cache.get(key)) is not None:
            self.counts.groups_cached += 1
            return known
        is_shared = key in self._in_flight
        try:
            judgements = await self._in_flight.get(key, lambda: self._judged(lineup, order, rubric, key))
        except (JudgeError, OutageError) as error:
            if isinstance(error, JudgeError) or isinstance(error.__cause__, JudgeError):
                self.counts.judge_errors += 1
                book_metric("data/step_judge_errors", 1)
            # Several groups may have waited for it: each gets an error of its own.
            raise type(error)(error.problem, error.hint).with_traceback(error.__traceback__) from error.__cause__
        if is_shared:
            self.counts.groups_cached += 1
        else:
            self.counts.groups_judged += 1
        return judgements

    async def _judged(self, lineup: Lineup, order: list[str], rubric: str, key: str) -> Mapping[str, Judgement]:
        """Ask the judge, and keep what it says."""
        try:
            verdict = await self._verdict(lineup, order, rubric)
        except JudgeError as error:
            self._failures.fail(error)
            raise
        self._failures.succeed()
        judgements = {lineup.transcripts[name].digest: judgement for name, judgement in verdict.items()}
        self._cache.put(key, judgements)
        return judgements

    async def _verdict(self, lineup: Lineup, order: list[str], rubric: str) -> Mapping[str, Judgement]:
        messages = prompt(lineup, order, rubric, with_pictures=self._shows_pictures(lineup))
        async with self._limit:
            try:
                async with asyncio.timeout(self.group_timeout_s) as deadline:
                    verdict = await self._ask(messages, sorted(order, key=int))
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                raise JudgeError(
                    f"{judge_name(self.judge)} gave no verdict within group_timeout_s={self.group_timeout_s:g}",
                    "see whether its server is overloaded; lower max_concurrent, or raise group_timeout_s",
                ) from error
        return verdict.judgements

    def _answer(self, judgement: Judgement, trajectory: art.Trajectory) -> Score:
        return Score(
            judgement.score,
            metrics={f"{self.name}_score": judgement.score, **_independent(trajectory)},
            explanation=judgement.explanation or None,
        )

    def _shows_pictures(self, lineup: Lineup) -> bool:
        if not any(transcript.pictures for transcript in lineup.transcripts.values()):
            return False
        return getattr(self.judge, "sees_pictures", False) if self.show_pictures is None else self.show_pictures

    def __repr__(self) -> str:
        return f"RulerReward({judge_name(self.judge)}, seed={self.seed!r}, on_error={self.on_error!r})"


def _check_judge(judge_model: object, judge: Judge | None, extra_litellm_params: Mapping[str, object] | None) -> None:
    if callable(judge_model):
        name = getattr(judge_model, "__name__", repr(judge_model))
        raise ConfigurationError(f"judge_model={name} is no name of a model but a judge", f"give it as judge={name}")
    if judge is None:
        return
    if not callable(judge):
        raise ConfigurationError(f"judge={judge!r} can't be called", "give an EndpointJudge, or an async function")
    if judge_model != _DEFAULT_JUDGE or extra_litellm_params:
        raise ConfigurationError(
            f"judge={judge!r} and a LiteLLM judge ({judge_model!r}) are both given", "give one of them"
        )


def _check_text(name: str, value: object, hint: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{name}={value!r} is no text", hint)


def _default_rubric() -> str:
    from art.rewards.ruler import DEFAULT_RUBRIC

    return DEFAULT_RUBRIC


def _unread(member: object) -> str | None:
    return member.problem if isinstance(member, RewardError) else None


def _independent(trajectory: art.Trajectory) -> dict[str, float]:
    reward = safe_number(trajectory.reward)
    return {} if reward is None else {"independent_reward": float(reward)}
