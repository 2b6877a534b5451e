"""The models that one backend has open."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.backends.torch.policy import Policy
from artkit.errors import BackendError, ConfigurationError

if TYPE_CHECKING:
    import art

    from artkit.backends.torch.policy_settings import PolicySettings

__all__ = ["OpenPolicies", "policy_key"]


def policy_key(model: art.Model[Any, Any]) -> tuple[str, str]:
    """Where ART keeps a model: under its run name, which openpipe-art 0.5.18 does not have."""
    return model.project, getattr(model, "run_name", None) or model.name


class OpenPolicies:
    """Policies by where they are kept, `(project, storage name)`; each is opened once, and by one caller at a time.

    It may be used from several event loops.

    Args:
        settings: How they are computed, and what of them is trained.
    """

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._policies: dict[tuple[str, str], Policy] = {}
        # Of threads, not of asyncio: a caller's loop may end while its policy is being opened. Reentrant, because the
        # garbage collector may drop the backend, and with it close this, in the thread that is opening.
        self._lock = threading.RLock()
        self._is_closed = False

    def get(self, key: tuple[str, str]) -> Policy | None:
        """The policy that is open under `key`."""
        return self._policies.get(key)

    async def open(self, key: tuple[str, str], *, name: str, base_model: str, directory: Path) -> Policy:
        """The policy under `key`, opened if it is not open yet.

        Cancelling the caller cannot stop the opening; the policy is then closed as soon as it is open.

        Raises:
            ConfigurationError: The base model cannot be used, or another policy is open under this key or name.
            BackendError: Another backend has the directory open, or this one was closed.
        """
        has_caller_left = threading.Event()
        try:
            return await asyncio.to_thread(self._open, key, name, base_model, directory, has_caller_left)
        finally:
            has_caller_left.set()

    def close(self) -> None:
        """Close every policy, one that is being opened included. Idempotent."""
        with self._lock:
            self._is_closed = True
            for policy in self._policies.values():
                policy.close()

    def _open(
        self, key: tuple[str, str], name: str, base_model: str, directory: Path, has_caller_left: threading.Event
    ) -> Policy:
        with self._lock:
            if self._is_closed:
                raise BackendError("the backend was closed meanwhile", "register the model again: that opens it")
            known = self._find(key, name, base_model)
            if known is not None:
                return known
            policy = Policy(name=name, base_model=base_model, directory=directory, settings=self._settings)
            if has_caller_left.is_set() or self._is_closed:
                policy.close()
            else:
                self._policies[key] = policy
            return policy

    def _find(self, key: tuple[str, str], name: str, base_model: str) -> Policy | None:
        for known, policy in self._policies.items():
            if (known, policy.name, policy.base.name) == (key, name, base_model):
                return policy
            if known == key:
                raise ConfigurationError(
                    f"{key!r} is registered already, as {policy.name!r} on {policy.base.name!r}",
                    "register it with the same name and base model, or give the new one another run_name (or name)",
                )
            if policy.name == name:
                raise ConfigurationError(
                    f"two models of this backend are named {name!r}, and the endpoint could not tell them apart",
                    "give one of them another name, or its own TorchBackend",
                )
        return None
