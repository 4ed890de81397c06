"""
The session of one client: its options, its changes, and its description for services.

The conformance table has most of it; these tests have the rest.
"""

from __future__ import annotations

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.config.model import Logging, Settings
from natsbroker.interfaces import IOrigin
from natsbroker.runtime.debugging import debugging
from tests.clients.lines import info, msg, pub
from tests.support import (
    HEADERS,
    QUIET,
    World,
    onEach,
)

pytestmark = pytest.mark.usefixtures("implementation")


@onEach
@pytest.mark.parametrize("isShown", [True, False])
def test_debugging(monkeypatch: pytest.MonkeyPatch, isShown: bool) -> None:
    """The beginning and the end of a connection are logged at the debug level."""
    monkeypatch.setattr(debugging, "isShown", isShown)
    told: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        told.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        wire = World().client()
        wire.transport.hangUp()
        assert wire.closed == "left"
    finally:
        globalLogPublisher.removeObserver(observe)
    ours = [text.partition(" - ")[2] for text in told if "Client connection" in text]
    expected = ["cid:1 - Client connection created", "cid:1 - Client connection closed: "]
    assert [text.removesuffix("Client Closed") for text in ours] == (expected if isShown else [])


@onEach
class TestOptions:
    """Options of CONNECT."""

    def test_echo(self) -> None:
        """A client with C{"echo":false} receives no messages of its own."""
        world = World()
        wire = world.client(b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n')
        wire.ask(b"SUB foo 1\r\n")
        assert wire.ask(pub(b"foo", b"mine")) == b""
        world.client().ask(pub(b"foo", b"theirs"))
        assert wire.receive() == msg(b"foo", b"1", b"theirs")

    def test_protocol(self) -> None:
        """The answer to the first PING of a newer client is followed by INFO, once."""
        wire = World().client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        pong, _, rest = wire.ask(b"PING\r\n").partition(b"\r\n")
        assert pong == b"PONG"
        fields = info(rest)
        assert (fields["connect_info"], fields["remote_account"]) == (True, "$G")
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"

    def test_noResponders(self) -> None:
        """A request without responders is answered at its reply subject."""
        wire = World().client(HEADERS)
        wire.ask(b"SUB _INBOX.* 5\r\n")
        block = b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n"
        assert wire.ask(pub(b"nobody", b"", b"_INBOX.x")) == (
            b"HMSG _INBOX.x 5 38 38\r\n" + block + b"\r\n"
        )
        assert wire.ask(pub(b"nobody", b"")) == b""
        assert wire.ask(pub(b"nobody", b"", b"elsewhere")) == b""

    def test_headersSwitchedOff(self) -> None:
        """
        A server without headers disconnects a client that sends HPUB, and refuses C{no_responders}.
        """
        world = World(Settings(no_header_support=True))
        wire = world.client(b'CONNECT {"verbose":false,"headers":true}\r\n')
        assert (wire.ask(b"HPUB foo 1 1\r\nx\r\n"), wire.closed) == (b"", "lost")
        other = world.dial()
        other.receive()
        answer = other.ask(b'CONNECT {"headers":true,"no_responders":true}\r\n')
        assert answer == b"-ERR 'no responders requires headers support'\r\n"

    def test_pedantic(self) -> None:
        """
        A pedantic client gets the error for an invalid subject before its payload has arrived.
        """
        wire = World().client(b'CONNECT {"verbose":false}\r\n')
        assert wire.ask(b"PUB foo.* 2\r\n") == b"-ERR 'Invalid Publish Subject'\r\n"
        assert wire.ask(b"hi\r\nPING\r\n") == b"PONG\r\n"


@onEach
class TestChanges:
    """Settings that change while clients are connected."""

    def test_limits(self) -> None:
        """Changed limits apply to connected clients."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB a 1\r\n")
        world.context.settings = Settings(
            max_payload=5,
            max_subscriptions=1,
            max_sub_tokens=2,
            max_control_line=20,
            max_pending=77,
        )
        wire.session.limitsChanged()
        assert wire.session.outbox.limit == 77
        assert wire.ask(b"SUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert b"too many tokens" in wire.ask(b"SUB a.b.c 2\r\n")
        assert wire.ask(pub(b"a", b"12345")) == msg(b"a", b"1", b"12345")
        assert wire.ask(b"PUB a 6\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_limitsOfTheLane(self) -> None:
        """A payload that was allowed before is refused when the limit shrinks."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB a 1\r\n" + pub(b"a", b"123456") * 3)
        world.context.settings = Settings(max_payload=5)
        wire.session.limitsChanged()
        assert wire.ask(pub(b"a", b"123456")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_controlLine(self) -> None:
        """A shorter control line applies to the next line."""
        world = World()
        wire = world.client()
        world.context.settings = Settings(max_control_line=10)
        wire.session.limitsChanged()
        assert wire.ask(pub(b"a" * 9, b"")) == b"-ERR 'maximum control line exceeded'\r\n"

    def test_pingInterval(self) -> None:
        """A shorter ping interval applies at once."""
        world = World()
        wire = world.client()
        world.advance(3)
        wire.ask(b"PONG\r\n")
        world.context.settings = Settings(ping_interval=5.0)
        wire.session.limitsChanged()
        world.advance(5.1)
        assert wire.receive() == b"PING\r\n"

    def test_beforeLogin(self) -> None:
        """Changed limits apply to a connection before its login too."""
        world = World()
        wire = world.dial()
        wire.receive()
        world.context.settings = Settings(max_control_line=10)
        wire.session.limitsChanged()
        assert wire.ask(b'CONNECT {"name":"x"}\r\n') == (
            b"-ERR 'maximum control line exceeded'\r\n"
        )

    def test_lameDuck(self) -> None:
        """Clients that support lame duck mode are notified of it, and others are not."""
        world = World()
        new = world.client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        old, silent = world.client(), world.dial()
        silent.receive()
        world.context.info = world.context.info.changed(ldm=True)
        for session in (new, old, silent):
            session.session.sendInfo()
        fields = info(new.receive())
        assert fields["ldm"] is True
        assert "connect_info" not in fields
        assert (old.receive(), silent.receive()) == (b"", b"")

    def test_tracing(self) -> None:
        """Messages are delivered when tracing is switched on and off."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        for traced in (True, False):
            world.context.settings = Settings(logging=Logging(trace=traced))
            wire.session.tracingChanged()
            assert wire.ask(pub(b"foo", b"x")) == msg(b"foo", b"1", b"x")


@onEach
class TestClientInfo:
    """The description of a client for services of other accounts."""

    def test_remembered(self) -> None:
        """The description is computed once, and again after a change."""
        world = World()
        wire = world.client(b'CONNECT {"verbose":false,"name":"n"}\r\n')
        session = wire.session
        assert verifyObject(IOrigin, session)
        info = session.clientInfo(False)
        assert session.clientInfo(False) is info
        assert (session.clientInfo(True).name, session.clientInfo(False).name) == ("n", "")
        world.advance(3)
        wire.ask(b"PONG\r\n")
        assert session.clientInfo(False).rtt > info.rtt

    def test_firstEstimate(self) -> None:
        """
        Before the first measurement, the round trip is the time until the client sent CONNECT.
        """
        world = World()
        wire = world.dial()
        world.clock.advance(0.25)
        wire.ask(QUIET)
        assert wire.session.roundTrip == 0.25
