"""
The requests of the system account, with nats-server's subjects, options and answers::

    $SYS.REQ.SERVER.PING.<page>         every server answers
    $SYS.REQ.SERVER.<id>.<page>         the one with this id does
    $SYS.REQ.ACCOUNT.<account>.<page>   about one account
    $SYS.REQ.ACCOUNT.NSUBS              how many subscriptions there are for a subject
    $SYS.DEBUG.SUBSCRIBERS              how many in all servers, of the account that asks
    $SYS.REQ.SERVER.<id>.KICK           close a connection; LDM: tell it to leave; RELOAD

An answer is compressed if the request has the header C{Accept-Encoding: snappy} or C{gzip}. Users
of other accounts may ask for the connections and the figures of their own. The pages, and all that
answers need, load with the first request.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from natsbroker.accounts.account import Account
from natsbroker.accounts.tracing import contentEncoded
from natsbroker.auth.responder import RequestResponder
from natsbroker.interfaces import IMessageBus, ISubscription
from natsbroker.wire.clientinfo import HEADER, compact
from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.values import Kind, Message

if TYPE_CHECKING:
    from natsbroker.monitoring.systemanswers import SystemAnswers

COLLECTING = 0.5
"""Seconds for which other servers may answer."""

#: What every server answers to, by name and by id.
SERVER_REQUESTS = (
    *("STATSZ", "IDZ", "VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ"),
    *("ACCOUNTZ", "JSZ", "HEALTHZ", "PROFILEZ", "IPQUEUESZ", "RAFTZ"),
)

#: What one server does.
ACTIONS = ("KICK", "LDM", "RELOAD")

#: What is asked about one account.
ACCOUNT_REQUESTS = ("CONNZ", "SUBSZ", "LEAFZ", "JSZ", "INFO", "CONNS", "STATZ")

#: The answers that are never compressed, as nats-server's.
_PLAIN = ("STATSZ", "IDZ", "CONNS")


class SystemRequests:
    def __init__(
        self,
        bus: IMessageBus,
        serverId: str,
        makeAnswers: Callable[[], SystemAnswers],
        clock: IReactorTime,
        countPeers: Callable[[], float],
    ) -> None:
        """
        @param bus: the system account's.
        @param makeAnswers: called at the first request.
        @param countPeers: gives the number of other servers; infinity if it is unknown.
        """
        self._makeAnswers = makeAnswers
        self._answers: SystemAnswers | None = None
        responder = RequestResponder(bus)
        responder.on(b"$SYS.REQ.SERVER.PING", self._asked("STATSZ"))
        for server in ("PING", serverId):
            for kind in SERVER_REQUESTS:
                responder.on(f"$SYS.REQ.SERVER.{server}.{kind}".encode(), self._asked(kind))
        for kind in ACTIONS:
            responder.on(f"$SYS.REQ.SERVER.{serverId}.{kind}".encode(), self._ordered(kind))
        for kind in ACCOUNT_REQUESTS:
            responder.on(f"$SYS.REQ.ACCOUNT.*.{kind}".encode(), self._askedOf(kind))
        responder.on(
            b"$SYS.REQ.ACCOUNT.NSUBS", lambda message: self.answers.ofSubscribers(message.payload)
        )
        SubscriberCounts(bus, responder, lambda: self.answers, clock, countPeers)

    @property
    def answers(self) -> SystemAnswers:
        if self._answers is None:
            self._answers = self._makeAnswers()
        return self._answers

    def serve(self, account: Account) -> None:
        """
        Answer the users of an account about it.
        """
        responder = RequestResponder(account.busFor(Kind.LOCAL))
        name = account.name
        for subject in ("ACCOUNT.PING.CONNZ", "SERVER.PING.CONNZ"):
            responder.on(f"$SYS.REQ.{subject}".encode(), self._askedOf("CONNZ", name))
        responder.on(b"$SYS.REQ.ACCOUNT.PING.STATZ", self._askedOf("STATZ", name))

    def _asked(self, kind: str) -> Callable[[Message], Any]:
        return lambda message: _encoded(kind, message, self.answers.ofServer(kind, message.payload))

    def _askedOf(self, kind: str, account: str = "") -> Callable[[Message], Any]:
        return lambda message: _encoded(
            kind,
            message,
            self.answers.ofAccount(kind, account or _named(message), message.payload),
        )

    def _ordered(self, kind: str) -> Callable[[Message], Any]:
        return lambda message: self.answers.ofAction(kind, message.payload)


def _encoded(kind: str, request: Message, answering: Deferred[Any]) -> Deferred[Any]:
    """
    Compress an answer for a request whose header C{Accept-Encoding} asks for it.
    """
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


def _named(message: Message) -> str:
    """
    The account that a subject names.
    """
    return message.subject.split(b".")[3].decode("utf-8", "replace")


class SubscriberCounts:
    """
    Answers C{$SYS.DEBUG.SUBSCRIBERS}, whose body is a subject, perhaps with wildcards, and perhaps
    a queue group behind a space: the number of subscriptions of clients and leafnodes. Accounts
    that import the subject ask about themselves. Servers without a connection of the account do
    not answer each other, so where there are some the answer takes L{COLLECTING}.
    """

    def __init__(
        self,
        bus: IMessageBus,
        responder: RequestResponder,
        answers: Callable[[], SystemAnswers],
        clock: IReactorTime,
        countPeers: Callable[[], float],
    ) -> None:
        self._bus = bus
        self._responder = responder
        self._answers = answers
        self._clock = clock
        self._countPeers = countPeers
        responder.on(
            b"$SYS.DEBUG.SUBSCRIBERS", lambda message: ensureDeferred(self._count(message))
        )

    async def _count(self, message: Message) -> bytes:
        name = _requestor(message) or self._bus.account
        words = message.payload.decode("utf-8", "replace").strip().split(" ")
        subject, group = words[0], words[1] if len(words) > 1 else None
        count = 0
        if group != "":
            count = await self._answers().countSubscribers(name, subject, (group or "").encode())
        fields = {"acc": name, "subject": subject}
        if group:
            fields["queue"] = b64encode(group.encode()).decode()
        return b"%d" % (count + await self._ask(compact(fields)))

    def _ask(self, body: bytes) -> Deferred[int]:
        """
        @return: fires with what the other servers count.
        """
        # A subject for each request: a pattern would count as a shape of wildcards.
        reply = b"$SYS._INBOX." + secrets.token_urlsafe(12).encode("ascii")
        counts = _PeerCounts()
        counts.inbox = self._bus.subscribe(reply, self._responder, counts.take)
        reached = self._responder.ask(b"$SYS.REQ.ACCOUNT.NSUBS", body, reply)
        counts.silent += max(reached, self._countPeers()) if reached else 0
        if counts.silent <= 0:
            counts.end()
        else:
            counts.timer = self._clock.callLater(COLLECTING, counts.end)
        return counts.done


class _PeerCounts:
    """
    @ivar inbox: receives the answers.
    @ivar silent: the number of servers that have not answered yet; negative for answers that came
        while they were asked.
    """

    inbox: ISubscription

    def __init__(self) -> None:
        self.done: Deferred[int] = Deferred()
        self.silent = 0.0
        self.timer: IDelayedCall | None = None
        self._total = 0

    def take(self, message: Message) -> None:
        if self.done.called or not message.payload.isdigit():
            return
        self._total += int(message.payload)
        self.silent -= 1
        if self.timer is not None and self.silent <= 0:
            self.end()

    def end(self) -> None:
        self.inbox.cancel()
        if self.timer is not None and self.timer.active():
            self.timer.cancel()
        self.done.callback(self._total)


def _requestor(message: Message) -> str:
    """
    The account that imports the subject, for which the broker wrote it into the request; empty for
    a user of the system account.
    """
    try:
        headers = Headers.fromBlock(message.body[: message.headerLength])
        info = json.loads(headers.get(HEADER.decode()) or "{}")
    except (HeaderError, ValueError):
        return ""
    name = (info.get("svc") or info.get("acc")) if isinstance(info, dict) else ""
    return name if isinstance(name, str) else ""
