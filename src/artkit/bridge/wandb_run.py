"""The W&B run of a model, from before the first row to after the last."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from artkit.bridge.wandb_check import check_wandb, is_wandb_offline, logs_to_wandb
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

__all__ = ["wandb_run"]

# W&B's default is 15. What it has not yet written goes with a killed process, and no resume logs it again.
_FLUSH_INTERVAL_S = 1.0


@contextlib.asynccontextmanager
async def wandb_run(model: art.Model[Any, Any], *, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Keep the W&B run of `model` open inside, and finish it at the end: as failed where the block raises.

    Its id is the name under which the model keeps its files, so the sessions of a run are one W&B run. It is opened
    before anything is spent, where ART would open it at the first row. Does nothing for a model that does not log to
    W&B, and then imports none of it.

    Online it is ART's own run. Offline (`WANDB_MODE=offline`) ART wants a key all the same, and its local backend asks
    W&B's server about the run after each training; so there the run is opened here and shown to ART's log alone. A
    killed process loses what was logged in its last second.

    Enter it when the model is registered: a serverless backend tells it its entity.

    Args:
        model: A model, with what it is to log to.
        tell: Told where an offline run is kept, and of a failure to finish, which must not cost the result.

    Raises:
        ConfigurationError: W&B is asked for and cannot work, or it could not be opened.
    """
    check_wandb(model)
    if not logs_to_wandb(model):
        yield
        return
    is_offline = is_wandb_offline()
    run = _opened(_offline_run if is_offline else _arts_run, model)
    if run is None:
        yield
        return
    if is_offline:
        tell(f"W&B is offline: run {run.id!r} is kept in {run.settings.sync_dir}; `wandb sync` uploads it")
    try:
        with _only_for_the_log(model, run) if is_offline else contextlib.nullcontext():
            yield
    except BaseException as error:
        if failure := await _finish(run, exit_code=1):
            error.add_note(failure)
        raise
    if failure := await _finish(run, exit_code=0):
        tell(failure)


def _opened(open_run: Callable[[Any], Any], model: art.Model[Any, Any]) -> Any | None:
    """Open the run; None where it is a run that throws everything away, which nobody asked for."""
    import wandb

    try:
        run = open_run(model)
    except (wandb.Error, ValueError) as error:
        raise ConfigurationError(
            f"the W&B run {_run_id(model)!r} of project {model.project!r} could not be opened: {error}",
            "mend it, or set WANDB_MODE=offline to keep the run on this machine, or give the model report_metrics=[]",
        ) from error
    if run is None or not run.disabled:
        return run
    if "wandb" in (model.report_metrics or ()):
        raise ConfigurationError(
            'report_metrics asks for "wandb", and W&B\'s own settings switch it off',
            "`wandb enabled` switches it on again, or leave it out of report_metrics",
        )
    return None


def _arts_run(model: Any) -> Any:
    return model._get_wandb_run()


def _offline_run(model: Any) -> Any:
    """Return the run that is open, or open one as ART does, with the training step as the axis of every metric."""
    import wandb

    run = model._wandb_run
    if run is None or getattr(run, "_is_finished", False):
        settings: dict[str, Any] = {"silent": True}
        if "x_transaction_log_flush_interval" in wandb.Settings.model_fields:
            settings["x_transaction_log_flush_interval"] = _FLUSH_INTERVAL_S
        with _without_weave():
            run = wandb.init(
                entity=model.entity,
                project=model.project,
                name=_run_id(model),
                id=_run_id(model),
                config=model._wandb_config or None,
                resume="allow",
                reinit="create_new",
                mode="offline",
                settings=wandb.Settings(**settings),
            )
        model._wandb_run = run
        # W&B's own step only ever counts up. By this axis an older step that is validated late stands in its place.
        run.define_metric("training_step")
        run.define_metric("*", step_metric="training_step")
    return run


@contextlib.contextmanager
def _without_weave() -> Iterator[None]:
    """Leave weave out: once it is loaded, as by ART 0.5.23, W&B starts it, and it asks the terminal for a key."""
    module: Any = sys.modules.get("wandb.integration.weave")
    start = getattr(module, "init_weave_if_imported", None)
    if start is None:
        yield
        return
    module.init_weave_if_imported = lambda *_args, **_kwargs: None
    try:
        yield
    finally:
        module.init_weave_if_imported = start


def _run_id(model: Any) -> str:
    return str(model._storage_name() if hasattr(model, "_storage_name") else model.name)


@contextlib.contextmanager
def _only_for_the_log(model: art.Model[Any, Any], run: Any) -> Iterator[None]:
    """Let `model.log` find `run`, key or not, and nobody else."""
    arts_log_metrics: Callable[..., None] = model._log_metrics
    is_logging = False

    def get_wandb_run() -> Any:
        return run if is_logging else None

    def log_metrics(*args: Any, **kwargs: Any) -> None:
        nonlocal is_logging
        is_logging = True
        try:
            arts_log_metrics(*args, **kwargs)
        finally:
            is_logging = False

    # Into this model's own attributes, which are looked at before the methods of its class.
    shadows = {"_get_wandb_run": get_wandb_run, "_log_metrics": log_metrics}
    model.__dict__.update(shadows)
    try:
        yield
    finally:
        for name in shadows:
            model.__dict__.pop(name, None)


async def _finish(run: Any, *, exit_code: int) -> str | None:
    """Wait until everything is written or uploaded; return what went wrong, in words."""
    try:
        await asyncio.to_thread(run.finish, exit_code=exit_code)
    except Exception as error:  # noqa: BLE001  # whatever W&B's service and network may raise
        return f"the W&B run {run.id!r} could not be finished: {type(error).__name__}: {error}"
    return None
