"""A user's own test of an environment, in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from artkit.environments import check_environment

if TYPE_CHECKING:
    from artkit.environments import Environment, EnvironmentReport
    from artkit.environments.check import Reply
    from artkit.episodes import Recordings

__all__ = ["assert_environment"]


async def assert_environment(
    environment: Callable[[], Environment[Any]],
    scenarios: Iterable[Any],
    *,
    actions: Sequence[Reply] | Callable[[Any], Sequence[Reply]] = (),
    recordings: Recordings = (),
    seed: int = 0,
    max_scenarios: int | None = None,
    max_turns: int | None = None,
    call_timeout_s: float | None = 60.0,
    time_limit_s: float | None = None,
    fresh_process: bool = True,
) -> EnvironmentReport:
    """Fail a test with the report where `environment` breaks a promise.

    The arguments are those of `check_environment`. In a test that is not async, write
    `asyncio.run(assert_environment(…))`.

    Returns:
        The report, for what else a test may want of it, such as that it has no notes.

    Raises:
        AssertionError: A promise is broken; the message is the report.
        ConfigurationError: As for `check_environment`.
    """
    report = await check_environment(
        environment,
        scenarios,
        actions=actions,
        recordings=recordings,
        seed=seed,
        max_scenarios=max_scenarios,
        max_turns=max_turns,
        call_timeout_s=call_timeout_s,
        time_limit_s=time_limit_s,
        fresh_process=fresh_process,
    )
    if not report.ok:
        raise AssertionError(str(report))
    return report
