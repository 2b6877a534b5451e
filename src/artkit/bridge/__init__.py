"""What differs between ART versions, and nothing else: the one room that reaches into ART's private names."""

from __future__ import annotations

from artkit.bridge.capture import no_capture
from artkit.bridge.checkpoints import backend_of, delete_checkpoint_files, saved_steps, storage_dir
from artkit.bridge.client_cache import forget_client
from artkit.bridge.constructor import constructor_call
from artkit.bridge.conversations import Conversation, conversations
from artkit.bridge.exceptions import FailureLike, group_exception, is_serving_unavailable
from artkit.bridge.loggable import loggable
from artkit.bridge.loggable_metrics import loggable_metrics
from artkit.bridge.opening import open_model
from artkit.bridge.recorded_client import OnExchange, with_recorded_client
from artkit.bridge.state_file import keep_state_copy, mend_state
from artkit.bridge.train_options import TrainOptions, train_options
from artkit.bridge.trainable_model import make_trainable_model, renamed_model

__all__ = [
    "Conversation",
    "FailureLike",
    "OnExchange",
    "TrainOptions",
    "backend_of",
    "constructor_call",
    "conversations",
    "delete_checkpoint_files",
    "forget_client",
    "group_exception",
    "is_serving_unavailable",
    "keep_state_copy",
    "loggable",
    "loggable_metrics",
    "make_trainable_model",
    "mend_state",
    "no_capture",
    "open_model",
    "renamed_model",
    "saved_steps",
    "storage_dir",
    "train_options",
    "with_recorded_client",
]
