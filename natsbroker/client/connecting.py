"""
Connecting a client: over an endpoint, or inside the broker's own process. No TLS is begun that
would accept any server's certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import SSL4ClientEndpoint
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.internet.ssl import CertificateOptions
from twisted.python.failure import Failure

from natsbroker.client.client import Client
from natsbroker.client.errors import ClientError
from natsbroker.client.options import ConnectOptions
from natsbroker.client.protocol import ConnectionTerms
from natsbroker.client.transports import PipeAddress, connectPipe

__all__ = ["InProcessServer", "connect", "connectInProcess"]

_DEFAULTS = ConnectOptions()


class InProcessServer(Protocol):
    reactor: Any

    def inProcessFactory(self) -> Any:
        """Make a factory for the broker's side of connections from inside the process."""


class _OneProtocol(Factory):
    noisy = False

    def __init__(self, protocol: IProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: object) -> Any:
        return self._protocol


def connect(
    endpoint: IStreamClientEndpoint,
    options: ConnectOptions = _DEFAULTS,
    *,
    tls: Any = None,
    timeout: float = 5.0,
    pingInterval: float = 120.0,
    onError: Callable[[str], object] | None = None,
    reactor: IReactorTime | None = None,
) -> Deferred[Client]:
    """
    Connect over an endpoint, once.

    @param endpoint: for example C{clientFromString(reactor, "tcp:127.0.0.1:4222")}, or one that
        does TLS from the beginning.
    @param tls: for a server that greets in clear text and then encrypts, as NATS servers mostly do:
        the result of C{twisted.internet.ssl.optionsForClientTLS}. The connection is then encrypted
        or fails, also if the server's certificate is for another name.
    @param timeout: until the server has admitted the client, in seconds.
    @param pingInterval: between PINGs to a silent server, in seconds.
    @param onError: called with the text of an C{-ERR}; by default that is logged.
    @return: fires with the client. Fails with the endpoint's error, or a L{ClientError}.
    @raise ValueError: if C{tls} or the endpoint would not check the name in the server's
        certificate: a C{CertificateOptions}, or C{ssl:} without a C{hostname}.
    """
    _checkVerifying(endpoint, tls)
    clock = _globalReactor() if reactor is None else reactor
    client = Client(clock, ConnectionTerms(options, tls, False, pingInterval), onError)
    outcome = _limited(clock, client, timeout)
    dialling = endpoint.connect(_OneProtocol(client.protocol))
    dialling.addErrback(client.refused)

    def hangUp(failure: Failure) -> Failure:
        dialling.cancel()
        return failure

    return outcome.addErrback(hangUp)


def connectInProcess(
    broker: InProcessServer,
    options: ConnectOptions = _DEFAULTS,
    *,
    timeout: float = 5.0,
    onError: Callable[[str], object] | None = None,
) -> Deferred[Client]:
    """Connect to a L{natsbroker.broker.Broker} in this process, which authorizes as always."""
    clock: IReactorTime = broker.reactor
    client = Client(clock, ConnectionTerms(options, None, True), onError)
    outcome = _limited(clock, client, timeout)
    protocol = broker.inProcessFactory().buildProtocol(PipeAddress())
    connectPipe(clock, client.protocol, protocol)
    return outcome


def _checkVerifying(endpoint: IStreamClientEndpoint, tls: Any) -> None:
    makers = [] if tls is None else [tls]
    if isinstance(endpoint, SSL4ClientEndpoint):
        makers.append(endpoint._sslContextFactory)
    for maker in makers:
        isBare = isinstance(maker, CertificateOptions)
        if isBare or not IOpenSSLClientConnectionCreator.providedBy(maker):
            raise ValueError(
                f"{type(maker).__name__} does not check the name in the server's certificate: "
                "use optionsForClientTLS, or an endpoint tls:HOST:PORT"
            )


def _limited(clock: IReactorTime, client: Client, timeout: float) -> Deferred[Client]:
    def late() -> None:
        reason = ClientError(f"the login took longer than {timeout:g}s")
        client.protocol.abort(reason)
        client.refused(Failure(reason))

    timer = clock.callLater(timeout, late)

    def decided(result: Any) -> Any:
        if timer.active():
            timer.cancel()
        return result

    return client.connecting.addBoth(decided)


def _globalReactor() -> IReactorTime:
    from twisted.internet import reactor

    return reactor
