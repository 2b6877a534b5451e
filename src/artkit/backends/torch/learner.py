"""The weights in training, and the two ways to change them: by reward, and by demonstration."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from torch.nn.utils import clip_grad_norm_

from artkit.backends.torch.checkpoints import reading
from artkit.backends.torch.score_graphs import ScoreGraphs
from artkit.backends.torch.tensor_file import write_tensors
from artkit.backends.torch.token_batch import TokenBatch, micro_batches
from artkit.backends.torch.weights import open_weights
from artkit.errors import BackendError

if TYPE_CHECKING:
    from artkit.backends.torch.base_model import BaseModel
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.policy_settings import PolicySettings
    from artkit.backends.torch.sequences import TokenSequence
    from artkit.backends.torch.train_options import TrainOptions
    from artkit.backends.torch.worker import Job

__all__ = ["Learner"]

# The betas of ART's LocalBackend, and the gradient norm of its supervised training.
_BETAS = (0.9, 0.99)
_MAX_GRAD_NORM = 1.0
# A log probability that moved by less than this did not move: the sampler rounds otherwise than the learner, and how
# depends on what was in its batch. Without the noise, the same tokens make the same weights, bit for bit.
_ROUNDING = 1e-5
# What a GPU computes while the kernels of one layer, there and back, are launched, in parameters times tokens: an H200
# takes some 5 ms to launch them, and computes 1e14 such products (of four floating-point operations) in a second, with
# room for slower ones.
_IDLE_PRODUCTS = 1e11
_STATE, _FACTS = "trainer_state.safetensors", "trainer"


class Learner:
    """What is trained, in float32, and AdamW's memory of the policy updates so far.

    Args:
        base: Where the weights start.
        settings: What of them is trained, and how it is computed.
        seed: What the micro model's weights and the adapters are drawn from.
    """

    def __init__(self, base: BaseModel, settings: PolicySettings, *, seed: int) -> None:
        self._settings = settings
        self.weights = open_weights(base, settings, seed=seed)
        self._parameters = [value for value in self.weights.decoder.parameters() if value.requires_grad]
        self._optimizer = self.new_optimizer()
        self._updates = 0
        self._graphs: ScoreGraphs | None = None
        self._idle_tokens = 0.0
        decoder = self.weights.decoder
        if settings.device.type == "cuda":
            self._graphs = ScoreGraphs(decoder, settings.dtype)
            size = sum(value.numel() for value in decoder.parameters())
            self._idle_tokens = _IDLE_PRODUCTS * decoder.config.num_hidden_layers / size

    def reinforce(
        self,
        sequences: Sequence[TokenSequence],
        advantages: Sequence[float],
        weights: Sequence[float],
        options: TrainOptions,
        reference: Decoder | None = None,
    ) -> Job[dict[str, float]]:
        """One update by rewards, as a job in slices of one micro-batch.

        The loss is the mean over all trained tokens of their loss times the weight of their sequence.

        Args:
            sequences: What was sampled.
            advantages: One per sequence.
            weights: One per sequence; the mean over trained tokens is 1.
            options: How.
            reference: The decoder that a KL penalty refers to.

        Returns:
            Metrics of this update.

        Raises:
            BackendError: The loss or the gradient is not finite; the weights stay as they were.
        """
        batches = self._micro_batches(sequences)
        old = [_sampled_logprobs(sequences, batch) for batch in batches]
        shaped = [batch.per_token(advantages) for batch in batches]
        metrics: dict[str, float] = {}
        if reference is not None and options.kl_penalty_coef > 0:
            divergences = []
            for batch, sampled in zip(batches, old, strict=True):
                with torch.no_grad():
                    divergences.append(sampled - batch.score(reference)[0])
                yield
            mean = torch.cat(divergences).mean()
            shaped = [a + options.kl_penalty_coef * (mean - d) for a, d in zip(shaped, divergences, strict=True)]
            metrics["loss/kl_policy_ref"] = float(mean)
        count = sum(len(batch.rows) for batch in batches)
        sums = dict.fromkeys(("loss", "entropy", "ratio", "clipped"), 0.0)
        gap = 0.0
        low, high = options.loss.clip_range
        self._optimizer.zero_grad(set_to_none=True)
        for batch, sampled, advantage in zip(batches, old, shaped, strict=True):
            new, entropies = self._score(batch)
            gap = max(gap, float((new.detach() - sampled).abs().max()))
            moved = (new.detach() - sampled).abs() >= _ROUNDING
            ratios = options.loss.ratios(new, torch.where(moved, sampled, new.detach()), batch.rows)
            losses = options.loss(new, ratios, advantage) * batch.per_token(weights)
            torch.autograd.backward(losses.sum() / count)
            with torch.no_grad():
                sums["loss"] += float(losses.sum())
                sums["entropy"] += float(entropies.sum())
                sums["ratio"] += float(ratios.sum())
                sums["clipped"] += float(((ratios < low) | (ratios > high)).sum())
            yield
        rate = options.learning_rate_at(self._updates)
        norm = self._update(self._optimizer, sums["loss"] / count, rate, options.max_grad_norm, options.weight_decay)
        self._updates += 1
        return metrics | {
            "loss/train": sums["loss"] / count,
            "loss/grad_norm": norm,
            "loss/entropy": sums["entropy"] / count,
            "loss/learning_rate": rate,
            "loss/importance_ratio_mean": sums["ratio"] / count,
            "loss/clipped_token_fraction": sums["clipped"] / count,
            "offpolicy/max_logprob_gap": gap,
            "data/step_trainer_tokens": float(count),
        }

    def imitate(
        self, sequences: Sequence[TokenSequence], learning_rate: float, optimizer: torch.optim.AdamW
    ) -> Job[dict[str, float]]:
        """One update by demonstrations, as a job in slices of one micro-batch: cross-entropy, mean over targets.

        Args:
            sequences: What was demonstrated.
            learning_rate: Of this update.
            optimizer: Of the whole supervised phase, from `new_optimizer`; the policy's own knows nothing of it.

        Returns:
            Metrics of this update.

        Raises:
            BackendError: The loss or the gradient is not finite; the weights stay as they were.
        """
        optimizer.zero_grad(set_to_none=True)
        batches = self._micro_batches(sequences)
        count = sum(len(batch.rows) for batch in batches)
        total = 0.0
        for batch in batches:
            logprobs, _ = self._score(batch)
            torch.autograd.backward(-logprobs.sum() / count)
            total -= float(logprobs.detach().sum())
            yield
        norm = self._update(optimizer, total / count, learning_rate, _MAX_GRAD_NORM, weight_decay=0.0)
        return {"loss/train": total / count, "loss/grad_norm": norm, "loss/learning_rate": learning_rate}

    def save(self, directory: Path) -> None:
        """Write what was trained, the tokenizer and the optimiser's state."""
        # At once: most of it is waiting for a device or a disk.
        with ThreadPoolExecutor(2) as threads:
            for _ in threads.map(lambda write: write(directory), (self.weights.save, self._save_state)):
                pass

    def _save_state(self, directory: Path) -> None:
        # Each value of all parameters together, for hundreds of small tensors take longer. What else the optimiser's
        # state dict holds is settings, which each update brings along.
        state = self._optimizer.state_dict()["state"]
        values = {
            name: torch.cat([of[name].flatten() for of in state.values()]) for name in next(iter(state.values()), {})
        }
        # As one value: safetensors writes several in any order, and equal states are equal files.
        facts = {"updates": self._updates, "parameters": [*state]}
        write_tensors(directory / _STATE, values, {_FACTS: json.dumps(facts)})

    def load(self, directory: Path) -> None:
        """Go back to what `save` wrote: the next update is the one that would have followed.

        Raises:
            CheckpointError: Something in it is missing or damaged.
        """
        with reading(directory):
            with safe_open(directory / _STATE, framework="pt", device=str(self._settings.device)) as saved:
                values = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118 (it is no mapping)
                facts = json.loads(saved.metadata()[_FACTS])
                updates, indices = int(facts["updates"]), facts["parameters"]
            if not {*indices} <= {*range(len(self._parameters))}:
                raise ValueError("its optimiser's state is of other parameters")
            state: dict[int, dict[str, torch.Tensor]] = {index: {} for index in indices}
            for name, value in values.items():
                shapes = [() if name == "step" else self._parameters[index].shape for index in indices]
                counts = [math.prod(shape) for shape in shapes]
                if value.shape != (sum(counts),):
                    raise ValueError(f"{name!r} of its optimiser's state is of other parameters")
                parts = torch.split(value, counts)
                for index, shape, part in zip(indices, shapes, parts, strict=True):
                    state[index][name] = part.view(shape)
            self.weights.load(directory)
        self._updates = updates
        self._optimizer = self.new_optimizer()
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})

    def new_optimizer(self) -> torch.optim.AdamW:
        """AdamW over what is trained, without a past."""
        return torch.optim.AdamW(self._parameters, betas=_BETAS, weight_decay=0.0, fused=True)

    def _micro_batches(self, sequences: Sequence[TokenSequence]) -> list[TokenBatch]:
        settings = self._settings
        batches = micro_batches(sequences, settings.device, settings.micro_batch_tokens, idle_tokens=self._idle_tokens)
        return list(batches)

    def _score(self, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
        if self._graphs is not None:
            return self._graphs(batch)
        return batch.score(self.weights.decoder, self._settings.dtype)

    def _update(
        self,
        optimizer: torch.optim.AdamW,
        loss: float,
        learning_rate: float,
        max_grad_norm: float | None,
        weight_decay: float,
    ) -> float:
        norm = float(clip_grad_norm_(self._parameters, math.inf if max_grad_norm is None else max_grad_norm))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            optimizer.zero_grad(set_to_none=True)
            raise BackendError(
                f"the update has loss {loss!r} and gradient norm {norm!r}; the weights were left as they were",
                "look for rewards of extreme size, or lower the learning rate",
            )
        for group in optimizer.param_groups:
            group["lr"], group["weight_decay"] = learning_rate, weight_decay
        optimizer.step()
        return norm


def _sampled_logprobs(sequences: Sequence[TokenSequence], batch: TokenBatch) -> torch.Tensor:
    values = [logprob for member in batch.members for logprob in sequences[member].logprobs]
    return torch.tensor(values, device=batch.rows.device)
