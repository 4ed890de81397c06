"""
Sockets that another process passes on: which variables are taken, and what they change.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from natsbroker.config.errors import ConfigError, ConfigErrors
from natsbroker.config.model import Settings, changed
from natsbroker.server.configuration.build import buildText
from natsbroker.server.configuration.passedsockets import NAMES, listeningAt, passedSockets

PID = 42

Pass = Callable[..., dict[str, socket.socket]]


@pytest.fixture
def passing() -> Iterator[Pass]:
    """
    @return: a function that passes sockets under the test's numbers, and returns the sockets that
    are taken.
    """
    # Behind those that are open, with room for those that the test opens.
    first = max(int(descriptor) for descriptor in os.listdir("/proc/self/fd")) + 32
    with ExitStack() as stack:

        def take(*sockets: Any, **variables: str) -> dict[str, socket.socket]:
            for place, held in enumerate(sockets):
                with held:
                    os.dup2(held.fileno(), first + place)
            given = {"LISTEN_PID": str(PID), "LISTEN_FDS": str(len(sockets)), **variables}
            try:
                taken = passedSockets(given, PID, first)
            except ConfigError:
                for place in range(len(sockets)):
                    if _isOpen(first + place):
                        os.close(first + place)
                raise
            for passed in taken.values():
                stack.enter_context(passed)
            return taken

        yield take


def _isOpen(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def listening(host: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family)


class TestPassed:
    """Which sockets are passed."""

    def test_namedSockets(self, passing: Pass) -> None:
        """Each passed socket is found by its name, and is not inherited by other programs."""
        one, other = listening(), listening()
        addresses = [one.getsockname(), other.getsockname()]
        taken = passing(one, other, LISTEN_FDNAMES="websocket:client")
        assert list(taken) == ["websocket", "client"]
        assert [passed.getsockname() for passed in taken.values()] == addresses
        assert not any(passed.get_inheritable() for passed in taken.values())

    def test_withoutNames(self, passing: Pass) -> None:
        """A single socket without a name is for clients."""
        assert list(passing(listening())) == ["client"]

    def test_zeroSockets(self, passing: Pass) -> None:
        """A count of 0 means that there is no socket."""
        assert passing() == {}
        assert passing(LISTEN_FDNAMES="") == {}

    @pytest.mark.parametrize("variables", [{}, {"LISTEN_PID": "41", "LISTEN_FDS": "1"}])
    def test_anotherProcess(self, variables: dict[str, str]) -> None:
        """Variables that are meant for another process are ignored."""
        assert passedSockets(variables, PID) == {}

    @pytest.mark.parametrize(
        ("variables", "reason"),
        [
            ({"LISTEN_FDS": "x"}, 'LISTEN_FDS: "x" is not a number of sockets'),
            ({"LISTEN_FDS": "-1"}, 'LISTEN_FDS: "-1" is not a number of sockets'),
            ({"LISTEN_FDS": "2"}, "LISTEN_FDNAMES: 2 sockets need names: client, monitoring, "),
            ({"LISTEN_FDNAMES": "client:websocket"}, "LISTEN_FDNAMES: 2 names for 1 sockets"),
            (
                {"LISTEN_FDNAMES": "natsbroker.socket"},
                'LISTEN_FDNAMES: no listener is called "natsbroker.socket"; the names are client, ',
            ),
            (
                {"LISTEN_FDS": "2", "LISTEN_FDNAMES": "client:client"},
                'LISTEN_FDNAMES: more than one socket is called "client"',
            ),
        ],
    )
    def test_unusableVariables(self, passing: Pass, variables: dict[str, str], reason: str) -> None:
        """Variables that make no sense are refused, and the reason names the variable."""
        with pytest.raises(ConfigError) as refused:
            passing(listening(), **variables)
        assert str(refused.value).startswith(reason)

    def test_closed(self, passing: Pass) -> None:
        """A number that is no descriptor is refused."""
        with pytest.raises(ConfigError, match=r"^LISTEN_FDS: client is .*: bad file descriptor$"):
            passing(LISTEN_FDS="1")

    @pytest.mark.parametrize(
        "other",
        [
            lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        ],
        ids=["not listening", "datagrams", "in the file system"],
    )
    def test_otherSockets(self, passing: Pass, other: Callable[[], socket.socket]) -> None:
        """Only TCP sockets that listen are taken."""
        with pytest.raises(ConfigError, match="is not a listening TCP socket"):
            passing(other())


def at(text: str, **sockets: socket.socket) -> Settings:
    """
    @return: the settings of a configuration with these sockets.
    """
    with ExitStack() as stack:
        for passed in sockets.values():
            stack.enter_context(passed)
        override = listeningAt(sockets, lambda settings: settings)
        return buildText(text, {}, override=override).settings


class TestAddresses:
    """Passed sockets in the settings."""

    def test_kindsOfListeners(self) -> None:
        """Each kind of listener has the address of its socket."""
        given = {name: listening() for name in NAMES}
        addresses = {name: passed.getsockname() for name, passed in given.items()}
        settings: Any = at(
            "server_name: s\ncluster { name: c }\ngateway { name: c, port: 1 }\nleafnodes {}\n"
            "websocket { port: 1, no_tls: true }\nmqtt { port: 1 }",
            **given,
        )
        monitoring = settings.monitoring
        assert (settings.host, settings.port) == addresses.pop("client")
        assert (monitoring.http_host, monitoring.http_port) == addresses.pop("monitoring")
        for name, address in addresses.items():
            block = getattr(settings, name)
            assert (block.host, block.port) == address

    def test_flags(self) -> None:
        """The socket wins over the flags of the command line."""
        with listening() as passed:
            override = listeningAt({"client": passed}, lambda _: Settings(host="h", port=1))
            assert override(Settings()).port == passed.getsockname()[1]

    def test_bothFamilies(self) -> None:
        """
        A passed socket that listens on all addresses of both families keeps the configured host.
        """
        if not socket.has_dualstack_ipv6():
            pytest.skip("no IPv6")
        passed = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        assert at("", client=passed).host == "0.0.0.0"
        assert at("", client=listening("::")).host == "::"

    def test_secureMonitoring(self) -> None:
        """A passed socket for monitoring over TLS replaces the port of HTTPS."""
        secure = changed(Settings(), "monitoring.https_port", 1)
        with listening() as passed:
            monitoring = listeningAt({"monitoring": passed}, lambda _: secure)(secure).monitoring
            assert (monitoring.http_port, monitoring.https_port) == (0, passed.getsockname()[1])

    def test_checks(self) -> None:
        """The checks of the configuration see the address of the passed socket."""
        with pytest.raises(ConfigErrors, match=r"pages on 0\.0\.0\.0"):
            at("http: 127.0.0.1:1, insecure_monitor: false", monitoring=listening("0.0.0.0"))

    @pytest.mark.parametrize("name", ["cluster", "gateway", "leafnodes", "websocket", "mqtt"])
    def test_missingBlock(self, name: str) -> None:
        """A socket for a listener without configuration is refused."""
        with pytest.raises(ConfigError, match=f"{name}: the configuration has no such block"):
            at("", **{name: listening()})

    def test_otherServer(self) -> None:
        """A passed socket for clients is refused if clients use another NATS server."""
        text = 'streaming { cluster_id: c, nats_server_url: "nats://127.0.0.1:4222" }'
        with pytest.raises(ConfigError, match="client: clients use the server of"):
            at(text, client=listening())
