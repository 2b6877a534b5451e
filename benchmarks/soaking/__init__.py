"""The parts of `soak.py`: what is planned, who answers, what is played, and what is checked."""

from __future__ import annotations

import os

__all__: list[str] = []

# Before anything imports ART: its dependencies read these once.
os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True", PYTHON_DOTENV_DISABLED="1", WANDB_MODE="disabled", WEAVE_DISABLED="true"
)
