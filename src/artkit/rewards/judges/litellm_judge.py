"""A judge by its LiteLLM name, as ART takes it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from artkit.bridge import error_chain
from artkit.errors import ConfigurationError
from artkit.rewards.judges.judge import JudgeReply, Messages, read_completion
from artkit.secrets import is_secret_name, known_secret

__all__ = ["LiteLLMJudge"]

# Who is asked where a name says no provider, and what each provider's key is called; one of several will do.
_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_API_KEY",),
        "azure": ("AZURE_API_KEY",),
        "azure_ai": ("AZURE_AI_API_KEY",),
        "cerebras": ("CEREBRAS_API_KEY",),
        "cohere": ("COHERE_API_KEY",),
        "cohere_chat": ("COHERE_API_KEY",),
        "dashscope": ("DASHSCOPE_API_KEY",),
        "deepinfra": ("DEEPINFRA_API_KEY",),
        "deepseek": ("DEEPSEEK_API_KEY",),
        "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
        "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "groq": ("GROQ_API_KEY",),
        "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
        "mistral": ("MISTRAL_API_KEY",),
        "moonshot": ("MOONSHOT_API_KEY",),
        "openai": ("OPENAI_API_KEY",),
        "openrouter": ("OPENROUTER_API_KEY",),
        "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
        "sambanova": ("SAMBANOVA_API_KEY",),
        "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
        "wandb": ("WANDB_API_KEY",),
        "xai": ("XAI_API_KEY",),
    }
)


class LiteLLMJudge:
    """Asks a model by its LiteLLM name; litellm's own retries and cache are off: they have one owner.

    Args:
        model: Such as "openai/gpt-5.4" or "ollama/qwen3:32b".
        extra_params: Further arguments of `litellm.acompletion`, such as `api_base`, `api_key`, `temperature`.

    Raises:
        ConfigurationError: `model` is no name, or `extra_params` no mapping.
    """

    def __init__(self, model: str, extra_params: Mapping[str, object] | None = None) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ConfigurationError(f"judge_model={model!r} is no name", 'give one such as "openai/gpt-5.4"')
        if extra_params is not None and not isinstance(extra_params, Mapping):
            raise ConfigurationError(
                f"extra_litellm_params={extra_params!r} is no mapping", 'give one such as {"api_base": "http://…"}'
            )
        self.model = model
        self.extra_params = dict(extra_params or {})
        for name, value in self.extra_params.items():
            if is_secret_name(name):
                known_secret(value)

    async def __call__(self, messages: Messages) -> JudgeReply:
        litellm = _litellm()
        arguments: dict[str, Any] = {"num_retries": 0, "max_retries": 0, "caching": False, **self.extra_params}
        try:
            response = await litellm.acompletion(model=self.model, messages=messages, **arguments)
        except Exception as error:
            _keep_code(error)
            raise
        reply = read_completion(response)
        cost_usd = _cost_usd(litellm, response)
        if not cost_usd and not reply.prompt_tokens:  # where no tokens are reported, litellm finds them free
            cost_usd = None
        return dataclasses.replace(reply, cost_usd=cost_usd, model=self.model, response=response)

    @property
    def required_environment(self) -> tuple[str, ...]:
        """The variable that holds the key, where the provider is known and needs one."""
        if self.extra_params.get("api_key"):
            return ()
        provider, separator, _ = self.model.partition("/")
        names = _KEYS.get(provider.strip().lower() if separator else _guessed_provider(self.model), ())
        return () if any(os.environ.get(name) for name in names[1:]) else names[:1]

    @property
    def sees_pictures(self) -> bool:
        """Whether litellm knows the model to see."""
        return bool(_litellm().supports_vision(model=self.model))

    def __repr__(self) -> str:
        return f"LiteLLMJudge({self.model!r})"


def _litellm() -> Any:
    import litellm

    # Otherwise it prints, on every call of a model that its price list does not have.
    litellm.suppress_debug_info = True
    return litellm


def _guessed_provider(model: str) -> str:
    try:
        return str(_litellm().get_llm_provider(model)[1])
    except Exception:  # noqa: BLE001  # litellm raises a BadRequestError of its own making; the first call will tell
        return ""


def _cost_usd(litellm: Any, response: object) -> float | None:
    try:
        return float(litellm.completion_cost(completion_response=response))
    except Exception:  # noqa: BLE001  # it raises plain Exceptions for a model without a price
        return None


def _keep_code(error: Exception) -> None:
    """Give litellm's error the server's code for an exhausted quota: without it, it looks like any 429."""
    code = "insufficient_quota"
    if hasattr(error, "code") and any(getattr(link, "code", None) == code for link in error_chain(error)):
        error.code = code
