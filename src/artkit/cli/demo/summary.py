"""What the demo shows at its end: figures, two episodes, and how to use the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.checkpoints import MetricHistory

if TYPE_CHECKING:
    import art

__all__ = ["Figures", "farewell", "transcript"]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of a finished run, as `--json` writes them.

    Attributes:
        success_untrained: Share of held-out tasks answered before anything was learnt.
        success_before: After the warm-up, before GRPO.
        success_after: After GRPO.
        val_reward_before: Mean reward on the held-out tasks, likewise.
        val_reward_after: Likewise.
        wall_s: Seconds of the whole command, earlier sessions included.
        tokens_trained: Sampled tokens that GRPO trained on.
        tokens_per_s: Tokens sampled per second of gathering and training, in the last session; None without a step.
    """

    seed: int
    held_out: int
    train_steps: int
    success_untrained: float
    success_before: float
    success_after: float
    val_reward_before: float
    val_reward_after: float
    wall_s: float
    tokens_trained: int
    tokens_per_s: float | None
    final_inference_name: str

    @staticmethod
    def measured(history_path: Path) -> dict[str, Any]:
        """Read from ART's history what was measured before the first step and after the last, and what was trained."""
        history = MetricHistory.read(history_path)
        success, reward = history.values("val/success"), history.values("val/reward")
        first, last = min(success), max(success)
        tokens = history.values("data/step_trainer_tokens")
        return {
            "success_before": success[first],
            "success_after": success[last],
            "val_reward_before": reward[first],
            "val_reward_after": reward[last],
            # The row of the first step is the warm-up's.
            "tokens_trained": round(sum(count for step, count in tokens.items() if step > first)),
        }


def farewell(figures: Figures, *, episode_before: str, episode_after: str, usage: str) -> str:
    """Return what the demo says last."""
    speed = "" if figures.tokens_per_s is None else f" ({figures.tokens_per_s:,.0f} sampled per second)"
    return f"""\
{figures.held_out} held-out tasks       success   reward
before the warm-up      {figures.success_untrained:7.3f}
before GRPO             {figures.success_before:7.3f}  {figures.val_reward_before:7.3f}
after GRPO              {figures.success_after:7.3f}  {figures.val_reward_after:7.3f}

A held-out task before GRPO:
{episode_before}

The same after GRPO:
{episode_after}

{figures.train_steps} steps on {figures.tokens_trained:,} tokens{speed}, {figures.wall_s:.0f} s in all
model: {figures.final_inference_name}

It is used like this:

{usage}"""


def transcript(episode: art.Trajectory) -> str:
    """Return an episode as text, a line for each message."""
    lines = [f"  {message['role']:<9}  {message.get('content') or ''}" for message in episode.messages()]
    return "\n".join([*lines, f"  {'reward':<9}  {episode.reward:g}"])
