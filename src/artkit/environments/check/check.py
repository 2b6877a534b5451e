"""Checking that an environment keeps its promises, by playing it many times over."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from artkit.environments.check.cases import make_cases
from artkit.environments.check.checking import Checking, Settings
from artkit.environments.check.passes import run_passes
from artkit.environments.environment import Environment
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.environments.check.replies import Reply
    from artkit.environments.check.report import EnvironmentReport
    from artkit.episodes import Recordings

__all__ = ["check_environment"]


async def check_environment(
    environment: Callable[[], Environment[Any]],
    scenarios: Iterable[Any],
    *,
    actions: Sequence[Reply] | Callable[[Any], Sequence[Reply]] = (),
    recordings: Recordings = (),
    seed: int = 0,
    quick: bool = False,
    max_scenarios: int | None = None,
    max_turns: int | None = None,
    call_timeout_s: float | None = 60.0,
    time_limit_s: float | None = None,
    fresh_process: bool = True,
) -> EnvironmentReport:
    """Play episodes of `environment` and say which promise of `Environment` it breaks, and why it likely does.

    Each scenario is played with the replies that were given, those of recordings, and random ones: texts, and calls of
    the tools that are valid for their schemas. No model is asked. The plays are repeated: once more, after further
    resets, as if other episodes had run and another day had come (global generators and the clock of the environment's
    own modules are moved), side by side, and in a fresh process. Compared are messages, tools, rewards, ends, metrics
    and outcomes; metrics that measure a time by their name (`search_s`, `latency`) are not.

    What is played is a copy of each scenario. The global generators and `os.environ` are left as they were found.

    Args:
        environment: An `Environment` class, or a factory without arguments.
        scenarios: What is played.
        actions: Replies that lead somewhere: they are played in this order, and mixed among the random ones. A str is
            a text, a `ToolCall` a call. Or a function that returns them for a scenario.
        recordings: Recorded episodes, whose replies are played where the scenario has the same id.
        seed: Seeds the random replies.
        quick: A short form that takes about 2 s at most: 2 scenarios, each with one series of at most 4 random replies,
            in this process. What is left open, cancelling, empty replies and other processes are not looked at.
        max_scenarios: How many scenarios are played; None means 8, or 2 if quick.
        max_turns: The most replies of one play; the environment's own limit holds too. None means 16, or 4 if quick.
        call_timeout_s: How long one call of `reset`, `step` or `close` may take, in seconds; None is `time_limit_s`.
        time_limit_s: After how many seconds the check ends with what it has; None means 120, or 2 if quick. A slow
            environment is checked on fewer scenarios.
        fresh_process: Whether to play in a new process too, which imports the class anew.

    Returns:
        The report. What a check that ran out of time did not look at, and a class that cannot be imported elsewhere,
        is in its `left_out`.

    Raises:
        ConfigurationError: `environment` is an instance or needs arguments, there is no scenario, an action is no
            reply, or a limit is not positive.

    >>> from artkit.environments import StepResult
    >>> from artkit.scenarios import Scenario
    >>> class Echo(Environment[Scenario]):
    ...     async def reset(self, scenario):
    ...         return f"Say {scenario.id}."
    ...
    ...     async def step(self, action):
    ...         return StepResult(done=True, reward=float(len(action.text)))
    >>> print(asyncio.run(check_environment(Echo, [Scenario(id="a")], fresh_process=False)))
    Echo: keeps its promises (...)
    """
    if isinstance(environment, Environment) or not callable(environment):
        raise ConfigurationError(
            f"environment={environment!r} cannot make a fresh environment for each episode",
            "pass the class, or a function without arguments that returns a new instance",
        )
    _refuse_arguments(environment)
    limits = {
        "max_scenarios": max_scenarios,
        "max_turns": max_turns,
        "call_timeout_s": call_timeout_s,
        "time_limit_s": time_limit_s,
    }
    for name, limit in limits.items():
        if limit is not None and not limit > 0:
            raise ConfigurationError(f"{name}={limit!r} is not positive", "give more than 0, or None for the default")
    limit_s = time_limit_s or (2.0 if quick else 120.0)
    settings = Settings(
        seed=seed,
        quick=quick,
        max_turns=max_turns or (4 if quick else 16),
        # No longer than the whole: `close` is given its time also where the check is over.
        call_timeout_s=limit_s if call_timeout_s is None else min(call_timeout_s, limit_s),
        time_limit_s=limit_s,
        fresh_process=fresh_process and not quick,
    )
    cases = make_cases(
        scenarios,
        actions=actions,
        recordings=recordings,
        seed=seed,
        max_scenarios=max_scenarios or (2 if quick else 8),
        scripts=1 if quick else 2,
    )
    checking = Checking(environment, cases, settings)
    deadline = asyncio.timeout(settings.time_limit_s)
    try:
        with checking.process.left_as_found():
            async with deadline:
                await run_passes(checking)
    except TimeoutError:
        if not deadline.expired():
            raise
        checking.leave_out(f"the check ended after its {settings.time_limit_s:g} s with what it had by then")
    return checking.report()


def _refuse_arguments(environment: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(environment)
    except (TypeError, ValueError):  # not every callable tells
        return
    try:
        signature.bind()
    except TypeError as error:
        name = getattr(environment, "__qualname__", None) or repr(environment)
        raise ConfigurationError(
            f"{name} cannot be made without arguments: {error}",
            f"pass functools.partial({name}, …) with them, or a function that returns a new instance",
        ) from error
