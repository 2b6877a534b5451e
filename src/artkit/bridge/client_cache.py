"""The inference client that ART makes once for a model and keeps."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import art

__all__ = ["forget_client"]


async def forget_client(model: art.Model[Any, Any]) -> None:
    """Close the model's client and let the next `model.openai_client()` make a new one.

    For a backend whose endpoint has moved since the model was first registered: ART 0.5.18 would go on asking the old
    one; 0.5.23 does the same as this at each registration.
    """
    client, model._openai_client = model._openai_client, None
    if client is not None:
        # A client of an event loop that has ended cannot be closed any more, and holds nothing open either.
        with contextlib.suppress(RuntimeError):
            await client.close()
