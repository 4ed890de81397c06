"""
Tests for L{natsbroker.testing.process}.
"""

from __future__ import annotations

import os
import socket

import pytest

from natsbroker.testing.process import DidNotStart, startBroker


def test_serves() -> None:
    """A started broker greets a client, and its process ends when it is stopped."""
    with startBroker("-n", "mine") as broker:
        with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
            assert b'"server_name":"mine"' in client.recv(4096)
        assert broker.url == f"nats://127.0.0.1:{broker.port}"
        assert "Server is ready" in broker.log
    with pytest.raises(ProcessLookupError):
        os.kill(broker.pid, 0)


def test_doesNotStart() -> None:
    """One that cannot start says why."""
    with pytest.raises(DidNotStart, match="no-such-file"):
        startBroker("-c", "no-such-file.conf")


def test_stopsTwice() -> None:
    """Stopping again does nothing and tells the same status."""
    broker = startBroker()
    assert broker.stop() == broker.stop()
