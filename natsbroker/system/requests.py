"""
The requests of the system account, with nats-server's subjects, options and answers::

    $SYS.REQ.SERVER.PING.<page>         every server answers
    $SYS.REQ.SERVER.<id>.<page>         the one with this id does
    $SYS.REQ.ACCOUNT.<account>.<page>   about one account
    $SYS.REQ.ACCOUNT.NSUBS              how many subscriptions there are for a subject
    $SYS.DEBUG.SUBSCRIBERS              how many in all servers, of the account that asks
    $SYS.REQ.SERVER.<id>.KICK           close a connection; LDM: tell it to leave; RELOAD

Where several brokers are one server, one of them answers for it, with the figures of all. For
C{NSUBS} of each other they count their own subscriptions: these name the server. An answer is
compressed if the request has the header C{Accept-Encoding: snappy} or C{gzip}. Users of other
accounts may ask for the connections and the figures of their own. The pages, and all that answers
need, load with the first request.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime

from natsbroker.accounts.account import Account
from natsbroker.accounts.tracing import contentEncoded
from natsbroker.interfaces import IMessageBus
from natsbroker.runtime.peerrequests import PeerRequests
from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.clientinfo import compact, readStamp
from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind, Message

if TYPE_CHECKING:
    from natsbroker.system.answers import SystemAnswers
    from natsbroker.system.shared import SharedAnswers

COLLECTING = 0.5
"""Seconds for which other servers may answer."""

#: The requests that every server answers, by name and by id.
SERVER_REQUESTS = (
    *("STATSZ", "IDZ", "VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ"),
    *("ACCOUNTZ", "JSZ", "HEALTHZ", "PROFILEZ", "IPQUEUESZ", "RAFTZ"),
)

#: The actions of one server.
ACTIONS = ("KICK", "LDM", "RELOAD")

#: The requests about one account.
ACCOUNT_REQUESTS = ("CONNZ", "SUBSZ", "LEAFZ", "JSZ", "INFO", "CONNS", "STATZ")

#: The answers that are never compressed, as nats-server's.
_PLAIN = ("STATSZ", "IDZ", "CONNS")


#: The field of C{NSUBS} by which brokers that are one server know each other's requests.
_SERVER = "natsbroker_server"


class SystemRequests:
    def __init__(
        self,
        bus: IMessageBus,
        serverId: str,
        makeAnswers: Callable[[], SystemAnswers],
        clock: IReactorTime,
        countPeers: Callable[[], float],
        shared: SharedAnswers | None = None,
        isSpeaking: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        @param bus: the system account's.
        @param makeAnswers: called at the first request; makes those about this broker.
        @param countPeers: gives the number of other servers; infinity if it is unknown.
        @param shared: makes answers about the server of several brokers; C{None} if this broker is
            a server itself.
        @param isSpeaking: whether this broker speaks for that server.
        """
        self._isSpeaking = isSpeaking
        self._shared = shared
        own = self._own = cache(makeAnswers)
        group = b"" if shared is None else serverId.encode()
        responder = RequestResponder(bus)
        responder.on(b"$SYS.REQ.SERVER.PING", self._asked(bus, "STATSZ"), group)
        for server in ("PING", serverId):
            for kind in SERVER_REQUESTS:
                subject = f"$SYS.REQ.SERVER.{server}.{kind}".encode()
                responder.on(subject, self._asked(bus, kind), group)
        for kind in ACTIONS:
            subject = f"$SYS.REQ.SERVER.{serverId}.{kind}".encode()
            responder.on(subject, self._ordered(kind), group)
        for kind in ACCOUNT_REQUESTS:
            responder.on(f"$SYS.REQ.ACCOUNT.*.{kind}".encode(), self._askedOf(bus, kind), group)
        self._server = "" if shared is None else serverId
        responder.on(b"$SYS.REQ.ACCOUNT.NSUBS", self._subscribers)
        SubscriberCounts(bus, responder, own, clock, countPeers, group)

    @property
    def answers(self) -> SystemAnswers | SharedAnswers:
        """The answers about the server."""
        return self._shared or self._own()

    def serve(self, account: Account) -> None:
        bus, name = account.busFor(Kind.LOCAL), account.name
        responder = RequestResponder(bus)
        for subject in ("ACCOUNT.PING.CONNZ", "SERVER.PING.CONNZ"):
            responder.on(f"$SYS.REQ.{subject}".encode(), self._askedOf(bus, "CONNZ", name))
        responder.on(b"$SYS.REQ.ACCOUNT.PING.STATZ", self._askedOf(bus, "STATZ", name))

    def _asked(self, bus: IMessageBus, kind: str) -> Callable[[Message], Any]:
        return lambda message: _encoded(
            kind, message, self._wanted(bus, message).ofServer(kind, message.payload)
        )

    def _askedOf(self, bus: IMessageBus, kind: str, account: str = "") -> Callable[[Message], Any]:
        return lambda message: _encoded(
            kind,
            message,
            self._wanted(bus, message).ofAccount(kind, account or _named(message), message.payload),
        )

    def _wanted(self, bus: IMessageBus, message: Message) -> SystemAnswers | SharedAnswers:
        """The answers, which fail once the request's reply subject has no receiver."""
        isWanted = partial(bus.hasInterest, message.reply, isRequest=False)
        return self.answers.whileWanted(isWanted)

    def _subscribers(self, message: Message) -> Deferred[Any] | None:
        payload = message.payload
        if self._shared is None or _serverOf(payload) == self._server:
            return self._own().ofSubscribers(payload)
        return self._shared.ofSubscribers(payload) if self._isSpeaking() else None

    def _ordered(self, kind: str) -> Callable[[Message], Any]:
        return lambda message: self.answers.ofAction(kind, message.payload)


def _encoded(kind: str, request: Message, answering: Deferred[Any]) -> Deferred[Any]:
    """Compress an answer for a request whose header C{Accept-Encoding} asks for it."""
    if kind in _PLAIN:
        return answering
    try:
        headers = Headers.fromBlock(request.body[: request.headerLength])
        accepted = headers.get("Accept-Encoding") or ""
    except HeaderError:
        accepted = ""
    if not accepted:
        return answering

    def encode(body: bytes | None) -> Message | None:
        if body is None:
            return None
        block, payload = contentEncoded(body, accepted)
        return Message(request.reply, block + payload, headerLength=len(block))

    return answering.addCallback(encode)


def _serverOf(payload: bytes) -> str:
    """The server whose brokers ask each other; empty in a request of somebody else."""
    try:
        asked = json.loads(payload)
    except (ValueError, RecursionError):
        return ""
    server = asked.get(_SERVER) if isinstance(asked, dict) else ""
    return server if isinstance(server, str) else ""


def _named(message: Message) -> str:
    return decoded(message.subject.split(b".")[3])


class SubscriberCounts:
    """
    Answers C{$SYS.DEBUG.SUBSCRIBERS}, whose body is a subject, perhaps with wildcards, and perhaps
    a queue group behind a space: the number of subscriptions of clients and leafnodes. Accounts
    that import the subject ask about themselves. Servers without a connection of the account do not
    answer. If there are such servers, the answer takes L{COLLECTING}.
    """

    def __init__(
        self,
        bus: IMessageBus,
        responder: RequestResponder,
        answers: Callable[[], SystemAnswers],
        clock: IReactorTime,
        countPeers: Callable[[], float],
        group: bytes = b"",
    ) -> None:
        self._account = bus.account
        self._group = group
        self._answers = answers
        self._requests = PeerRequests(bus, responder, clock, countPeers, COLLECTING)
        responder.on(
            b"$SYS.DEBUG.SUBSCRIBERS", lambda message: ensureDeferred(self._count(message)), group
        )

    async def _count(self, message: Message) -> bytes:
        name = _requestor(message) or self._account
        words = decoded(message.payload).strip().split(" ")
        subject, group = words[0], words[1] if len(words) > 1 else None
        count = 0
        if group != "":
            count = await self._answers().countSubscribers(name, subject, (group or "").encode())
        fields = {"acc": name, "subject": subject}
        if self._group:
            fields[_SERVER] = self._group.decode()
        if group:
            fields["queue"] = b64encode(group.encode()).decode()

        def take(answer: Message) -> bool:
            nonlocal count
            count += int(answer.payload) if answer.payload.isdigit() else 0
            return False

        await self._requests.ask(b"$SYS.REQ.ACCOUNT.NSUBS", compact(fields), take)
        return b"%d" % count


def _requestor(message: Message) -> str:
    """The account in the request of an importer; empty for a user of the system account."""
    info = readStamp(message.body[: message.headerLength])
    name = info.get("svc") or info.get("acc")
    return name if isinstance(name, str) else ""
