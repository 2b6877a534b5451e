"""The embedded backend: ART's `Backend` protocol in one process."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from art import Backend, TrainResult

from artkit.backends.torch.chat_service import ChatService
from artkit.backends.torch.open_policies import OpenPolicies, policy_key
from artkit.backends.torch.policy_settings import PolicySettings
from artkit.backends.torch.sampling_client import TorchSamplingClient
from artkit.backends.torch.train_options import TrainOptions
from artkit.backends.torch.training import imitate, reinforce
from artkit.backends.torch.worker import Worker
from artkit.bridge import forget_client
from artkit.errors import BackendError, ConfigurationError
from artkit.transport import OpenAISamplingClient

if TYPE_CHECKING:
    import art

    from artkit.backends.torch.lora_settings import LoraSettings
    from artkit.backends.torch.policy import Policy
    from artkit.transport import SamplingClient

__all__ = ["TorchBackend"]


class TorchBackend(Backend):
    """Serves and trains small models in this process, on CPU or CUDA.

    What a script is developed on before it moves to ART's `LocalBackend` or `ServerlessBackend`: the same calls, the
    same endpoint, checkpoints in the same places.

    Args:
        path: Where models are kept: `<path>/<project>/models/<run name>/checkpoints/<step>`.
        device: `"cpu"`, `"cuda"`, … or `"auto"`: CUDA where there is one.
        dtype: `"float32"` or `"bfloat16"`: what is served, and what a forward pass computes in. What is trained is kept
            in float32, as are its checkpoints, log probabilities and losses, so a run may go on in the other dtype.
        lora: Train adapters (`LoraSettings()`) and leave the base model as it is; None trains all parameters. A model
            keeps what it began with. Checkpoints are peft's adapters; what is served has them merged in.
        micro_batch_tokens: Tokens of one forward and backward pass; a prompt that several sequences share counts once.
            An update accumulates over as many passes as it takes; this bounds memory and changes no result. None: 2048
            on a CPU, 16,384 on a GPU.
        seed: What the micro model's weights, adapters, and requests without a seed are drawn from.

    Raises:
        ConfigurationError: The device is not there, or an argument cannot work.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".art",
        device: str = "auto",
        dtype: Literal["float32", "bfloat16"] = "float32",
        *,
        lora: LoraSettings | None = None,
        micro_batch_tokens: int | None = None,
        seed: int = 0,
    ) -> None:
        self._path = Path(path)
        self._settings = PolicySettings.of(
            seed=seed, device=device, dtype=dtype, lora=lora, micro_batch_tokens=micro_batch_tokens
        )
        self._open()

    def _open(self) -> None:
        self._policies = OpenPolicies(self._settings)
        self._worker = Worker()
        self._service = ChatService(self._worker)
        self._is_closed = False
        # Runs on `close`, when the backend is dropped, and when the interpreter ends: whichever comes first.
        self._release = weakref.finalize(self, _release, self._worker, self._service, self._policies)

    def __repr__(self) -> str:
        arguments = {"path": str(self._path.resolve()), **self._settings.arguments()}
        return f"TorchBackend({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    @property
    def path(self) -> Path:
        """Where models are kept."""
        return self._path

    async def register(self, model: art.Model[Any, Any]) -> None:
        """Open a model: its newest checkpoint, or that of step 0, which is written. A second time changes nothing.

        A backend that was closed opens again.

        Raises:
            ConfigurationError: `model.base_model` cannot be used here, or another registered model has the same name.
            BackendError: Another backend has the model open.
        """
        if self._is_closed:
            self._open()
        # As ART's LocalBackend does: logs and state go beside the checkpoints.
        model.base_path = str(self._path)
        directory = self._directory(model)
        directory.mkdir(parents=True, exist_ok=True)
        if not model.trainable:
            return
        worker, service = self._worker, self._service
        policy = await self._policies.open(
            policy_key(model),
            name=model.name,
            base_model=cast("art.TrainableModel[Any, Any]", model).base_model,
            directory=directory,
        )
        if not policy.is_small:
            worker.use_threads(os.cpu_count() or 1)
        service.serve(policy)

    async def train(  # type: ignore[override]  # ART's protocol takes any option; here they are named.
        self,
        model: art.TrainableModel[Any, Any],
        trajectory_groups: Iterable[art.TrajectoryGroup],
        *,
        learning_rate: float = 5e-6,
        loss_fn: Literal["cispo", "ppo"] = "cispo",
        epsilon: float | None = None,
        epsilon_high: float | None = None,
        importance_sampling_level: Literal["token", "sequence"] = "token",
        scale_rewards: bool = True,
        kl_penalty_coef: float = 0.0,
        kl_penalty_reference_step: int | None = None,
        max_grad_norm: float | None = 1.0,
        weight_decay: float = 0.0,
        warmup_steps: int = 0,
        decay_steps: tuple[int, int] | None = None,
    ) -> TrainResult:
        """Take one optimiser step of GRPO on finished groups, and save and serve the result as the next step.

        Where no group has different rewards, the next step is a copy of this one (`data/step_num_gradient_steps` 0).
        Options that ART's LocalBackend has too carry its names and its defaults.

        Args:
            model: A registered model.
            trajectory_groups: The groups; their choices as they came from this backend.
            learning_rate: AdamW's, at its height.
            loss_fn: See `PolicyLoss`, as for the next three.
            epsilon: How far below 1 an importance ratio counts.
            epsilon_high: How far above 1.
            importance_sampling_level: A ratio per token, or per sequence.
            scale_rewards: Whether a group's centred rewards are divided by their standard deviation.
            kl_penalty_coef: How much a token's advantage falls with its log probability's rise over the reference,
                relative to the batch.
            kl_penalty_reference_step: The reference: a step with a checkpoint, or None for the base model.
            max_grad_norm: The gradient is scaled down to this norm; None leaves it.
            weight_decay: AdamW's.
            warmup_steps: Over how many of the model's first updates the learning rate rises to its height.
            decay_steps: `(first, last)`: between these updates it falls linearly to a tenth, and stays there.

        Returns:
            The new step, and metrics: `loss/…`, `offpolicy/max_logprob_gap` (the largest difference between a token's
            log probability when it was sampled and now), `data/…`, `time/step_trainer_s`.

        Raises:
            ConfigurationError: An option cannot work.
            BackendError: No choice can be trained on, the update is not finite, or the checkpoint cannot be written;
                the weights stay as they were.
        """
        policy = self._policy(model)
        options = TrainOptions.of(
            {
                "learning_rate": learning_rate,
                "loss_fn": loss_fn,
                "epsilon": epsilon,
                "epsilon_high": epsilon_high,
                "importance_sampling_level": importance_sampling_level,
                "scale_rewards": scale_rewards,
                "kl_penalty_coef": kl_penalty_coef,
                "kl_penalty_reference_step": kl_penalty_reference_step,
                "max_grad_norm": max_grad_norm,
                "weight_decay": weight_decay,
                "warmup_steps": warmup_steps,
                "decay_steps": decay_steps,
            }
        )
        with policy.training():
            step, metrics = await self._worker.run(reinforce(policy, list(trajectory_groups), options))
        return TrainResult(step=step, metrics=metrics)

    def check_train_options(self, options: Mapping[str, Any]) -> None:
        """Refuse, before anything is sampled, what `train` would refuse of these options, by their names there.

        Raises:
            ConfigurationError: An option is unknown, or cannot work.
        """
        TrainOptions.of(options)

    async def checkpoint_steps(self, model: art.TrainableModel[Any, Any]) -> frozenset[int]:
        """The steps of a registered model that have a whole checkpoint."""
        return self._policy(model).checkpoints.steps()

    def sampling_client(self, model: art.Model[Any, Any]) -> SamplingClient:
        """A client that samples from a registered model in this process, without HTTP.

        A model that is registered here for its logs only is sampled at its own endpoint.
        """
        if not model.trainable:
            return OpenAISamplingClient(model)
        self._policy(model)
        return TorchSamplingClient(self._service)

    async def close(self) -> None:
        """End the endpoint and the computing; requests in flight fail. Idempotent."""
        self._is_closed = True
        await asyncio.to_thread(self._release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # The rest of ART's protocol, called by ART's own objects.

    def _model_inference_name(self, model: art.Model[Any, Any], step: int | None = None) -> str:
        policy = self._policies.get(policy_key(model))
        if policy is None:
            name = model.inference_model_name or model.name
            return name if step is None else f"{name}@{step}"
        if step is None:
            step = policy.step if policy.leases.pinned is None else policy.leases.pinned
        return f"{model.name}@{step}"

    async def _get_step(self, model: art.TrainableModel[Any, Any]) -> int:
        return self._policy(model).step

    async def _delete_checkpoint_files(
        self, model: art.TrainableModel[Any, Any], steps_to_keep: Collection[int]
    ) -> None:
        await asyncio.to_thread(self._policy(model).forget, keep=frozenset(steps_to_keep))

    async def _prepare_backend_for_training(
        self, model: art.TrainableModel[Any, Any], config: object = None
    ) -> tuple[str, str]:
        self._policy(model)
        if config:
            raise ConfigurationError(
                f"the embedded endpoint cannot be configured, and got {config!r}", "register without a config"
            )
        endpoint = await asyncio.to_thread(self._service.endpoint)
        if endpoint != (model.inference_base_url, model.inference_api_key):
            await forget_client(model)
        return endpoint

    async def _train_sft(
        self,
        model: art.TrainableModel[Any, Any],
        trajectories: Iterable[art.Trajectory],
        config: art.TrainSFTConfig,
        dev_config: object,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        del dev_config, verbose  # The first says who logs, which is ART here; nothing is printed.
        policy = self._policy(model)
        demonstrations = list(trajectories)
        if not demonstrations:
            return
        with policy.training():
            async with aclosing(imitate(policy, self._worker, demonstrations, config)) as batches:
                async for metrics in batches:
                    yield metrics

    @asynccontextmanager
    async def exact_adapter_lease(self, model: art.TrainableModel[Any, Any], step: int) -> AsyncIterator[None]:
        """Within it, the model's inference name is that of `step`, whose checkpoint is not deleted.

        Raises:
            CheckpointError: There is no checkpoint of that step.
        """
        with self._policy(model).lease(step):
            yield

    def _policy(self, model: art.Model[Any, Any]) -> Policy:
        if self._is_closed:
            raise BackendError("the backend was closed", "register the model again: that opens it")
        policy = self._policies.get(policy_key(model))
        if policy is None:
            raise BackendError(
                f"the model {model.name!r} is not registered with this backend", "await model.register(backend) first"
            )
        return policy

    def _directory(self, model: art.Model[Any, Any]) -> Path:
        project, storage_name = policy_key(model)
        return self._path / project / "models" / storage_name


def _release(worker: Worker, service: ChatService, policies: OpenPolicies) -> None:
    worker.stop()
    service.stop()
    policies.close()
