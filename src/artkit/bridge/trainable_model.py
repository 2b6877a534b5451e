"""Making a trainable model on either ART version."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.bridge.keys import guard_keys
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art
    from pydantic import BaseModel

__all__ = ["make_trainable_model", "renamed_model"]

# What ART up to 0.5.18 calls PEFT's names, 0.5.23 has renamed.
_PEFT_NAMES = {
    "rank": "r",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "init_weights": "init_lora_weights",
}


def make_trainable_model(
    *,
    name: str,
    project: str,
    base_model: str,
    run_name: str | None = None,
    base_path: str = ".art",
    report_metrics: Sequence[str] | None = None,
    config: BaseModel | None = None,
    lora_config: Mapping[str, Any] | None = None,
) -> art.TrainableModel[Any, Any]:
    """Make an `art.TrainableModel` that keeps its files in the same place on either ART version.

    ART 0.5.23 knows two names: checkpoints, history and W&B artifacts are kept under `run_name`, and the model is
    served as `name`. ART 0.5.18 has one name for both; there the model is called by its `run_name`, so that two runs
    never share a directory and a run made under 0.5.18 is found again under 0.5.23.

    Args:
        name: What the model is served as.
        project: The project, as in W&B; the first directory below `base_path`.
        base_model: What is trained, as the backend names it.
        run_name: The run within the project; None is `name`. Equal run names are the same run.
        base_path: The directory of history, logs and, for backends on this machine, checkpoints.
        report_metrics: Where ART sends metrics besides its own files; None is W&B if `WANDB_API_KEY` is set, an empty
            sequence nowhere.
        config: The user's own settings, kept on the model.
        lora_config: The adapter's settings in ART 0.5.23's words (`rank`, `alpha`, `dropout`, `target_modules`, …),
            translated where ART wants PEFT's.

    Raises:
        ConfigurationError: A name that is no name of a single directory.

    >>> make_trainable_model(name="agent", project="demo", base_model="artkit/micro").name
    'agent'
    """
    for field, value in (("name", name), ("project", project), ("run_name", name if run_name is None else run_name)):
        _check_name(field, value)

    import art

    known = inspect.signature(art.TrainableModel.__init__).parameters
    arguments: dict[str, Any] = {
        "name": name,
        "project": project,
        "base_model": base_model,
        "base_path": base_path,
        "config": config,
        "report_metrics": None if report_metrics is None else list(report_metrics),
    }
    run_name = run_name or name
    if "run_name" in known:
        arguments["run_name"] = run_name
    else:
        arguments["name"] = run_name
    if lora_config is not None:
        if "lora_config" in known:
            arguments["lora_config"] = dict(lora_config)
        else:
            peft_args = {_PEFT_NAMES.get(key, key): value for key, value in lora_config.items()}
            arguments["_internal_config"] = {"peft_args": peft_args}
    model = art.TrainableModel(**arguments)
    guard_keys(model)
    return model


def _check_name(field: str, value: object) -> None:
    """Each becomes a directory of its own below `base_path`, which it must not lead out of."""
    is_name = isinstance(value, str) and value.strip() not in ("", ".")
    if not is_name or any(part in str(value) for part in ("/", "\\", "..", "\0")):
        raise ConfigurationError(
            f"{field}={value!r} is no name of a directory", "use a word without /, \\ and .., such as 'run-1'"
        )


def renamed_model(model: art.TrainableModel[Any, Any], name: str) -> art.TrainableModel[Any, Any]:
    """Return an unregistered model that is made like `model`, but is another run and reports its metrics nowhere."""
    import art

    known = inspect.signature(art.TrainableModel.__init__).parameters
    own = {"self", "name", "run_name", "id", "run_id", "report_metrics"}
    arguments = {key: getattr(model, key) for key in known if key not in own and hasattr(model, key)}
    arguments |= {key: name for key in ("name", "run_name") if key in known}
    return art.TrainableModel(**arguments, report_metrics=[])
