"""
Clients that speak another protocol than that of NATS. See L{natsbroker.interfaces.IClientDialect}.

The session is that of any client, with another decoder. Its publishes take the readable path, and
its dialect encodes every message for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from zope.interface import implementer

from natsbroker import errors
from natsbroker.clients.context import AuthorizerSource, ClientContext, ListenerContext
from natsbroker.clients.dialectinput import OPERATION, DialectInput
from natsbroker.clients.protocol import ClientProtocol
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import Settings
from natsbroker.config.tls import TLSSettings
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.trace import Trace
from natsbroker.interfaces import (
    IAuthorizer,
    IClientDialect,
    IClientEvents,
    IClientFactory,
    IClientSession,
)
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.wire import ops
from natsbroker.wire.connect import writeJSON
from natsbroker.wire.headers import Headers, Pairs
from natsbroker.wire.values import Message

if TYPE_CHECKING:
    from natsbroker.clients.tls import TLSClientFactory

#: Makes the dialect of a client, by its session.
DialectMaker = Callable[[Any], Any]


@implementer(IClientDialect, IClientEvents)
class ClientDialect:
    """
    The base of dialects, which sends nothing by itself. A subclass has C{feed}, C{next}, C{handle}
    and C{encode}.
    """

    def __init__(self, session: Any) -> None:
        """
        @param session: a L{natsbroker.interfaces.IClientSession}; not to be used before C{opened}.
        """
        self.session = session

    def feed(self, data: bytes) -> None:
        raise NotImplementedError

    def next(self) -> Any:
        raise NotImplementedError

    def handle(self, operation: Any) -> None:
        raise NotImplementedError

    def encode(self, message: Message, tag: bytes) -> bytes:
        raise NotImplementedError

    def ping(self) -> bytes:
        return b""

    def farewell(self, error: errors.WireError) -> bytes:
        return b""

    def opened(self) -> None:
        pass

    def admitted(self) -> None:
        pass

    def subscriptionEnded(self, tag: bytes, isForbidden: bool) -> None:
        pass

    def leaving(self) -> None:
        pass

    def closed(self, reason: str) -> None:
        pass


@implementer(IClientSession)
class DialectSession(ClientSession):
    """
    @ivar _violation: the violation of the last publish; C{None} without one.
    @ivar _isHandling: whether the dialect is handling an operation.
    @ivar _waits: the number of results of L{hold} that were not called.
    @ivar _lostFor: why the connection was lost while operations waited; C{None} if it was not.
    """

    __slots__ = ("_dialect", "_isHandling", "_lostFor", "_violation", "_waits")

    def __init__(self, context: ClientContext, peer: ClientPeer, make: DialectMaker) -> None:
        super().__init__(context, peer)
        self._violation: errors.ProtocolViolation | None = None
        self._isHandling = False
        self._waits = 0
        self._lostFor: str | None = None
        self._dialect: Any = make(self)
        self.decoder.dialect = self._dialect

    # IClientSession

    @property
    def nonce(self) -> str:
        return self._nonce

    @property
    def settings(self) -> Settings:
        settings: Settings = self.context.settings
        return settings

    def login(self, options: Mapping[str, Any]) -> None:
        if self.reason:
            return
        hasHeaders = not self.settings.no_header_support
        ours = {"verbose": False, "pedantic": False, "protocol": 1, "tls_required": False}
        ours |= {"headers": hasHeaders, "no_responders": hasHeaders}
        self._connect(writeJSON({**options, **ours}))

    def publish(
        self,
        subject: bytes,
        payload: bytes,
        reply: bytes = b"",
        headers: Pairs | None = None,
    ) -> None:
        if not self._mayAct():
            return
        block = Headers(headers).block() if headers and self.decoder.headers else b""
        body = block + payload
        if not isValidLiteral(subject) or (reply and not isValidLiteral(reply)):
            raise errors.ProtocolViolation(errors.INVALID_PUBLISH_SUBJECT)
        if 0 <= self.decoder.maxPayload < len(body):
            raise errors.ProtocolViolation(errors.PAYLOAD)
        self.decoder.messages += 1
        self.decoder.messageBytes += len(body)
        self._finishSteps()
        lengths = b"%d" % len(body), b"%d" % len(block) if block else b""
        self._publish(subject, reply, len(block), body, *lengths)
        if self._steps is not None and not self._isHandling:
            self._rest()
        violation, self._violation = self._violation, None
        if violation is not None:
            raise violation

    def subscribe(self, pattern: bytes, tag: bytes, queue: bytes = b"") -> None:
        if not self._mayAct() or self.subscriptions is None:
            return
        try:
            self.subscriptions.subscribe(pattern, queue, tag)
        except errors.ProtocolViolation as violation:
            self._violated(violation, tag)
            self._violation = None
            raise

    def unsubscribe(self, tag: bytes, maximum: int = 0) -> None:
        if self.subscriptions is not None:
            self.subscriptions.unsubscribe(tag, maximum)

    def hold(self) -> Callable[[], None]:
        self._waits += 1
        self._holdInput()
        self._hold()
        return self._resume

    def _resume(self) -> None:
        self._waits -= 1
        self._holdInput()
        if self._lostFor is None:
            self._release()
        else:
            self._holds -= 1
        if not self._isHandling:
            self.proceed()
        if self._waits:
            return
        if self._lostFor is not None:
            self.lost(self._lostFor)
        elif self._isInputEnded:
            self.inputEnded()

    def _holdInput(self) -> None:
        decoder: Any = self.decoder
        decoder.isHeld = self._waits > 0

    def write(self, data: bytes) -> None:
        if not self.reason:
            self.outbox.write(data)

    def ponged(self) -> None:
        self._ponged()

    def _mayAct(self) -> bool:
        """Whether the client is logged in. A client that acts before is closed."""
        if self.grant is None:
            self.close(errors.AUTHORIZATION)
        return self.grant is not None

    def _finishSteps(self) -> None:
        """Deliver the last message whole before the next one, so that their order is kept."""
        steps, self._steps = self._steps, None
        for _ in steps or ():
            pass

    # Overridden from ClientSession

    def _makeDecoder(self, settings: Settings) -> Any:
        return DialectInput(settings.max_control_line, settings.max_payload)

    def _makeTrace(self) -> Trace | None:
        return None

    def opened(self) -> None:
        super().opened()
        self._handshakeBy = self.started + self.settings.authorization.timeout
        self._schedule()
        self._inBatch(self._dialect.opened)

    def _greet(self) -> None:
        """Do nothing: the dialect greets the client."""

    def _isGuest(self) -> bool:
        return False

    def _operate(self, operation: Any) -> None:
        self._isHandling = True
        self._dialect.handle(operation)
        self._isHandling = False

    def _agree(self) -> None:
        super()._agree()
        if not self.reason:
            self._dialect.admitted()

    def say(self, line: bytes) -> None:
        """Do nothing: lines of the NATS protocol are not for this client."""

    def _violated(self, violation: errors.ProtocolViolation, sid: bytes = b"") -> None:
        super()._violated(violation, sid)
        self._violation = violation

    def _nobodyResponds(self, subject: bytes, reply: bytes) -> None:
        sid = None if self.subscriptions is None else self.subscriptions.sidFor(reply)
        if sid is not None:
            block = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
            self.deliver(Message(reply, block, b"", len(block)), sid)

    def _put(self, message: Message, tag: Any) -> None:
        outbox = self.outbox
        if outbox.closed:
            return
        try:
            data = self._dialect.encode(message, tag)
        except BaseException:
            self._batch.contain(self.internalFailure)
            return
        if data:
            outbox.write(data)
            outbox.messages += 1
            outbox.messageBytes += len(message.body)

    def subscriptionEnded(self, tag: Any) -> None:
        super().subscriptionEnded(tag)
        self._inBatch(self._dialect.subscriptionEnded, tag, False)

    def _removed(self, subject: str, queue: str, sid: str) -> None:
        super()._removed(subject, queue, sid)
        self._dialect.subscriptionEnded(sid.encode("utf-8", "surrogateescape"), True)

    def ping(self) -> None:
        data = self._dialect.ping()
        if data:
            self.write(data)
        else:
            self._ponged()

    def sendInfo(self, connect_info: bool = False, isLeaving: bool = False) -> None:
        if isLeaving or self.context.info.ldm:
            self._inBatch(self._dialect.leaving)

    def _closing(self, error: errors.WireError) -> None:
        super()._closing(error)
        self._batch.contain(lambda: self.outbox.write(self._dialect.farewell(error)))

    def inputEnded(self) -> None:
        self._isInputEnded = True
        if not self._waits:
            super().inputEnded()

    def lost(self, reason: str = "Client Closed") -> None:
        if self._waits and not self.reason:
            self._lostFor = reason
            self.outbox.close()
        else:
            super().lost(reason)

    def _gone(self) -> None:
        self._inBatch(self._dialect.closed, self.reason)
        self._finishSteps()
        super()._gone()

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """Close the connection, even for an error that a NATS client survives."""
        if not error.closes:
            error = replace(error, reason=errors.UNKNOWN_OPERATION.reason)
        super().close(error, *arguments, abort=abort)

    _operations = {OPERATION: _operate, ops.FAULT: close}
    _early = frozenset({OPERATION, ops.FAULT})


class DialectContext(ListenerContext):
    """
    The context of the clients of one kind.

    @ivar tls: the TLS settings of the kind; C{None} without TLS.
    """

    fastLane = False

    def __init__(
        self,
        everyone: ClientContext,
        overlay: Callable[[Settings], Settings] | None,
        tls: TLSSettings | None,
        makeAuthorizer: Callable[[Settings], IAuthorizer | None],
    ) -> None:
        self.tls = tls
        self._overlay = overlay
        self._makeAuthorizer = makeAuthorizer
        self.forget(everyone)

    def forget(self, everyone: ClientContext) -> None:
        """Forget the settings and the authorizer, so that they are made again."""
        self._overlaidSettings: tuple[Settings, Settings] | None = None
        source = AuthorizerSource(everyone, lambda: self.authorizerFor(everyone.settings, self.tls))
        super().__init__(everyone, self._settings, lambda info: info, source)

    def _settings(self, general: Settings) -> Settings:
        known = self._overlaidSettings
        if known is None or known[0] is not general:
            known = self._overlaidSettings = general, self._overlaid(general, self.tls)
        return known[1]

    def _overlaid(self, general: Settings, tls: TLSSettings | None) -> Settings:
        settings = replace(general, tls=tls)
        return settings if self._overlay is None else self._overlay(settings)

    def authorizerFor(self, general: Settings, tls: TLSSettings | None) -> IAuthorizer | None:
        """
        An authorizer for the kind; C{None} for that of all clients.

        @raise ValueError: if the settings leave open who may connect.
        """
        settings = self._overlaid(general, tls)
        if _logins(settings) == _logins(general):
            return None
        return self._makeAuthorizer(settings)


def _logins(settings: Settings) -> object:
    """The settings that decide who may log in."""
    tls = settings.tls
    mapsCertificates = tls is not None and tls.verify_and_map
    return replace(settings.authorization, timeout=0.0), settings.no_auth_user, mapsCertificates


class DialectProtocol(ClientProtocol):
    factory: Any

    def _makeSession(self) -> ClientSession:
        return DialectSession(self._context, self, self.factory.makeDialect)


@implementer(IClientFactory)
class DialectFactory(Factory):
    """The connections of one kind; see L{natsbroker.interfaces.IBrokerHost.clientFactory}."""

    noisy = False

    def __init__(
        self,
        everyone: ClientContext,
        makeDialect: DialectMaker,
        connectionType: str,
        overlay: Callable[[Settings], Settings] | None,
        tls: TLSSettings | None,
        makeAuthorizer: Callable[[Settings], IAuthorizer | None],
    ) -> None:
        self.makeDialect = makeDialect
        self._everyone = everyone
        self._connectionType = connectionType
        self.context: Any = DialectContext(everyone, overlay, tls, makeAuthorizer)
        self.context.authorizerFor(everyone.settings, tls)
        self._secured = _securedFactory(self, tls)

    def buildProtocol(self, addr: IAddress | None) -> ClientProtocol:
        if self._secured is None:
            return self.protocolOver(self._connectionType)
        protocol: ClientProtocol = self._secured.buildProtocol(addr)
        protocol.connectionType = self._connectionType
        return protocol

    def protocolOver(self, connectionType: str) -> ClientProtocol:
        protocol = DialectProtocol(self.context)
        protocol.factory = self
        protocol.connectionType = connectionType
        return protocol

    def planReload(self, settings: Settings, tls: TLSSettings | None) -> Callable[[], None]:
        secured = _securedFactory(self, tls)
        if (secured is None) != (self._secured is None):
            raise ValueError("config reload not supported: TLS on or off")
        self.context.authorizerFor(settings, tls)

        def apply() -> None:
            if self._secured is not None and secured is not None:
                self._secured.terms = secured.terms
            self.context.tls = tls
            self.context.forget(self._everyone)
            for session in self._everyone.connections:
                if session.context is self.context:
                    session.limitsChanged()
                    session.reauthorize()

        return apply


def _securedFactory(kind: DialectFactory, tls: TLSSettings | None) -> TLSClientFactory | None:
    """
    The factory of connections over TLS; C{None} without TLS.

    @raise ValueError: for files or names that cannot be used.
    """
    if tls is None:
        return None
    from natsbroker.clients.tls import TLSClientFactory
    from natsbroker.connections.tlscontext import termsFrom

    terms = termsFrom(replace(tls, handshake_first=True, handshake_first_fallback=0.0), False)
    make = partial(DialectSession, make=kind.makeDialect)
    return TLSClientFactory(kind.context, terms, makeSession=make)
