"""What the demo shows at its end."""

from __future__ import annotations

import json
from pathlib import Path

import art

from artkit.cli.demo.summary import Figures, farewell, transcript

FIGURES = Figures(
    seed=0,
    held_out=512,
    train_steps=50,
    success_untrained=0.0,
    success_before=0.1621,
    success_after=0.9785,
    val_reward_before=0.15,
    val_reward_after=0.975,
    wall_s=71.4,
    tokens_trained=72029,
    tokens_per_s=4321.0,
    final_inference_name="order-desk@51",
)


def test_before_and_after_come_from_the_history(tmp_path: Path) -> None:
    """The warm-up's own tokens are not GRPO's."""
    rows = [
        {"step": 1, "data/step_trainer_tokens": 317.5},
        {"step": 1, "val/success": 0.25, "val/reward": 0.125},
        {"step": 2, "data/step_trainer_tokens": 1000.0, "train/success": 0.5},
        {"step": 3, "data/step_trainer_tokens": 500.0, "train/success": 0.75},
        {"step": 3, "val/success": 0.875, "val/reward": 0.75},
    ]
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert Figures.measured(path) == {
        "success_before": 0.25,
        "success_after": 0.875,
        "val_reward_before": 0.125,
        "val_reward_after": 0.75,
        "tokens_trained": 1500,
    }


def test_the_farewell_tells_all_that_was_gained() -> None:
    """It is what a person who runs the demo takes away."""
    text = farewell(FIGURES, episode_before="  user  a", episode_after="  user  b", usage="import asyncio\n")

    assert text == (
        "512 held-out tasks       success   reward\n"
        "before the warm-up        0.000\n"
        "before GRPO               0.162    0.150\n"
        "after GRPO                0.979    0.975\n"
        "\n"
        "A held-out task before GRPO:\n"
        "  user  a\n"
        "\n"
        "The same after GRPO:\n"
        "  user  b\n"
        "\n"
        "50 steps on 72,029 tokens (4,321 sampled per second), 71 s in all\n"
        "model: order-desk@51\n"
        "\n"
        "It is used like this:\n"
        "\n"
        "import asyncio\n"
    )


def test_an_episode_reads_as_a_conversation() -> None:
    """A line for each message, and what it earned."""
    episode = art.Trajectory(
        messages_and_choices=[
            {"role": "user", "content": "zip of order 47"},
            {"role": "assistant", "content": "say 83"},
        ],
        reward=-0.1,
    )

    assert transcript(episode) == "  user       zip of order 47\n  assistant  say 83\n  reward     -0.1"
