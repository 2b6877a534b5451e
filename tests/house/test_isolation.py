"""The tests' own walls."""

from __future__ import annotations

import os
import socket

import pytest


def test_a_test_cannot_leave_the_machine(reached_out: list[str]) -> None:
    """A suite that needs a network passes or fails by somebody else's weather."""
    with pytest.raises(ConnectionRefusedError, match="stay on this machine"):
        socket.create_connection(("192.0.2.1", 80))
    with pytest.raises(ConnectionRefusedError, match="stay on this machine"):
        socket.getaddrinfo("example.com", 443)

    assert reached_out == ["192.0.2.1", "example.com"]
    reached_out.clear()


def test_a_test_has_no_keys() -> None:
    """A forgotten double would spend a developer's money."""
    assert [name for name in os.environ if name.endswith("_API_KEY")] == []
