"""What may go wrong in a soak, by name."""

from __future__ import annotations

__all__ = ["ANSWERED", "CLOSING", "FATES", "RESETS", "WAITING", "WAITING_FATES", "WIRE"]

# What a request may meet, and is sent again for.
WIRE = (
    "refused", "dropped", "half a body", "429", "500", "503", "no JSON", "half of the JSON", "no choices",
    "null choices", "nothing said", "broken off",
)  # fmt: skip
# Each of these takes a whole deadline, as often as it comes.
WAITING = ("stalled", "slow")
# What a tool may answer to the model: the episode goes on.
ANSWERED = ("ToolError", "ValueError", "LookupError", "no JSON", "no tool", "hang", "block", "linger")
RAISED = (
    "RuntimeError", "ConnectionError", "ExceptionGroup", "SystemExit", "SystemExit in a thread", "BaseException",
    "CancelledError",
)  # fmt: skip
CLOSING = ("raises", "hangs", "BaseException", "ignores")
UNSCORED = ("raises", "nan", "none")

# One of each fate is dealt to the rollouts, over and over, so that each is there however few they are.
FATES = (
    *(f"wire: {name}" for name in WIRE),
    *(f"raises: {name}" for name in RAISED),
    *(f"unscored: {name}" for name in UNSCORED),
    "wire: overflow", "wire: bad request", "ending: length", "ending: ignore", "never done",
)  # fmt: skip
# Those of the impatient, soon after they have begun.
WAITING_FATES = (*(f"wire: {name}" for name in WAITING), *(f"once: {name}" for name in WAITING), "ending: hang")
# What comes before the first turn is of a whole scenario: an environment does not know which member it is for.
RESETS = ("hangs", "ignores", "raises", "BaseException")
