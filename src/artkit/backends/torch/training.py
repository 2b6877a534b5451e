"""The two ways to train a policy, from ART's objects to its next step."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from artkit.backends.torch.advantages import group_advantages
from artkit.backends.torch.demonstrations import demonstrated_sequences
from artkit.backends.torch.sequences import TokenSequence, sampled_sequences
from artkit.errors import ArtkitError, BackendError, CheckpointError, ConfigurationError

if TYPE_CHECKING:
    import art
    import torch

    from artkit.backends.torch.policy import Policy
    from artkit.backends.torch.train_options import TrainOptions
    from artkit.backends.torch.worker import Job, Worker

__all__ = ["imitate", "reinforce"]

# That of ART's LocalBackend.
_DEFAULT_BATCH_SIZE = 2


def reinforce(
    policy: Policy, groups: Sequence[art.TrajectoryGroup], options: TrainOptions
) -> Job[tuple[int, dict[str, float]]]:
    """One policy update on finished groups, saved and served as the next step.

    Where no group has members with different rewards there is nothing to learn: the next step is then a copy of this
    one, as in ART's LocalBackend, so that steps go on counting batches.

    Every trajectory counts the same, however long it is: a token's weight is one over the number of its trajectory's
    sampled tokens, scaled so that the mean is 1, as in ART's LocalBackend.

    Returns:
        The new step, and metrics.

    Raises:
        BackendError: Nothing in any group could ever be trained on, the update is not finite, or the checkpoint cannot
            be written; the weights stay as they were.
    """
    started = time.monotonic()
    policy.mend()
    sequences: list[TokenSequence] = []
    advantages: list[float] = []
    weights: list[float] = []
    trainable = 0
    for group in groups:
        before = len(sequences)
        for trajectory, advantage in zip(group.trajectories, _advantages(group, options), strict=True):
            if advantage == 0.0:
                continue
            parts = _parts(policy, trajectory)
            if not parts:
                continue
            count = sum(len(part.targets) for part in parts)
            sequences += parts
            advantages += [advantage] * len(parts)
            weights += [1.0 / count] * len(parts)
        trainable += len(sequences) > before
    if sequences:
        tokens = [len(sequence.targets) for sequence in sequences]
        mean = sum(weight * count for weight, count in zip(weights, tokens, strict=True)) / sum(tokens)
        weights = [weight / mean for weight in weights]
        reference = policy.reference(options.kl_penalty_reference_step) if options.kl_penalty_coef else None
        metrics = yield from policy.learner.reinforce(sequences, advantages, weights, options, reference)
    else:
        if not any(_parts(policy, trajectory) for group in groups for trajectory in group.trajectories):
            raise BackendError(
                f"none of the {len(groups)} groups has anything to train on: no choice has logprobs",
                "sample through the model's own client or sampling session with logprobs=True, and keep the Choice "
                "objects as they came",
            )
        metrics = {"data/step_trainer_tokens": 0.0}
    step = _advance(policy)
    return step, metrics | {
        "data/step_num_groups_submitted": float(len(groups)),
        "data/step_num_groups_trainable": float(trainable),
        "data/step_num_gradient_steps": float(bool(sequences)),
        "time/step_trainer_s": time.monotonic() - started,
    }


def _parts(policy: Policy, trajectory: art.Trajectory) -> list[TokenSequence]:
    return [s for s in sampled_sequences(trajectory, vocab_size=policy.base.tokenizer.size) if s.targets]


def _advantages(group: art.TrajectoryGroup, options: TrainOptions) -> list[float]:
    rewards = [trajectory.reward for trajectory in group.trajectories]
    for index, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise BackendError(
                f"trajectory {index} of a group (metadata {group.metadata!r}) has the reward {reward!r}",
                "one such reward spoils its whole group: leave that trajectory out, or give it a finite reward",
            )
    return group_advantages(rewards, scale=options.scale_rewards)


async def imitate(
    policy: Policy,
    worker: Worker,
    trajectories: Sequence[art.Trajectory],
    config: art.TrainSFTConfig,
) -> AsyncGenerator[dict[str, float], None]:
    """Supervised updates on demonstrations, one per batch; behind the last one the next step is saved and served.

    Yields:
        The metrics of each batch, before the next one is begun.

    Raises:
        ConfigurationError: The learning rates cannot work.
        BackendError: A demonstration cannot be used, an update is not finite, or the checkpoint cannot be written; the
            weights are again those of the current step.
    """
    batch_size = _DEFAULT_BATCH_SIZE if config.batch_size == "auto" else config.batch_size
    learning_rates = _learning_rates(config.learning_rate, math.ceil(len(trajectories) / batch_size))
    # openpipe-art 0.5.18 has no such setting: all turns are learnt there.
    last_turn_only = getattr(config, "assistant_turns", "all") == "last"
    optimizer = policy.learner.new_optimizer()
    is_saved = False
    try:
        for index, learning_rate in enumerate(learning_rates):
            members = trajectories[index * batch_size : (index + 1) * batch_size]
            job = _imitate_batch(policy, members, learning_rate, optimizer, last_turn_only=last_turn_only)
            metrics = await worker.run(job)
            yield metrics | {
                "data/step_num_trajectories": float(len(trajectories)),
                "data/step_num_gradient_steps": float(len(learning_rates)),
            }
        await worker.run(_advance_job(policy))
        is_saved = True
    finally:
        if not is_saved:
            # Behind whatever slice is still running; the next to train comes behind this. (A backend that was closed
            # trains no more, and begins from the checkpoint when it is opened again.)
            with suppress(BackendError):
                restored = worker.enqueue(_restore_job(policy))
                # Nobody awaits it, so that a close in the meantime is no news.
                restored.add_done_callback(lambda future: future.cancelled() or future.exception())


def _imitate_batch(
    policy: Policy,
    trajectories: Sequence[art.Trajectory],
    learning_rate: float,
    optimizer: torch.optim.AdamW,
    *,
    last_turn_only: bool,
) -> Job[dict[str, float]]:
    policy.mend()
    window, tokenizer = policy.base.config.max_position_embeddings, policy.base.tokenizer
    sequences = [
        sequence
        for trajectory in trajectories
        for sequence in demonstrated_sequences(trajectory, tokenizer, last_turn_only=last_turn_only)
    ]
    fitting = [sequence for sequence in sequences if sequence.targets and len(sequence.token_ids) <= window]
    if not fitting:
        raise BackendError(
            f"a batch of {len(trajectories)} demonstrations has nothing to learn from",
            f"each needs an assistant turn and at most {window} tokens",
        )
    metrics = yield from policy.learner.imitate(fitting, learning_rate, optimizer)
    return metrics | {
        "data/step_trainer_tokens": float(sum(len(sequence.targets) for sequence in fitting)),
        "data/step_num_dropped_trajectories": float(len(sequences) - len(fitting)),
    }


def _advance_job(policy: Policy) -> Job[int]:
    yield from ()
    return _advance(policy)


def _restore_job(policy: Policy) -> Job[None]:
    yield from ()
    policy.restore()


def _advance(policy: Policy) -> int:
    try:
        return policy.advance()
    except Exception as error:
        try:
            policy.restore()
        except CheckpointError as unread:
            raise BackendError(
                f"the checkpoint of step {policy.step + 1} cannot be written: {error!r}; and going back failed: "
                f"{unread}",
                f"see that {str(policy.directory)!r} has room and may be read and written, and train again: the "
                f"weights of step {policy.step} are read first",
            ) from error
        if isinstance(error, ArtkitError):
            raise
        raise BackendError(
            f"the checkpoint of step {policy.step + 1} cannot be written: {error!r}",
            f"see that {str(policy.directory)!r} has room and may be written, and train again; "
            "the step before is untouched",
        ) from error


def _learning_rates(learning_rate: float | Sequence[float], num_batches: int) -> list[float]:
    rates = [learning_rate] * num_batches if isinstance(learning_rate, int | float) else list(learning_rate)
    if len(rates) < num_batches:
        raise ConfigurationError(
            f"{len(rates)} learning rates for {num_batches} batches", "give one for each batch, or a single one for all"
        )
    if not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        raise ConfigurationError("a learning rate is negative or not finite", "give finite numbers of at least 0")
    return rates[:num_batches]
