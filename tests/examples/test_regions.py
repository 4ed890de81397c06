"""
The policy that keeps regions apart: C{examples/regions.py}, run unchanged, and its class alone.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from typing import Any

import pytest

from examples.regions import RegionPlugin, RegionPolicy
from natsbroker.interfaces import IGatewayPolicyPlugin
from natsbroker.testing.contracts.gateways import gatewayPolicyTests
from tests.examples.running import running
from tests.routes.crossings import Town
from tests.support import Names, onEach, using

TestRegionPolicy = gatewayPolicyTests(lambda: RegionPolicy({"there": ["foo"]}), b"foo.bar")


@onEach
def test_stays(names: Names) -> None:
    """
    A message on a subject that is not shared is not sent to another cluster, in optimistic mode or
    on request.
    """
    with using(names):
        town = Town(RegionPolicy({"THERE": ["asia"]}))
        wire, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
        wire.say(b"RS+ A > q 1", b"RS+ A eu.> q 1", b"RS+ A eu.orders")
        for subject in (b"eu.orders", b"asia.orders", b"global.news", b"_INBOX.x"):
            town.publish(subject)
        assert [line for line in wire.lines() if line.startswith(b"RMSG")] == [
            b"RMSG A asia.orders | q 1",
            b"RMSG A global.news | q 1",
            b"RMSG A _INBOX.x | q 1",
        ]
        sent = [line for line in other.lines() if line.startswith(b"RMSG")]
        assert sent == [b"RMSG A global.news 1", b"RMSG A _INBOX.x 1"]


def test_plugin() -> None:
    """The plugin reads its section, and refuses an invalid one."""
    assert IGatewayPolicyPlugin.implementedBy(RegionPlugin)
    plugin: Any = RegionPlugin()
    table = plugin.makePolicy(None, {"shared": {"us": ["asia"]}}).connected("us", "A", False)
    assert [table.match(subject)[0] for subject in (b"asia.x", b"eu.x")] == [True, False]
    sections: list[dict[str, Any]] = [{"shared": []}, {"other": 1}]
    for section in sections:
        with pytest.raises(ValueError, match="the only option"):
            plugin.makePolicy(None, section)


class Client:
    """A client that can wait for lines."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()
        self.ask(b'CONNECT {"verbose":false}')

    def ask(self, *lines: bytes) -> list[bytes]:
        """Send lines and a PING, and return the output before the PONG."""
        self._socket.sendall(b"".join(line + b"\r\n" for line in (*lines, b"PING")))
        return list(iter(lambda: self._lines.readline().rstrip(), b"PONG"))

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self._socket.close()


@pytest.mark.slow
def test_runs() -> None:
    """In the two clusters of the docstring, global subjects arrive and others do not."""
    with (
        running("regions.py", "us", "0", "0", lines=2) as [port, there],
        running("regions.py", "eu", "0", "0", f"us=127.0.0.1:{there}", lines=2) as [other, _],
    ):
        listener, speaker = Client(port), Client(other)
        with closing(listener), closing(speaker):
            listener.ask(b"SUB > 1")
            heard: list[bytes] = []
            ends = time.monotonic() + 30
            while not heard and time.monotonic() < ends:
                speaker.ask(b"PUB eu.orders 2", b"no", b"PUB global.news 3", b"yes")
                time.sleep(0.1)
                heard = listener.ask()
            assert b"MSG global.news 1 3" in heard
            assert not any(b"eu.orders" in line for line in heard)
