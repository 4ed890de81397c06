"""
The traffic of a leafnode connection: interest in both directions, and messages.

A spoke receives all interest of its hub, and a hub the interest that its spoke serves, as far as
the rules permit. Interest of ours that comes back ends the connection, since messages would
circulate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import Bus
from natsbroker.accounts.tracing import FOREIGN, TracePeer
from natsbroker.clients.publishing import ReplyTracker
from natsbroker.interfaces import ILinkSubscriber, IOutboxLink, IPeerOrigin
from natsbroker.leafnodes.rules import ACKNOWLEDGEMENTS, LOOP_SUBJECT, LeafRules
from natsbroker.links.interest import InterestAdvertiser, RemoteInterest
from natsbroker.links.link import Handler, Link
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.permissions import Verdict
from natsbroker.wire import ops
from natsbroker.wire.dialects import leaf, route
from natsbroker.wire.dialects.linklines import LinkMessage
from natsbroker.wire.grants import Grant
from natsbroker.wire.schedules import subjectsIn
from natsbroker.wire.values import EVERY_GROUP, ClientInfo, Kind, Message

#: The kinds of interest that are sent, by the kind of link. A spoke gets the interest that its
#: messages can reach from here. A hub gets what we serve: other members of our cluster have hubs of
#: their own, except neighbours that share one.
_TOLD = {
    Kind.HUB: frozenset({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE}),
    Kind.SPOKE: frozenset(Kind) - {Kind.LOCAL},
}

_LEAFS = frozenset({Kind.HUB, Kind.SPOKE})


@implementer(ILinkSubscriber, IPeerOrigin)
@dataclass(eq=False, slots=True)
class LeafAccount:
    """
    The peer's account: the target of messages to it, and the origin of messages from it.

    @ivar cluster: the peer's, or a name that stands for it; empty for none.
    @ivar isNamed: whether the peer itself has the name of a cluster.
    @ivar grant: the permissions of messages from there.
    @ivar replies: the requests that may be answered; C{None} if answers need no request.
    @ivar tracePeer: the peer in traces.
    """

    outbox: hot.Outbox
    kind: Kind
    cluster: bytes
    grant: Grant
    describe: Callable[[], ClientInfo]
    replies: ReplyTracker | None = None
    tracePeer: TracePeer = FOREIGN
    isNamed: bool = False
    prefix: bytes = field(default=b"", init=False)

    @property
    def isPeer(self) -> bool:
        """True: a leafnode that logged in here is a user itself, with its own permissions."""
        return self.kind is not Kind.SPOKE

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        outbox = self.outbox
        if outbox.closed:
            return
        if message.reply and self.replies is not None:
            self.replies.delivered(message.reply)
        outbox.messages += 1
        outbox.messageBytes += len(message.body)
        outbox.write(leaf.messageFrame(message, queues, outbox.headers))

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        described = self.describe()
        return described if isDetailed else ClientInfo(acc=described.acc, rtt=described.rtt)


@implementer(IOutboxLink)
class _DirectAccount(LeafAccount):
    """A target for which nobody must know what is sent there."""

    __slots__ = ()


def leafAccount(
    link: Link, kind: Kind, cluster: bytes, grant: Grant, describe: Callable[[], ClientInfo]
) -> LeafAccount:
    outbox = link.outbox
    if grant.responses is None:
        return _DirectAccount(outbox, kind, cluster, grant, describe)
    replies = ReplyTracker(grant.responses, link.context.reactor.seconds)
    return LeafAccount(outbox, kind, cluster, grant, describe, replies)


class LeafTraffic:
    def __init__(
        self,
        link: Link,
        bus: Bus,
        target: LeafAccount,
        rules: LeafRules,
        loopSubject: bytes,
        isIsolated: bool,
        reach: Kind,
        cluster: bytes,
    ) -> None:
        """
        @param loopSubject: shows that our own interest comes back.
        @param isIsolated: whether the peer gets no interest of other leafnodes.
        @param reach: the kind of the bus, by whose rules messages pass: see L{LeafLink.reach
            <natsbroker.leafnodes.registry.LeafLink>}.
        @param cluster: of the peer; empty for none. Messages from there need to name no other.
        """
        self._link = link
        self._bus = bus
        self._reach = reach
        self._cluster = cluster
        self.target = target
        self._isHub = target.kind is Kind.SPOKE
        self._rules = rules
        self._loopSubject = loopSubject
        self._account = bus.account.encode("utf-8", "surrogateescape")
        self.interest = RemoteInterest(lambda _: bus, lambda *_: self.target, link, rules)
        self.handlers: dict[int, Handler] = {
            ops.LS_PLUS: link.parsing(
                lambda line: route.splitInterest(line, account=self._account), self._gained
            ),
            ops.LS_MINUS: link.parsing(
                lambda line: route.splitLost(line, account=self._account), self.interest.lost
            ),
            ops.LMSG: self._message,
            ops.HMSG: self._message,
        }
        isShared = reach is not target.kind
        kinds = _TOLD[target.kind] | {Kind.ROUTE} if isShared else _TOLD[target.kind]
        self._interestFilter = InterestFilter(
            kinds - _LEAFS if isIsolated else kinds,
            includesImports=True,
            exclude=target,
            cluster=target.cluster,
            loopSubject=LOOP_SUBJECT,
            omits=Kind.HUB if isShared else None,
            isIsolated=isIsolated,
        )
        self._announcer: InterestAdvertiser | None = None
        self._useLane()

    def _useLane(self) -> None:
        """Use the lane, unless each answer is to be counted."""
        link, target, gate = self._link, self.target, self._rules.incoming
        if hot.LinkLane is None or not link.context.fastLane or target.replies is not None:
            return
        link.lane = hot.LinkLane(
            link.decoder,
            link.outbox,
            self._account,
            False,
            int(self._reach),
            self._cluster,
            None if gate.isOpen else gate,
        )
        link.lane.matchers[self._account] = self._bus.matcher

    def tell(self) -> None:
        self._announcer = InterestAdvertiser(
            self._bus, self._rules, self._tellGained, self._tellLost, self._interestFilter
        )
        self._tellGained(self._loopSubject, b"", 1, b"")

    def _tellGained(self, pattern: bytes, queue: bytes, weight: int, origin: bytes) -> None:
        self._link.say(leaf.interestLine(pattern, queue, weight))

    def _tellLost(self, pattern: bytes, queue: bytes, origin: bytes) -> None:
        self._link.say(leaf.lostLine(pattern, queue))

    def permit(self, rules: LeafRules) -> None:
        if rules == self._rules:
            return
        self._rules = rules
        self._useLane()
        self.interest.permit(rules)
        if self._announcer is not None:
            self._announcer.permit(rules)

    def end(self) -> None:
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            announcer.end(False)
        self.interest.clear()
        if self._link.lane is not None:
            self._link.lane.forget()

    def _gained(self, interest: route.LinkInterest) -> None:
        pattern = interest.pattern
        if pattern == self._loopSubject:
            self._link.close(errors.LEAF_LOOP, self._bus.account)
        elif self._isForbidden(pattern, interest.queue):
            if self._isHub:
                self._link.close(errors.LEAF_SUBSCRIBE, _text(pattern))
        elif self._isFull():
            self._link.say(errors.MAX_SUBSCRIPTIONS.line())
        else:
            self.interest.gained(interest)

    def _isForbidden(self, pattern: bytes, queue: bytes) -> bool:
        if hasWildcard(pattern):
            return False
        return self._rules.mayExport(pattern, queue) is Verdict.DENIED

    def _isFull(self) -> bool:
        most = self.target.grant.maxSubscriptions
        return most is not None and most >= 0 and len(self.interest) >= most

    def _message(self, *frame: Any) -> None:
        came, queues = LinkMessage(*frame[:-1]), frame[-1]
        subject = came.subject
        if not self._rules.mayCome(subject) and not self._isAnswer(subject):
            # A spoke passes on its clients' acknowledgements, which are no reason to close the
            # link.
            if not subject.startswith(ACKNOWLEDGEMENTS):
                self._refuse(subject)
            return
        if came.headerLength and not self._maySchedule(came):
            return
        if came.headerLength and self._traces(came._replace(queues=queues)):
            return
        mapped = self._bus.mapped(subject)
        if mapped is not subject and not self._mayRequest(mapped):
            self._refuse(mapped)
            return
        # The sender chose the groups for the original subject, not for a mapped one.
        chosen = queues if mapped is subject or queues else EVERY_GROUP
        message = came._replace(subject=mapped, queues=chosen).message(self.target)
        self._bus.publish(message, self._link.later)

    def _refuse(self, subject: bytes) -> None:
        if self._isHub:
            self._link.close(errors.LEAF_PUBLISH, _text(subject))

    def _mayRequest(self, mapped: bytes) -> bool:
        """
        Whether a mapped subject is not a request, or a request that the rules permit under this
        subject.
        """
        return not self._bus.matcher.match(mapped).isServed or self._rules.incoming.allows(mapped)

    def _traces(self, came: LinkMessage) -> bool:
        """
        Publish a message with a trace, if its headers ask for one. Return whether it was published.
        """
        tracing, asked = self._bus.tracing, came.message(self.target)
        if tracing is None or not tracing.concerns(asked):
            return False
        message = tracing.begin(asked, self.target.tracePeer, self._mayTraceTo)
        if message is None:
            return True
        subject = message.subject
        trace, mapped = message.trace, self._bus.mapped(subject)
        if mapped is not subject and not self._mayRequest(mapped):
            if trace is not None:
                trace.mapped(message, mapped)
                trace.failed(errors.LEAF_PUBLISH.filled(_text(mapped)))
                trace.release()
            self._refuse(mapped)
            return True
        if mapped is not subject and not message.queues:
            message.queues = EVERY_GROUP
        if trace is None:
            message.subject = mapped
            self._bus.publish(message, self._link.later)
        else:
            trace.mapped(message, mapped)
            self._bus.publishTraced(message)
        return True

    def _mayTraceTo(self, dest: bytes) -> bool:
        isAllowed = self._rules.mayCome(dest)
        if not isAllowed:
            self._link.say(errors.PUBLISH_DENIED.line(_text(dest)))
        return isAllowed

    def _maySchedule(self, came: LinkMessage) -> bool:
        """
        Whether the peer may publish to the target of a schedule and be sent the messages of its
        source.
        """
        targets, sources = subjectsIn(came.body, came.headerLength)
        rules = self._rules
        denied = [target for target in targets if not rules.mayCome(target)]
        denied += [source for source in sources if not rules.outgoing.allows(source)]
        for subject in denied[:1]:
            self._link.say(errors.PUBLISH_DENIED.line(_text(subject)))
        return not denied

    def _isAnswer(self, subject: bytes) -> bool:
        replies = self.target.replies
        return replies is not None and replies.allows(subject)


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")
