"""
The broker in memory.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from zope.interface import implementer

from natsbroker.advisories import ClientConnected
from natsbroker.config.errors import ConfigErrors
from natsbroker.config.model import Settings
from natsbroker.interfaces import IBrokerService, IObserver
from natsbroker.testing.memory import MemoryBroker, MemoryReactor
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.support import Doorkeeper

QUIET = {"verbose": False, "pedantic": False}


def test_configurationWarning() -> None:
    """A warning that the broker would log about its configuration is a Python warning."""
    with pytest.warns(UserWarning, match="ping_interval should be converted to a duration"):
        MemoryBroker(configText="ping_interval: 60").stop()


class TestReactor:
    """The time and the threads of the reactor."""

    def test_everyCallAtItsTime(self) -> None:
        """Calls happen at their own times, also calls that others schedule."""
        reactor: MemoryReactor = MemoryReactor()  # type: ignore[no-untyped-call]
        times: list[float] = []

        def again() -> None:
            times.append(reactor.seconds())
            reactor.callLater(0.3, again)

        reactor.callLater(0.3, again)
        reactor.pass_(1.0)
        assert times == pytest.approx([0.3, 0.6, 0.9])
        assert reactor.seconds() == 1.0

    def test_nothingToDo(self) -> None:
        """Time passes although no call is scheduled."""
        reactor: MemoryReactor = MemoryReactor()  # type: ignore[no-untyped-call]
        reactor.pass_(5)
        assert reactor.seconds() == 5.0


class TestConnections:
    """Clients."""

    def test_talk(self) -> None:
        """Clients connect, publish and receive their messages."""
        with MemoryBroker() as broker:
            one, two = broker.connect(QUIET), broker.connect(QUIET)
            one.send(b"SUB foo 1\r\n")
            two.send(b"PUB foo 2\r\nhi\r\n")
            assert one.receive() == b"MSG foo 1 2\r\nhi\r\n"
            assert two.request(b"PI", b"NG\r\n") == b"PONG\r\n"
            assert (one.receive(), one.closed) == (b"", "")

    def test_info(self) -> None:
        """INFO is received as bytes, or is an attribute if the connection logs in itself."""
        with MemoryBroker() as broker:
            assert broker.connect().receive().startswith(b'INFO {"server_id"')
            connection = broker.connect(QUIET, host="10.0.0.9")
            assert connection.info["client_ip"] == "10.0.0.9"
            assert connection.info["host"] == "127.0.0.1"
            assert connection.receive() == b""

    def test_close(self) -> None:
        """A connection may be closed by either side."""
        with MemoryBroker() as broker:
            ours, theirs = broker.connect(QUIET), broker.connect(QUIET)
            ours.close()
            assert theirs.request(b"FOO\r\n").startswith(b"-ERR")
            assert (ours.closed, theirs.closed) == ("left", "lost")
            assert len(broker.broker.clientContext.connections) == 0

    def test_slow(self) -> None:
        """A receiver that does not read slows the sender down, and is disconnected at its limit."""
        with MemoryBroker(configText="max_pending: 2MB") as broker:
            slow, fast = broker.connect(QUIET), broker.connect(QUIET)
            slow.send(b"SUB foo 1\r\n")
            slow.taking = False
            message = b"PUB foo 600000\r\n" + b"x" * 600000 + b"\r\n"
            for _ in range(3):
                fast.request(message)
            read = [fast.isRead]
            broker.advance(0.2)
            read.append(fast.isRead)
            assert read == [False, True]
            for _ in range(3):
                fast.request(message)
            assert slow.closed == "aborted"

    def test_time(self) -> None:
        """Keep-alive PINGs come when the clock reaches their time."""
        with MemoryBroker(configText="ping_interval: '1m'") as broker:
            client = broker.connect(QUIET)
            broker.advance(1.9)
            assert client.receive() == b""
            broker.advance(1)
            assert client.receive() == b"PING\r\n"


class TestSettings:
    """The settings of the broker in memory."""

    def test_text(self) -> None:
        """The settings may be text in the configuration language, with variables."""
        text = "authorization { user: $WHO, password: secret }"
        with MemoryBroker(configText=text, environment={"WHO": "me"}) as broker:
            good = broker.connect({**QUIET, "user": "me", "pass": "secret"})
            bad = broker.connect({**QUIET, "user": "me", "pass": "wrong"})
            assert (good.closed, bad.closed) == ("", "lost")

    def test_hashedPassword(self) -> None:
        """A hashed password, which a real broker checks in a thread, is checked."""
        hashed = "$2a$04$0Mi0XtHO9ffzvZ/BV5Ib5.w0Y6OPwSCF.VCoMTH6KNkLVDEIB54ki"
        text = f"authorization {{ user: me, password: '{hashed}' }}"
        with MemoryBroker(configText=text) as broker:
            assert broker.connect({**QUIET, "user": "me", "pass": "wrong"}).closed == "lost"

    def test_values(self) -> None:
        """The settings may be given as a value."""
        with MemoryBroker(Settings(max_payload=3)) as broker:
            assert broker.connect(QUIET).info["max_payload"] == 3

    def test_notBoth(self) -> None:
        """A file and a text together are refused."""
        with pytest.raises(ValueError, match="not both"):
            MemoryBroker(Settings(), "max_payload: 3")

    def test_mistakes(self) -> None:
        """An error in the text is raised with its place."""
        with pytest.raises(ConfigErrors, match=r"memory\.conf:1:"):
            MemoryBroker(configText="max_payload: what")

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("config", "no argument config, but configText"),
            ("service", "no argument service, but services"),
            ("endpoints", "no argument endpoints, but .*configText.*settings"),
        ],
    )
    def test_unknown(self, name: str, text: str) -> None:
        """An unknown argument is refused with a list of the known ones."""
        arguments: Any = {name: None}
        with pytest.raises(TypeError, match=f"MemoryBroker has {text}"):
            MemoryBroker(**arguments)

    def test_talkMistakes(self) -> None:
        """A C{str} to send, and invalid options, are refused with the right spelling."""
        wrong: Any = "PING\r\n"
        with MemoryBroker() as broker:
            with pytest.raises(TypeError, match="a client sends is str, not bytes: write b'PING"):
                broker.connect().send(wrong)
            with pytest.raises(TypeError, match="of a CONNECT are a dict, not str"):
                broker.connect(wrong)

    def test_noSettings(self) -> None:
        """A text in place of settings is refused."""
        settings: Any = "port: 1"
        with pytest.raises(TypeError, match="the settings are of type str"):
            MemoryBroker(settings)

    def test_parts(self) -> None:
        """Parts of the broker can be replaced."""
        told: list[Any] = []

        @implementer(IObserver)
        class Observer:
            def observe(self, advisory: Any) -> None:
                told.append(advisory)

        keeper = Doorkeeper(lambda hello: Grant(user="somebody"))
        with MemoryBroker(authorizer=keeper, observers=[Observer()]) as broker:
            broker.connect(QUIET)
        assert told[0] == ClientConnected(1, "$G", "somebody")

    def test_bus(self) -> None:
        """Services inside the broker use its bus."""
        with MemoryBroker() as broker:
            client = broker.connect(QUIET)
            client.send(b"SUB foo 1\r\n")
            assert broker.bus().publish(Message(b"foo", b"hi")) == 1
            assert client.receive() == b"MSG foo 1 2\r\nhi\r\n"
            assert broker.bus(isLocal=True).kind is Kind.LOCAL

    @pytest.mark.parametrize("seed", [1, 2])
    def test_repeatable(self, seed: int) -> None:
        """With the same seed the same members of queue groups are chosen on the readable path."""

        def choices() -> bytes:
            with MemoryBroker(Settings(fast_lane=False), seed=seed) as broker:
                client = broker.connect(QUIET)
                for sid in range(5):
                    client.send(b"SUB foo q %d\r\n" % sid)
                return client.request(b"PUB foo 0\r\n\r\n" * 20)

        assert choices() == choices()


class TestStopping:
    """The end."""

    def test_stop(self) -> None:
        """Clients are disconnected, services are stopped, and new clients are refused."""
        events: list[str] = []

        class Noticing(Service):
            def stopService(self) -> None:
                events.append("stopped")

        @implementer(IBrokerService)
        class Plugin:
            name = "noticing"

            def makeService(self, host: Any, section: Any) -> Any:
                return Noticing()

        broker = MemoryBroker(services=[Plugin()])
        client = broker.connect(QUIET)
        broker.stop()
        assert (client.closed, events) == ("lost", ["stopped"])
        with pytest.raises(ConnectionRefusedError):
            broker.connect()

    def test_freed(self) -> None:
        """The memory of a stopped broker is freed."""
        with MemoryBroker() as broker:
            broker.connect(QUIET).send(b"SUB foo 1\r\nPUB foo 0\r\n\r\n")
        stopped = ref(broker.broker)
        del broker
        gc.collect()
        assert stopped() is None

    def test_stopWithoutATaker(self) -> None:
        """A client that does not read does not keep the broker from stopping."""
        broker = MemoryBroker()
        client = broker.connect(QUIET)
        client.taking = False
        client.send(b"PING\r\n")
        broker.stop()
        assert client.closed == "aborted"

    def test_neverStops(self) -> None:
        """A service that does not stop is a failure of the test."""

        class Stubborn(Service):
            def stopService(self) -> Any:
                return Deferred()

        broker = MemoryBroker()
        Stubborn().setServiceParent(broker.broker)  # type: ignore[no-untyped-call]
        with pytest.raises(TimeoutError, match="does not stop"):
            broker.stop()
