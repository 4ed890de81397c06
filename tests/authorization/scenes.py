"""
Scenes in which a user with random permissions tries everything, on every kind of connection, and
the product's decisions are compared with the reference.

A number always stands for the same scene. A scene uses the protocol of a client. A disagreement is
an exception and not a failed assertion, so that it counts with C{python -O} too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from natsbroker.accounts.imports import ImportedService
from natsbroker.accounts.shadows import ImportedStream
from natsbroker.clients.protocol import ClientFactory
from natsbroker.config.settings.accounts import ServiceExport
from natsbroker.errors import Unauthorized
from natsbroker.links.interest import RoutePermissions
from natsbroker.streaming.requests.access import requesterOf
from natsbroker.subjects.permissions import (
    DENIED,
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind, Message
from tests.authorization.reference import Rules, fits, may
from tests.leafnodes import leaves
from tests.support import Doorkeeper, Names, Recorder, Wire, World, using

__all__ = ["KINDS", "STATES", "Disagreement", "Scene", "check", "grantOf", "someRules"]

STATES = ("before CONNECT", "connected", "connected again", "after a reload", "after its end")


class Disagreement(Exception):
    """The product decides something else than the reference."""


def check(isSo: bool, *what: object) -> None:
    """
    Check a condition, with C{python -O} too.

    @raise Disagreement: if the condition does not hold.
    """
    if not isSo:
        raise Disagreement(" ".join(part if isinstance(part, str) else repr(part) for part in what))


@dataclass(frozen=True)
class ConnectionKind:
    """
    A kind of connection.

    @ivar account: the account of the connection.
    @ivar hears: the account whose messages the connection receives.
    @ivar reaches: the account that the connection's messages reach.
    """

    name: str
    account: str = "A"
    hears: str = "A"
    reaches: str = "A"
    lane: bool = True
    verbose: bool = False
    connectionType: str = "STANDARD"


KINDS = [
    ConnectionKind("client"),
    ConnectionKind("client without the lane", lane=False),
    ConnectionKind("verbose client", verbose=True),
    ConnectionKind("client in the process", connectionType="IN_PROCESS"),
    ConnectionKind("session of a WebSocket client", connectionType="WEBSOCKET"),
    ConnectionKind("system client", "$SYS", "$SYS", "$SYS"),
    ConnectionKind("client of an account that imports", "B", "A", "A"),
]

WORDS = ["a", "a", "b", "b", "c", "*", "a*", "ö"]
QUEUES = ["q", "v1.a", "v1.b", "v1.*", "v1.>", "*", ">"]
RESERVED = ["_GR_.x.y", "$GR.x", "$NRG.x"]


def somePattern(rng: random.Random, stars: int) -> str:
    """
    @param stars: how likely wildcards are.
    """
    words = [rng.choice(WORDS + ["*"] * stars) for _ in range(rng.randint(1, 3))]
    return ".".join(["s", *words, *([">"] if rng.random() * 10 < stars else [])])


def someEntry(rng: random.Random, stars: int) -> str:
    """
    A pattern, perhaps with a queue.
    """
    queue = " " + rng.choice(QUEUES) if rng.random() < 0.4 else ""
    return somePattern(rng, stars) + queue


def someRules(rng: random.Random, isSystem: bool = False) -> Rules:
    """Random permissions, with lists and without. The lists mostly overlap."""

    def patterns(make: Callable[[random.Random, int], str], stars: int, *counts: int) -> list[str]:
        return [make(rng, stars) for _ in range(rng.choice(counts))]

    publish = patterns(somePattern, 3, 0, 2, 5)
    subscribe = patterns(someEntry, 5, 0, 0, 5, 9)
    return Rules(
        publish=tuple(publish) or None,
        notPublish=tuple(patterns(somePattern, 2, 0, 1, 3)),
        subscribe=tuple(subscribe) or None,
        notSubscribe=tuple(patterns(someEntry, 1, 0, 1, 3, 6)),
        answers=rng.random() < 0.2,
        isSystem=isSystem,
    )


def grantOf(rules: Rules, account: str, user: str = "u", expires: float | None = None) -> Grant:
    """The rules as a grant of the product."""
    publish = subscribe = None
    if rules.publish is not None or rules.notPublish:
        publish = PermissionSet(_encoded(rules.publish), _encoded(rules.notPublish) or ())
    if rules.subscribe is not None or rules.notSubscribe:
        subscribe = SubscribePermissions(
            _encoded(rules.subscribe), _encoded(rules.notSubscribe) or ()
        )
    responses = ResponsePermission() if rules.answers else None
    return Grant(account, user, publish, subscribe, responses, expires=expires)


def _encoded(texts: tuple[str, ...] | None) -> list[bytes] | None:
    return None if texts is None else [text.encode() for text in texts]


class Leaves:
    """
    A hub, and a leafnode with a grant.

    @ivar heard: the messages that another subscriber of the leafnode's account receives.
    """

    def __init__(self, grant: Grant) -> None:
        self.broker = leaves.Broker()
        self.heard = Recorder()
        self.broker.buses.accounts["A"].busFor(Kind.INTERNAL).subscribe(b">", self.heard, None, b"")
        self.broker.decider.answer = grant
        self.wire = self.broker.spoke()

    def isCut(self) -> bool:
        """Whether the hub has closed the connection."""
        return bool(self.wire.closed)

    def gets(self, subject: str) -> bool:
        """Whether the leafnode has received a message since the last call."""
        return b"LMSG %b " % subject.encode() in self.wire.take()


class Scene:
    """
    One user on one connection.

    @ivar cases: the number of decisions that agreed with the reference.
    """

    def __init__(self, number: int, names: Names) -> None:
        self._rng = random.Random(number)
        self.number = number
        self.kind = KINDS[number % len(KINDS)]
        self.state = STATES[number // len(KINDS) % len(STATES)]
        self._names = names
        self.cases = 0
        self.refused = 0

    def play(self) -> int:
        """
        Play the scene.

        @return: the number of its cases.
        @raise Disagreement: at the first decision that disagrees.
        """
        with using(self._names):
            self._prepare()
            _STATES[self.state](self)
        return self.cases

    def _prepare(self) -> None:
        kind, rng = self.kind, self._rng
        self.rules = someRules(rng, kind.account == "$SYS")
        self.grants = {"u": grantOf(self.rules, kind.account), "other": Grant("A", "other")}
        keeper = Doorkeeper(self._grantFor, required=True)
        self.world = World(authorizer=keeper, fastLane=kind.lane)
        self.world.factory = ClientFactory(self.world.context, kind.connectionType)
        if kind.account == "B":
            self._import()
        self.heard = Recorder()
        self._busOf(kind.reaches).subscribe(b">", self.heard, b"1", b"")
        self.grants["source"] = Grant(kind.hears, "source")
        self.source = self._login("source")
        self.sid = 0

    def _import(self) -> None:
        ours, theirs = self.world.accounts["B"], self.world.accounts["A"]
        renaming = Renaming(b"s.>", b"s.>")
        service = ImportedService(ours, theirs, ServiceExport("s.>"), renaming, False)
        ours.importServices([service.subscription()])
        ours.importStreams([ImportedStream(theirs, renaming)])

    def _grantFor(self, hello: ConnectRequest) -> Grant:
        grant = self.grants.get(hello.text("user"))
        if grant is None:
            raise Unauthorized("nobody")
        return grant

    def _busOf(self, account: str) -> Any:
        return self.world.accounts[account].busFor(Kind.CLIENT)

    def _connect(self, user: str) -> bytes:
        verbose = b"true" if self.kind.verbose and user != "source" else b"false"
        return b'CONNECT {"verbose":%b,"pedantic":false,"headers":true,"user":"%b"}\r\n' % (
            verbose,
            user.encode(),
        )

    def _login(self, user: str) -> Wire:
        wire = self.world.dial()
        wire.receive()
        wire.ask(self._connect(user))
        return wire

    # The states.

    def _beforeConnect(self) -> None:
        for first in (
            b"PUB s.a 1\r\nx\r\n",
            b"HPUB s.a 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
            b"SUB s.a 1\r\n",
            b"SUB s.a q 1\r\n",
            b"UNSUB 1\r\n",
            b"PING\r\n",
        ):
            wire = self.world.dial()
            wire.receive()
            answer = wire.ask(first)
            self._agree(answer == b"-ERR 'Authorization Violation'\r\n", first, answer)
            self._agree(bool(wire.closed), first, "it is open")
            self._agree(self.heard.got == [], first, self.heard.got)

    def _connected(self) -> None:
        self._tryAll(self._login("u"))

    def _connectedAgain(self) -> None:
        wire = self._login("other")
        wire.ask(b"SUB s.> old\r\nSUB > q old2\r\n")
        answer = wire.ask(self._connect("u"))
        self._agree(b"-ERR" not in answer, answer)
        self._feed(b"s.a")
        self._agree(wire.receive() == b"", "a subscription from before")
        self._tryAll(wire)

    def _afterReload(self) -> None:
        self.grants["u"] = Grant(self.kind.account, "u")
        wire = self._login("u")
        made: dict[str, tuple[str, str]] = {}
        # Of the members of a group one gets a message: nobody shall be in a group with itself.
        for queue in ["", "", "", *self._rng.sample(QUEUES, 5)]:
            pattern = somePattern(self._rng, 6)
            made[self._subscribe(wire, pattern, queue)] = pattern, queue
        wire.receive()
        self.grants["u"] = grantOf(self.rules, self.kind.account)
        wire.session.reauthorize()
        told = wire.receive().decode().splitlines()
        for sid, (pattern, queue) in made.items():
            using = f' using queue "{queue}"' if queue else ""
            text = f'Permissions Violation for Subscription to "{pattern}"{using} (sid "{sid}")'
            isCut = f"-ERR '{text}'" in told
            stays = may(self.rules, "subscribe", pattern, queue)
            self._agree(isCut is not stays, pattern, queue, told, self.rules)
            self._hears(wire, sid, pattern, queue, stays)
        wire.ask(b"".join(b"UNSUB %b\r\n" % sid.encode() for sid in made))
        self._tryAll(wire)

    def _afterTheEnd(self) -> None:
        until = self.world.clock.seconds() + 10.0
        self.grants["u"] = replace(self.grants["u"], expires=until)
        wire = self._login("u")
        self._subscribe(wire, "s.>", "")
        wire.receive()
        self.world.advance(11.0, 0.5)
        answer = wire.receive().replace(b"PING\r\n", b"")
        self._agree(answer == b"-ERR 'User Authentication Expired'\r\n", answer)
        self.heard.got.clear()
        wire.send(b"PUB s.a 1\r\nx\r\n")
        self._feed(b"s.a.b")
        self._agree(wire.receive() == b"", "something after the end")
        subjects = [message.subject for message, _ in self.heard.got]
        self._agree(b"s.a" not in subjects, "a message after the end")

    # What is tried.

    def _tryAll(self, wire: Wire) -> None:
        rng = self._rng
        subjects = [somePattern(rng, 0) for _ in range(14)] + ["s.a.b", "s.*", *RESERVED]
        for subject in subjects:
            self._publish(wire, subject, rng.random() < 0.3)
        self._publishTogether(wire, subjects)
        for _ in range(8):
            pattern, queue = somePattern(rng, 4), rng.choice(["", "", *QUEUES])
            sid = self._subscribe(wire, pattern, queue)
            isAllowed = may(self.rules, "subscribe", pattern, queue)
            self._agree(self._answer(wire) == self._refusal(pattern, queue, isAllowed), pattern)
            self._hears(wire, sid, pattern, queue, isAllowed)
            wire.ask(b"UNSUB %b\r\n" % sid.encode())
        self._asService(wire, subjects)
        self._asRoute(subjects)
        self._asLeaf(subjects)

    def _publish(self, wire: Wire, subject: str, hasHeaders: bool) -> None:
        self.heard.got.clear()
        frame = b"PUB %b 1\r\nx\r\n" % subject.encode()
        if hasHeaders:
            frame = b"HPUB %b 12 13\r\nNATS/1.0\r\n\r\nx\r\n" % subject.encode()
        wire.send(frame)
        isAllowed = may(self.rules, "publish", subject)
        text = b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject.encode()
        answer = self._answer(wire)
        self._agree(answer == (b"" if isAllowed else text), subject, answer, self.rules)
        self._agree(self._reached(subject) is self._isReachable(subject, isAllowed), subject)

    def _publishTogether(self, wire: Wire, subjects: list[str]) -> None:
        """Publish all messages in one write, so that the lane takes them."""
        self.heard.got.clear()
        wire.send(b"".join(b"PUB %b 1\r\nx\r\n" % subject.encode() for subject in subjects))
        self._answer(wire)
        for subject in subjects:
            isAllowed = may(self.rules, "publish", subject)
            self._agree(self._reached(subject) is self._isReachable(subject, isAllowed), subject)

    def _isReachable(self, subject: str, isAllowed: bool) -> bool:
        return isAllowed and (self.kind.account != "B" or subject.startswith("s."))

    def _reached(self, subject: str) -> bool:
        return any(message.subject == subject.encode() for message, _ in self.heard.got)

    def _subscribe(self, wire: Wire, pattern: str, queue: str) -> str:
        self.sid += 1
        wire.send(b"SUB %b %b %d\r\n" % (pattern.encode(), queue.encode(), self.sid))
        return str(self.sid)

    def _refusal(self, pattern: str, queue: str, isAllowed: bool) -> bytes:
        if isAllowed:
            return b""
        using = f' using queue "{queue}"' if queue else ""
        return f"-ERR 'Permissions Violation for Subscription to \"{pattern}\"{using}'\r\n".encode()

    def _hears(self, wire: Wire, sid: str, pattern: str, queue: str, isMade: bool) -> None:
        """Let a client publish, and compare what is delivered to one subscription."""
        subjects = sorted({somePattern(self._rng, 0) for _ in range(6)} | {"s.a", "s.a.b", "s.b"})
        subjects = [subject for subject in subjects if "*" not in subject]
        wire.receive()
        for subject in subjects:
            self._feed(subject.encode())
        words = [line.split() for line in wire.receive().split(b"\r\n") if line[:4] == b"MSG "]
        delivered = {word[1].decode() for word in words if word[2] == sid.encode()}
        for subject in subjects:
            expected = isMade and fits(pattern, subject)
            expected = expected and may(self.rules, "hear", subject, queue)
            isDelivered = subject in delivered
            self._agree(isDelivered is expected, subject, "for", pattern, queue, self.rules)

    def _feed(self, subject: bytes) -> None:
        """Publish as a user with all permissions, over a connection or from inside the broker."""
        if self._rng.random() < 0.5:
            self.source.ask(b"PUB %b 1\r\nx\r\n" % subject)
        else:
            self._busOf(self.kind.hears).publish(Message(subject, b"x"))

    def _asService(self, wire: Wire, subjects: list[str]) -> None:
        """
        Compare the same grant for NATS Streaming, which asks whether a client may use a channel.
        """
        requester = requesterOf(wire.session)
        for subject in subjects:
            if not subject.startswith("s.") or "*" in subject:
                continue
            head, _, channel = subject.partition(".")
            isAllowed = requester.may(head.encode(), channel.encode())
            self._agree(isAllowed is may(self.rules, "publish", subject), subject, "as a service")
            hears = requester.mayHear(subject.encode())
            self._agree(hears is may(self.rules, "subscribe", subject), subject, "as an inbox")

    def _asRoute(self, subjects: list[str]) -> None:
        """
        Compare the same lists as permissions of a cluster: the interest that is advertised to other
        members, and the interest that is accepted from them.
        """
        grant = grantOf(replace(self.rules, answers=False), "A")
        permissions = RoutePermissions(grant.publish, grant.subscribe)
        rules = replace(self.rules, answers=False)
        for subject in subjects:
            if subject in RESERVED:
                continue
            isTold = permissions.mayImport(subject.encode())
            self._agree(isTold is may(rules, "publish", subject), subject, "told to a route")
            for queue in ("", self._rng.choice(QUEUES)):
                isTaken = permissions.mayExport(subject.encode(), queue.encode()) is not DENIED
                expected = may(rules, "subscribe", subject, queue)
                self._agree(isTaken is expected, subject, queue, "taken from a route")

    def _asLeaf(self, subjects: list[str]) -> None:
        """
        Compare the same grant for a leafnode that connected to us: the messages that it sends, its
        subscriptions, and the messages that it receives for them.
        """
        grant = grantOf(replace(self.rules, answers=False), "A")
        rules = replace(self.rules, answers=False)
        literal = [
            subject for subject in subjects if subject not in RESERVED and "*" not in subject
        ]
        for subject in self._rng.sample(literal, min(4, len(literal))):
            queue = self._rng.choice(("", *QUEUES))
            isSent = may(rules, "publish", subject)
            isHeard = may(rules, "subscribe", subject, queue)
            leaf = Leaves(grant)
            leaf.wire.send(b"LMSG %b 1\r\nx\r\n" % subject.encode())
            self._agree(bool(leaf.heard.got) is isSent, subject, "sent by a leafnode", rules)
            self._agree(leaf.isCut() is not isSent, subject, "sent by a leafnode", rules)
            leaf = Leaves(grant)
            leaf.wire.send(f"LS+ {subject} {f'{queue} 1' if queue else ''}\r\n".encode())
            self._agree(leaf.isCut() is not isHeard, subject, queue, "for a leafnode", rules)
            leaf.broker.publish(subject.encode())
            self._agree(leaf.gets(subject) is isHeard, subject, queue, "to a leafnode", rules)
        leaf = Leaves(grant)
        leaf.wire.send(b"LS+ s.>\r\n")
        for subject in literal:
            leaf.broker.publish(subject.encode())
            isHeard = may(rules, "subscribe", subject) and not leaf.isCut()
            self._agree(leaf.gets(subject) is isHeard, subject, "to a leafnode that wants all")

    def _answer(self, wire: Wire) -> bytes:
        return wire.receive().replace(b"+OK\r\n", b"")

    def _agree(self, isSo: bool, *what: object) -> None:
        check(isSo, f"scene {self.number}: {self.kind.name}, {self.state}:", *what)
        self.cases += 1


_STATES: dict[str, Callable[[Scene], None]] = {
    "before CONNECT": Scene._beforeConnect,
    "connected": Scene._connected,
    "connected again": Scene._connectedAgain,
    "after a reload": Scene._afterReload,
    "after its end": Scene._afterTheEnd,
}
