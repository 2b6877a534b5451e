"""Making a trainable model on either ART version."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import art
import pytest
from pydantic import BaseModel

from artkit.bridge import make_trainable_model, storage_dir
from artkit.errors import ConfigurationError

KNOWS_RUN_NAMES = "run_name" in inspect.signature(art.TrainableModel.__init__).parameters


def make(**arguments: Any) -> art.TrainableModel[Any, Any]:
    return make_trainable_model(**{"name": "agent", "project": "demo", "base_model": "none", **arguments})


def test_without_a_run_name_the_run_is_called_like_the_model() -> None:
    """The plain case stays plain."""
    model = make()

    assert (model.name, model.project, model.base_model, storage_dir(model)) == (
        "agent",
        "demo",
        "none",
        Path(".art/demo/models/agent"),
    )


def test_a_run_is_kept_under_its_run_name_on_either_version() -> None:
    """A run made under 0.5.18 is found again under 0.5.23."""
    assert storage_dir(make(run_name="run-1", base_path="runs")) == Path("runs/demo/models/run-1")


@pytest.mark.parametrize("field", ["name", "project", "run_name"])
@pytest.mark.parametrize("value", ["", " ", ".", "..", "../x y", "a/b", "a\\b", "/etc", "a\0b", 5])
def test_a_name_that_leads_out_of_its_directory_is_refused(field: str, value: object) -> None:
    """Its files would be written, and deleted, among somebody else's."""
    with pytest.raises(ConfigurationError, match=f"^{field}="):
        make(**{field: value})


def test_two_runs_never_share_a_directory() -> None:
    """The second would train on from the first's checkpoints, and log into its history."""
    assert storage_dir(make(run_name="run-1")) != storage_dir(make(run_name="run-2"))


def test_the_serving_name_is_kept_where_art_has_one() -> None:
    """0.5.18 has a single name, which is the storage key."""
    assert make(run_name="run-1").name == ("agent" if KNOWS_RUN_NAMES else "run-1")


def test_adapter_settings_are_written_in_one_vocabulary() -> None:
    """A script moves from one ART version to the next without a change."""
    model = make(lora_config={"rank": 8, "alpha": 16, "dropout": 0.1, "target_modules": ["q_proj"]})

    if KNOWS_RUN_NAMES:
        assert model.lora_config == {"rank": 8, "alpha": 16, "dropout": 0.1, "target_modules": ["q_proj"]}
    else:
        peft_args = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.1, "target_modules": ["q_proj"]}
        assert model._internal_config == {"peft_args": peft_args}


def test_the_remaining_settings_reach_art() -> None:
    """What a user sets must not be lost on the way."""

    class Config(BaseModel):
        difficulty: int

    model = make(report_metrics=(), config=Config(difficulty=3))

    assert (model.report_metrics, model.config) == ([], Config(difficulty=3))
