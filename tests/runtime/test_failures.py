"""
Errors of a start that fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.error import BindError, CannotListenError, ConnectionRefusedError
from twisted.python.failure import Failure

from natsbroker.errors import BrokerError
from natsbroker.interfaces.records import StoreFailed
from natsbroker.runtime.failures import cannotListen, failureReason, listenDetail
from tests.server.support import logLines

TAKEN = OSError(98, "Address already in use")


class TestFailure:
    """The error about an address that cannot be listened on."""

    def test_text(self) -> None:
        """The error about a port in use has nats-server's words."""
        error = CannotListenError("127.0.0.1", 4222, TAKEN)
        assert str(cannotListen(error)) == (
            "Error listening on port: 127.0.0.1:4222, "
            '"listen tcp 127.0.0.1:4222: bind: address already in use"'
        )

    @pytest.mark.parametrize(
        ("host", "where"), [("", "0.0.0.0:1"), ("::1", "[::1]:1"), ("h", "h:1")]
    )
    def test_writtenPlace(self, host: str, where: str) -> None:
        """An IPv6 address is written in brackets."""
        error = CannotListenError(host, 1, TAKEN)
        assert listenDetail(error) == f"listen tcp {where}: bind: address already in use"

    def test_noNumber(self) -> None:
        """An error without a number has its own text."""
        error = CannotListenError("h", 1, OSError("odd"))
        assert listenDetail(error) == "listen tcp h:1: bind: odd"


class TestFailureReason:
    """The reason that is logged last when a start fails."""

    def reason(self, error: BaseException) -> str:
        try:
            raise error
        except BaseException:
            return failureReason(Failure())

    @pytest.mark.parametrize("kind", [BrokerError, StoreFailed, ValueError, OSError])
    def test_foreseen(self, kind: type[Exception]) -> None:
        """The text of an expected error is shown as it is."""
        assert self.reason(kind("no")) == "no"

    @pytest.mark.parametrize("kind", [ConnectionRefusedError, BindError])
    def test_network(self, kind: type[Exception]) -> None:
        """Errors of Twisted about connections and ports are logged with their text."""
        assert self.reason(kind("no")).endswith(": no.")

    @pytest.mark.parametrize("kind", [KeyError, SystemExit])
    def test_unforeseen(self, kind: type[BaseException], flushLoggedErrors: Any) -> None:
        """
        An unexpected error is logged with its type and place, and without its text, which may be a
        secret.
        """
        line = self.reason.__code__.co_firstlineno + 2
        with logLines(debug=True) as lines:
            reason = self.reason(kind("password"))
        assert reason == f"Cannot start: {kind.__name__} at {__file__}:{line} in reason"
        assert any("password" in line for line in lines)
        assert not any("password" in line for line in lines if "[DBG]" not in line)
        assert len(flushLoggedErrors(kind)) == 1

    def test_withoutPlace(self, flushLoggedErrors: Any) -> None:
        """A failure that was never raised has no place."""
        assert failureReason(Failure(KeyError("x"))) == "Cannot start: KeyError"
        assert len(flushLoggedErrors(KeyError)) == 1
