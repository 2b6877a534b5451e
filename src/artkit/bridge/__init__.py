"""What differs between ART versions, and nothing else: the one room that reaches into ART's private names."""

from __future__ import annotations

from artkit.bridge.capture import entered_trajectories, no_capture
from artkit.bridge.captured import dump_captured, further_history, load_captured, model_turns
from artkit.bridge.checkpoints import (
    backend_of,
    can_delete_checkpoints,
    checkpoint_dir,
    delete_checkpoint_files,
    saved_steps,
    served_steps,
    step_of_checkpoint,
    step_of_name,
    storage_dir,
    storage_dir_on,
)
from artkit.bridge.client_cache import forget_client
from artkit.bridge.constructor import constructor_call
from artkit.bridge.conversations import Conversation, conversations
from artkit.bridge.durable import replace_file, sync_to_disk
from artkit.bridge.exceptions import FailureLike, error_chain, group_exception, is_serving_unavailable
from artkit.bridge.keys import guard_keys
from artkit.bridge.loggable import loggable
from artkit.bridge.loggable_metrics import loggable_metrics
from artkit.bridge.opening import open_model
from artkit.bridge.overlap import why_no_overlap
from artkit.bridge.recorded_client import OnExchange, with_recorded_client
from artkit.bridge.state_file import keep_state_copy, mend_state
from artkit.bridge.train_options import TrainOptions, train_options
from artkit.bridge.trainable_model import make_trainable_model, renamed_model
from artkit.bridge.wandb_check import check_wandb, logs_to_wandb
from artkit.bridge.wandb_run import wandb_run
from artkit.bridge.without_secrets import hide_secrets, without_secrets

__all__ = [
    "Conversation",
    "FailureLike",
    "OnExchange",
    "TrainOptions",
    "backend_of",
    "can_delete_checkpoints",
    "check_wandb",
    "checkpoint_dir",
    "constructor_call",
    "conversations",
    "delete_checkpoint_files",
    "dump_captured",
    "entered_trajectories",
    "error_chain",
    "forget_client",
    "further_history",
    "group_exception",
    "guard_keys",
    "hide_secrets",
    "is_serving_unavailable",
    "keep_state_copy",
    "load_captured",
    "loggable",
    "loggable_metrics",
    "logs_to_wandb",
    "make_trainable_model",
    "mend_state",
    "model_turns",
    "no_capture",
    "open_model",
    "renamed_model",
    "replace_file",
    "saved_steps",
    "served_steps",
    "step_of_checkpoint",
    "step_of_name",
    "storage_dir",
    "storage_dir_on",
    "sync_to_disk",
    "train_options",
    "wandb_run",
    "why_no_overlap",
    "with_recorded_client",
    "without_secrets",
]
