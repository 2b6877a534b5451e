"""The keys of models and backends: known, so that they can be kept out of texts, and not shown."""

from __future__ import annotations

from typing import Any

from artkit.secrets import known_secret

__all__ = ["guard_keys"]


def guard_keys(model: object, backend: object = None) -> None:
    """Know the keys that `model` and `backend` use, and leave the model's out of the `repr` of its class.

    ART's models are pydantic's, which show every field: in a log line, an error, a debugger's traceback.

    Args:
        model: An `art.Model`; anything else has no key to guard.
        backend: Whoever it is registered with; ART's serverless backend has a client with a key of its own.
    """
    known_secret(getattr(model, "inference_api_key", None))
    known_secret(getattr(getattr(backend, "_client", None), "api_key", None))
    fields: Any = getattr(type(model), "model_fields", {})
    if (field := fields.get("inference_api_key")) is not None:
        field.repr = False
