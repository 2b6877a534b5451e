"""What is said in every rollout, whoever plays it."""

__all__ = ["ANSWER", "QUESTION", "TURNS", "reply_text"]

TURNS = (1, 4, 16)
QUESTION = "You are in a maze of twisty passages, all alike. Each turn, name the way that you want to go, and why."
ANSWER = "The passage bends twice and ends in another chamber, much like the last one; there are ways north and east."


def reply_text(turn: int) -> str:
    """Return what the model says in a turn."""
    return f"Turn {turn}: I go north this time, for the air that comes from there is fresher than it is in the east."
