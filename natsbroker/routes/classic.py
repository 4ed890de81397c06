"""
The traffic of a route in the dialect before NATS 2.0: interest of the global account, and messages
without headers.

A received message goes to the subscribers that this member serves, and to one member of a queue
group if it was sent to that group. It goes to another route only if the group's last member here
has gone. A peer gets a message once for all its subscribers without a group, and once for each
queue group that was chosen there.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.registry import LinkBuses
from natsbroker.connections.labels import inQuotes
from natsbroker.interfaces import ILinkSubscriber, IMessageBus
from natsbroker.links.interest import (
    InterestAdvertiser,
    RemoteInterest,
    RoutePermissions,
)
from natsbroker.links.link import Handler, Link
from natsbroker.links.origins import PeerOrigin
from natsbroker.routes.sids import LocalSids, RemoteSid, RemoteSids
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire import ops
from natsbroker.wire.dialects import client, cluster
from natsbroker.wire.dialects.route import LinkInterest
from natsbroker.wire.values import GroupMessage, Message

_log = Logger(namespace="natsbroker")

#: The only account on classic routes.
GLOBAL_ACCOUNT = "$G"

#: The beginning of subjects for which the oldest servers close a route.
_SYSTEM = b"_SYS."

#: Replaces control bytes, which these servers allow in subjects, before a subject is checked.
_HARMLESS = bytes(byte if 0x20 < byte != 0x7F else 0x78 for byte in range(256))


@implementer(ILinkSubscriber)
class ClassicMember(PeerOrigin):
    __slots__ = ("_traffic",)

    ORIGIN = "Router"

    def __init__(self, traffic: ClassicTraffic, link: Link) -> None:
        super().__init__(GLOBAL_ACCOUNT, link.remoteName)
        self._traffic = traffic

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self._traffic.forward(message, queues)


class ClassicTraffic:
    def __init__(
        self, link: Link, buses: LinkBuses, permissions: RoutePermissions, isOldest: bool
    ) -> None:
        """C{isOldest} marks peers that close the connection for operations of newer servers."""
        self._link = link
        self._buses = buses
        self._permissions = permissions
        self._isOldest = isOldest
        self.isVerbose = False
        link.outbox.headers = False
        self._member = ClassicMember(self, link)
        self._told = LocalSids(link.context.reactor.seconds)
        self._heard = RemoteSids()
        self._announcer: InterestAdvertiser | None = None
        self._bus: IMessageBus | None = buses.busOf(GLOBAL_ACCOUNT)
        self.interest = RemoteInterest(buses.busOf, lambda *_: self._member, link)
        self.interest.permit(permissions)
        self.dialect = cluster.FROM_MEMBER
        self.handlers: dict[int, Handler] = {
            ops.SUB: link.parsing(client.splitSubscription, self._subscribed),
            ops.UNSUB: link.parsing(cluster.splitUnsubscription, self._unsubscribed),
            ops.MSG: self._message,
            ops.PUB: self._message,
        }

    def tell(self, accounts: Iterable[str]) -> None:
        isWanted = GLOBAL_ACCOUNT in accounts
        announcer, bus = self._announcer, self._bus
        if announcer is not None and not isWanted:
            self._announcer = None
            announcer.end(True)
        elif announcer is None and isWanted and bus is not None:
            self._announcer = InterestAdvertiser(
                bus, self._permissions, self._tellGained, self._tellLost
            )

    def _tellGained(self, pattern: bytes, queue: bytes, weight: int, origin: bytes) -> None:
        for line in self._told.gained(pattern, queue, weight):
            self._link.say(line)

    def _tellLost(self, pattern: bytes, queue: bytes, origin: bytes) -> None:
        for line in self._told.lost(pattern, queue):
            self._link.say(line)

    def permit(self, permissions: RoutePermissions) -> None:
        if permissions == self._permissions:
            return
        self._permissions = permissions
        self.repeat()
        self.interest.permit(permissions)

    def repeat(self) -> None:
        """Do nothing: a peer ignores sids that it knows."""
        if self._announcer is not None:
            self._announcer.permit(self._permissions)

    def forget(self, account: str) -> None:
        """Do nothing: accounts with dedicated connections are not announced here."""

    def accountsChanged(self) -> None:
        self._bus = self._buses.busOf(GLOBAL_ACCOUNT)
        self.interest.accountsChanged()

    def end(self) -> None:
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            announcer.end(False)
        self.interest.clear()
        self._heard.clear()

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        """Send a message. C{queues} are groups of each of which one member gets it."""
        bus, subject = self._bus, message.subject
        if bus is None or self._link.outbox.closed:
            return
        if self._isOldest and subject.startswith(_SYSTEM):
            return
        matches = bus.matcher.match(subject)
        isForGroups = isinstance(message, GroupMessage)
        chosen = [] if isForGroups else self._among(matches.links)[:1]
        for name, _, there in matches.groups:
            if name in queues:
                chosen += self._oneOf(self._among(there))
        for subscription in chosen:
            # Too much output may wait for the peer already. Then all of its interest is gone.
            if not self._link.reason:
                self._send(message, self._heard.choose(subscription.pattern, subscription.queue))

    def _among(self, subscriptions: tuple[hot.Subscription, ...]) -> list[hot.Subscription]:
        return [
            subscription
            for subscription in subscriptions
            if subscription.subscriber is self._member
        ]

    def _oneOf(self, members: list[hot.Subscription]) -> list[hot.Subscription]:
        if len(members) < 2:
            return members
        weights = [member.weight for member in members]
        return self._link.context.random.choices(members, weights)

    def _send(self, message: Message, heard: RemoteSid) -> None:
        outbox = self._link.outbox
        outbox.messages += 1
        outbox.messageBytes += len(message.payload)
        outbox.write(cluster.messageFrame(message, heard.sid))
        heard.sent += 1
        if heard.isFull and not self._link.reason:
            self._lose(heard)

    def _subscribed(self, given: tuple[bytes, bytes, bytes]) -> None:
        pattern, queue, sid = given
        if not isValidSubject(pattern.translate(_HARMLESS)):
            self._link.say(errors.INVALID_SUBJECT.line())
            return
        if self._heard.add(sid, pattern, queue):
            self._weigh(pattern, queue)
        self._understood()

    def _unsubscribed(self, given: tuple[bytes, int]) -> None:
        sid, maximum = given
        heard = self._heard.get(sid)
        if heard is not None:
            heard.maximum = maximum
            if heard.isFull or not maximum:
                self._lose(heard)
        self._understood()

    def _lose(self, heard: RemoteSid) -> None:
        self._heard.remove(heard)
        self._weigh(heard.pattern, heard.queue)

    def _weigh(self, pattern: bytes, queue: bytes) -> None:
        account = GLOBAL_ACCOUNT.encode()
        weight = self._heard.weight(pattern, queue)
        interest = LinkInterest(account, b"", pattern, queue, weight if queue else 0)
        if weight:
            self.interest.gained(interest)
        else:
            self.interest.lost(interest)

    def _message(
        self,
        subject: bytes,
        reply: bytes,
        headerLength: int,
        body: bytes,
        sizeText: bytes,
        headerText: bytes,
        sid: bytes,
    ) -> None:
        bus = self._bus
        if cluster.isDirected(sid):
            self._directed(subject, reply, body, sizeText, sid)
        elif bus is not None:
            message = Message(subject, body, reply, 0, self._member, sizeText, b"", ())
            bus.publish(message, self._link.later)
        self._understood()

    def _directed(
        self, subject: bytes, reply: bytes, body: bytes, sizeText: bytes, sid: bytes
    ) -> None:
        bus, queue = self._bus, self._told.group(sid)
        if not queue:
            _log.debug(
                "{link} - No queue group for routed message with {sid} on subject: {subject}",
                link=str(self._link),
                sid=inQuotes(sid),
                subject=inQuotes(subject),
            )
        elif bus is not None:
            bus.publish(
                GroupMessage(subject, body, reply, 0, self._member, sizeText, b"", (queue,)),
                self._link.later,
            )

    def _understood(self) -> None:
        if self.isVerbose:
            self._link.say(b"+OK\r\n")
