"""The numbers of a run are refused when they are made, with the nearest value that works."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from artkit import ConfigurationError, TrainerSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rollouts_per_group": 0}, "rollouts_per_group=0 .*nearest value that works is 1"),
        ({"groups_per_step": -3}, "groups_per_step=-3 .*nearest value that works is 1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 .*nearest value that works is 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"max_failure_rate": 1.5}, "max_failure_rate=1.5 .*nearest value that works is 1"),
        ({"max_steps": 0}, "max_steps=0 .*nearest value that works is 1"),
        ({"max_empty_steps": 0}, "max_empty_steps=0 .*nearest value that works is 1"),
        ({"num_epochs": 1.5}, "num_epochs=1.5 .*give a whole number"),
        ({"max_exceptions": 1.5}, "max_exceptions=1.5 .*neither a count nor a share"),
        ({"step_timeout_s": 0}, "step_timeout_s=0 .*give more than 0"),
        ({"max_recent_failures": "some"}, "max_recent_failures='some' .*give a whole number"),
    ],
)
def test_a_setting_out_of_range_is_refused_with_the_nearest_value_that_works(
    values: dict[str, object], message: str
) -> None:
    """Before anything expensive starts, and so that the next try works."""
    with pytest.raises(ConfigurationError, match=message):
        TrainerSettings(**values)


@pytest.mark.parametrize(
    ("name", "hint"), [("rollout_per_group", "did you mean 'rollouts_per_group'"), ("zzz", "the settings are learning")]
)
def test_an_unknown_setting_is_refused_and_the_near_one_named(name: str, hint: str) -> None:
    """A misspelt setting that is ignored is a run with the default."""
    with pytest.raises(ConfigurationError, match=hint):
        TrainerSettings(**{name: 4})


def test_the_defaults_are_those_of_the_docs() -> None:
    """They are the contract of every script that does not name them."""
    assert TrainerSettings().model_dump() == {
        "learning_rate": 1e-5,
        "rollouts_per_group": 4,
        "groups_per_step": 2,
        "num_epochs": 1,
        "max_steps": None,
        "seed": 0,
        "max_concurrent": 256,
        "step_timeout_s": None,
        "max_exceptions": None,
        "max_failure_rate": 0.5,
        "max_recent_failures": None,
        "max_extra_groups": 0,
        "max_empty_steps": 3,
        "stop_on_collapse": True,
        "check_environment": True,
        "max_staleness": 0,
        "train_options": {},
    }


def test_settings_are_frozen() -> None:
    """A run is what it was begun with."""
    with pytest.raises(ValidationError, match="frozen"):
        TrainerSettings().learning_rate = 1.0


def test_settings_are_a_field_of_a_user_s_own_model() -> None:
    """A settings file is read with pydantic, and the trainer's numbers stand in it as they are."""

    class File(BaseModel):
        settings: TrainerSettings

    file = File.model_validate_json('{"settings": {"learning_rate": 1e-4, "train_options": {"ppo": true}}}')

    assert file.settings == TrainerSettings(learning_rate=1e-4, train_options={"ppo": True})
