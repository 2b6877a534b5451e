"""One soak: a trainer's run in which everything goes wrong."""

from __future__ import annotations

import functools
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit import (
    EnvironmentReward,
    FailurePolicy,
    Limits,
    ProgrammaticReward,
    PromptScenario,
    Rollout,
    Sampling,
    Scenario,
    ScenarioOrder,
    SingleTurnEnvironment,
    TaskRollout,
    Trainer,
    TrainerSettings,
    make_trainable_model,
)
from artkit.testing import ChatServer, DiaryBackend
from soaking.checks import Found, Told, by_kind, check_counts, check_rollouts, check_world
from soaking.left_over import episodes_in_memory, held, left_over, peak_rss_mib
from soaking.plan import MAX_RETRIES, MEMBERS, REFILLS, Plan, Settings, name, number_of
from soaking.world import Desk, World, grade

if TYPE_CHECKING:
    from soaking.server_process import ServerProcess

__all__ = ["Result", "soak", "trainer_of"]


@dataclass(kw_only=True)
class Result:
    """What a soak came to.

    Attributes:
        numbers: The counts and the costs.
        problems: What is wrong, in words.
    """

    numbers: dict[str, Any]
    problems: list[str]


def rollout_of(plan: Plan, world: World) -> TaskRollout:
    """Return what plays the patient scenarios, and the impatient ones."""
    settings = plan.settings
    policy = FailurePolicy(max_retries=MAX_RETRIES, rollout_retries={"infrastructure": 1}, refills=REFILLS)

    def rollout(request_timeout_s: float, episode_timeout_s: float) -> Rollout:
        return Rollout(
            functools.partial(Desk, world),
            sampling=Sampling(seed=settings.seed),
            limits=Limits(
                request_timeout_s=request_timeout_s,
                tool_timeout_s=settings.tool_timeout_s,
                episode_timeout_s=episode_timeout_s,
            ),
            failure_policy=policy,
        )

    return TaskRollout(
        {
            "patient": rollout(settings.patient_request_timeout_s, settings.patient_episode_timeout_s),
            "impatient": rollout(settings.request_timeout_s, settings.episode_timeout_s),
        },
        lambda scenario: "impatient" if plan.is_impatient(number_of(scenario.id)) else "patient",
    )


def trainer_of(plan: Plan, world: World, server: ServerProcess, directory: Path, told: Told) -> Trainer:
    """Return the trainer whose run is the soak."""
    settings = plan.settings
    stand_in: Any = server
    return Trainer(
        model=make_trainable_model(
            name="soak", project="faults", base_model="none", base_path=str(directory / "art"), report_metrics=[]
        ),
        backend=DiaryBackend(stand_in, diary_path=directory / "diary.jsonl"),
        rollout=rollout_of(plan, world),
        train=ScenarioOrder([Scenario(id=name(number)) for number in range(settings.scenarios)], shuffle=False),
        reward=ProgrammaticReward(grade),
        trackers=[told],
        settings=TrainerSettings(
            groups_per_step=settings.groups_per_step,
            rollouts_per_group=MEMBERS,
            max_concurrent=settings.in_flight,
            max_failure_rate=1,
            stop_on_collapse=False,
            check_environment=False,
        ),
    )


async def soak(settings: Settings, server: ServerProcess, directory: Path) -> Result:
    """Run one soak in `directory` and check all of it."""
    # What is loaded and started at the first run, and stays, is no leak.
    await _warm_up(directory / "warm-up")
    plan, told = Plan(settings), Told()
    world = World(plan)
    trainer = trainer_of(plan, world, server, directory, told)
    in_memory = episodes_in_memory()
    before, began_s, cpu_s = held(), time.monotonic(), time.process_time()
    report = await trainer.run()
    wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    rss_mib, ignoring, kept = peak_rss_mib(), world.ignoring, episodes_in_memory() - in_memory
    await world.release()
    problems = await left_over(before)
    if kept > ignoring:
        problems.append(f"{kept} episodes were still in memory, beside {ignoring} that are being played")
    asked, requests = server.ask()
    found = Found.of(directory, told, asked)
    counts = Counter({key: int(value) for key, value in report.counts.items() if value})
    problems += [*check_rollouts(plan, found), *check_counts(plan, found, counts), *check_world(plan, world, ignoring)]
    numbers = {
        "rollouts": settings.rollouts,
        "started": counts["rollouts_started"],
        "trained": sum(map(len, found.trained.values())),
        "scored_not_trained": counts["rollouts_grouped"] - sum(map(len, found.trained.values())),
        "lost": by_kind(counts, "rollouts_lost_"),
        "failed": by_kind(counts, "rollouts_failed_"),
        "late_results": counts["rollouts_late_results"],
        "abandoned": counts["rollouts_abandoned"],
        "refilled": counts["rollouts_refilled"],
        "steps": report.steps,
        "requests": requests,
        "most_in_flight": world.most_open,
        "peak_rss_mib": round(rss_mib),
        "wall_s": round(wall_s, 1),
        "cpu_s": round(cpu_s, 1),
    }
    return Result(numbers=numbers, problems=problems)


async def _warm_up(directory: Path) -> None:
    """Train on two rollouts, so that all is loaded that a run loads."""
    await Trainer(
        model=make_trainable_model(
            name="warm-up", project="faults", base_model="none", base_path=str(directory), report_metrics=[]
        ),
        backend=DiaryBackend(ChatServer(["yes", "no"])),
        rollout=Rollout(SingleTurnEnvironment),
        train=[PromptScenario(id="1", messages=[{"role": "user", "content": "Well?"}])],
        reward=EnvironmentReward(),
        filters=None,
        trackers=[],
        settings=TrainerSettings(groups_per_step=1, rollouts_per_group=2),
    ).run()
