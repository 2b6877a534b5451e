"""The parts of `rollouts.py`: what is said, who answers, and who asks."""

__all__: list[str] = []
