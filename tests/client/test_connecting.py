"""
The connection of a client.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.endpoints import clientFromString
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.ssl import CertificateOptions, optionsForClientTLS
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from zope.interface import implementer

from natsbroker.client.client import Client
from natsbroker.client.connecting import connect, connectInProcess
from natsbroker.client.errors import ClientError, ServerError
from natsbroker.client.options import ConnectOptions
from natsbroker.testing.memory import MemoryBroker
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.support import Doorkeeper

REFUSED: Exception = ConnectionRefusedError()

INFO = b'INFO {"server_id":"S"} \r\n'


@implementer(IStreamClientEndpoint)
class Endpoint:
    """
    An endpoint whose connection the test opens, or not.

    @ivar cancelled: whether the attempt was cancelled.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.cancelled = False
        self.dialling: Deferred[Any] = Deferred(self._cancel)
        self.factory: Any = None
        self.transport: Any = None

    def _cancel(self, deferred: object) -> None:
        self.cancelled = True

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        self.factory = protocolFactory
        return self.dialling

    def open(self) -> None:
        """Open the connection."""
        protocol = self.factory.buildProtocol(None)
        self.transport = MemoryTransport(self.clock, protocol)
        self.transport.connect()
        self.dialling.callback(protocol)


class Dialling:
    """A client that connects over this endpoint."""

    def __init__(self, **more: Any) -> None:
        self.clock = Clock()
        self.endpoint = Endpoint(self.clock)
        self.outcomes: list[Any] = []
        self.connecting = connect(self.endpoint, reactor=self.clock, **more)
        self.connecting.addBoth(self.outcomes.append)

    @property
    def error(self) -> Any:
        """The exception of the only outcome."""
        [outcome] = self.outcomes
        return outcome.value


class TestEndpoint:
    """A connection over an endpoint."""

    def test_connected(self) -> None:
        """
        The client is ready when the server has accepted it, and leaves no timer after it closes.
        """
        dialling = Dialling(options=ConnectOptions(name="me"))
        dialling.endpoint.open()
        dialling.endpoint.transport.send(INFO)
        assert dialling.outcomes == []
        dialling.endpoint.transport.send(b"PONG\r\n")
        [client] = dialling.outcomes
        assert isinstance(client, Client) and client.isOpen
        dialling.clock.advance(0)
        assert b'"name":"me"' in dialling.endpoint.transport.take()
        client.close()
        dialling.clock.advance(0)
        assert dialling.clock.getDelayedCalls() == []

    def test_endpointFails(self) -> None:
        """Connecting fails with the endpoint's error."""
        dialling = Dialling()
        dialling.endpoint.dialling.errback(REFUSED)
        assert isinstance(dialling.error, ConnectionRefusedError)
        assert dialling.clock.getDelayedCalls() == []

    def test_endpointFailsAtOnce(self) -> None:
        """Connecting fails in the same way if the endpoint fails at once."""

        @implementer(IStreamClientEndpoint)
        class Closed:
            def connect(self, protocolFactory: Any) -> Deferred[Any]:
                return fail(REFUSED)

        outcomes: list[Any] = []
        connect(Closed(), reactor=Clock()).addBoth(outcomes.append)
        assert isinstance(outcomes[0].value, ConnectionRefusedError)

    def test_denied(self) -> None:
        """Connecting fails with the server's error if the login is denied."""
        dialling = Dialling()
        dialling.endpoint.open()
        dialling.endpoint.transport.send(INFO + b"-ERR 'Authorization Violation'\r\n")
        dialling.endpoint.transport.hangUp()
        dialling.clock.advance(0)
        assert isinstance(dialling.error, ServerError)

    def test_diallingTakesTooLong(self) -> None:
        """An endpoint that takes too long is cancelled."""
        dialling = Dialling(timeout=3.0)
        dialling.clock.advance(3.1)
        assert str(dialling.error) == "the login took longer than 3s"
        assert dialling.endpoint.cancelled
        assert dialling.clock.getDelayedCalls() == []

    def test_serverTakesTooLong(self) -> None:
        """Connecting to a server that never answers fails, and the connection is aborted."""
        dialling = Dialling(timeout=3.0)
        dialling.endpoint.open()
        dialling.clock.advance(3.1)
        assert isinstance(dialling.error, ClientError)
        dialling.clock.advance(0)
        assert dialling.endpoint.transport.closed == "aborted"

    def test_cancelled(self) -> None:
        """Connecting can be cancelled, before and after the connection is open."""
        before, after = Dialling(), Dialling()
        after.endpoint.open()
        for dialling in (before, after):
            dialling.connecting.cancel()
            assert isinstance(dialling.error, CancelledError)
            dialling.clock.advance(0)
            assert dialling.clock.getDelayedCalls() == []
        assert before.endpoint.cancelled
        assert after.endpoint.transport.closed == "aborted"


class TestInProcess:
    """A connection to a broker in the same process."""

    def test_connected(self) -> None:
        """The broker authorizes a client in the same process like any other."""
        asked: list[ConnectRequest] = []

        def answer(hello: ConnectRequest) -> Grant:
            asked.append(hello)
            return Grant()

        with MemoryBroker(authorizer=Doorkeeper(answer, required=True)) as broker:
            outcomes: list[Any] = []
            connectInProcess(broker.broker, ConnectOptions(user="me")).addBoth(outcomes.append)
            broker.advance(0)
            assert outcomes[0].isOpen
            assert len(broker.broker.clientContext.connections) == 1
        [hello] = asked
        assert (hello.connectionType, hello.host, hello.text("user")) == ("IN_PROCESS", "", "me")

    def test_denied(self) -> None:
        """A connection in the same process may be denied."""
        with MemoryBroker(configText="authorization { token: secret }") as broker:
            outcomes: list[Any] = []
            connectInProcess(broker.broker, ConnectOptions(token="no")).addBoth(outcomes.append)
            broker.advance(0)
            assert str(outcomes[0].value) == "Authorization Violation"
            assert len(broker.broker.clientContext.connections) == 0

    def test_serverIsFull(self) -> None:
        """A server at its maximum of connections refuses the client."""
        with MemoryBroker(configText="max_connections: 1") as broker:
            outcomes: list[Any] = []
            for _ in range(2):
                connectInProcess(broker.broker).addBoth(outcomes.append)
                broker.advance(0)
            assert str(outcomes[1].value) == "maximum connections exceeded"


class TestNames:
    """The name in the server's certificate."""

    def test_optionsWithoutName(self) -> None:
        """TLS options that would take a certificate for any name are refused."""
        with pytest.raises(ValueError, match=r"CertificateOptions does not check the name"):
            connect(Endpoint(Clock()), tls=CertificateOptions(), reactor=Clock())

    @pytest.mark.parametrize("text", ["ssl:127.0.0.1:4222", "ssl:127.0.0.1:4222:timeout=3"])
    def test_endpointWithoutName(self, text: str) -> None:
        """An endpoint that would take a certificate for any name is refused."""
        reactor: Any = MemoryReactorClock()
        with pytest.raises(ValueError, match="does not check the name"):
            connect(clientFromString(reactor, text), reactor=reactor)

    @pytest.mark.parametrize(
        "text", ["ssl:127.0.0.1:4222:hostname=localhost", "tls:localhost:4222", "tcp:127.0.0.1:1"]
    )
    def test_endpointWithName(self, text: str) -> None:
        """An endpoint that checks the certificate's name, or does no TLS, is accepted."""
        reactor: Any = MemoryReactorClock()
        outcomes: list[Any] = []
        connecting = connect(clientFromString(reactor, text), reactor=reactor)
        connecting.addErrback(outcomes.append)
        assert len(reactor.tcpClients) + len(reactor.sslClients) == 1 and outcomes == []
        connecting.cancel()
        assert outcomes[0].check(CancelledError)

    def test_optionsWithName(self) -> None:
        """TLS options that check a name are accepted."""
        clock = Clock()
        endpoint = Endpoint(clock)
        connecting = connect(endpoint, tls=optionsForClientTLS("localhost"), reactor=clock)
        connecting.addErrback(lambda failure: None)
        assert endpoint.factory is not None
        connecting.cancel()
        assert endpoint.cancelled
