"""The contracts of the message bus and of subject routing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from natsbroker.subjects.interestfilter import InterestFilter
    from natsbroker.wire.values import ClientInfo, Message, Run


class ISubscriber(Interface):
    """Receives the messages of its subscriptions."""

    def deliver(message: Message, tag: Any) -> None:
        """
        Receive a message. The bus calls this in the reactor's thread, in the order of publishing.
        It must not block and must not change the message; it may publish. An exception is logged
        and does not affect other subscribers.

        @param message: its bytes objects may be kept.
        @param tag: the subscription's tag, see L{IMessageBus.subscribe}.
        """

    def subscriptionEnded(tag: Any) -> None:
        """
        A subscription has received the number of messages that C{cancelAfter} set. Not called for
        C{cancel}. Nothing is delivered to it afterwards.
        """


class IBatchSubscriber(ISubscriber):
    """A subscriber that takes all messages of one batch in one call, for throughput."""

    def deliverMany(messages: list[tuple[Message, Any]]) -> None:
        """
        Receive messages with their tags, in order. Called once when the batch ends, instead of
        C{deliver}, whose rules hold. Messages that were published before a subscription was
        cancelled are included.
        """


class IAckSubscriber(IBatchSubscriber):
    """
    A JetStream consumer: where the lane is compiled, the list of C{deliverMany} may have an
    L{natsbroker.wire.values.AckRun} in the place of acknowledgements that follow each other. The
    pattern of their subscription ends with five C{*}, for the numbers.
    """


class IRunSubscriber(ISubscriber):
    """
    A subscriber that takes runs: messages that differ only in their payloads arrive as one object.
    """

    def deliverRuns(runs: list[tuple[Run, Any]]) -> None:
        """
        Receive runs with their tags, in order. Called once when the batch ends, instead of
        C{deliver}, whose rules hold; but the lists of payloads belong to the subscriber. Messages
        that were published before a subscription was cancelled are included.
        """


class ITracedSubscriber(ISubscriber):
    """A subscriber that adds events of its own to the traces of messages."""

    def deliverTraced(message: Message) -> None:
        """
        Receive a message with a C{trace}, and add to it what becomes of the message. The message
        changes nothing if the trace's C{isOnly} is true. Called after all that came before.
        """


class IOutboxSubscriber(ISubscriber):
    """
    A client connection. The lane writes frames into its outbox, with the tag as sid; the
    readable path calls C{deliver}.
    """

    outbox = Attribute("The L{natsbroker.pure.outbox.Outbox} of the connection; read once.")


class ILinkSubscriber(Interface):
    """
    A link to another broker. It receives each message once, whatever number of its subscriptions
    match.
    """

    def forward(message: Message, queues: tuple[bytes, ...]) -> None:
        """
        Send a message to the other broker.

        @param queues: the queue groups; the other broker delivers to one member of each.
        """


class IOutboxLink(ILinkSubscriber):
    """
    A link with an outbox. The lane writes frames into it (C{HMSG}, C{RMSG}, or C{LMSG} to
    leafnodes) with the subscription's tag before the subject: the account as the link names it and
    a space, or empty. The readable path calls C{forward}.

    A link to a leafnode of a named cluster, direct or over another member of this cluster, has the
    name as C{cluster}: no message returns to the cluster that it came from.
    """

    outbox = Attribute(
        "The L{natsbroker.pure.outbox.Outbox} of the connection; read once. "
        "Its C{headers} says whether the peer takes headers."
    )

    prefix = Attribute("The tag for the link's account.")


class ISubscription(Interface):
    """A subscription on a bus."""

    pattern = Attribute("The subject pattern, as bytes.")
    queue = Attribute("The queue group; empty for a plain subscription.")
    tag = Attribute("The tag given to L{IMessageBus.subscribe}.")
    delivered = Attribute("The number of messages delivered.")
    closed = Attribute("Whether it has ended.")
    permissions = Attribute(
        "The L{natsbroker.subjects.permissions.SubscribePermissions} that each message must pass; "
        "C{None} if all matching messages may be delivered. The subscriber sets it."
    )

    def cancel() -> None:
        """End it now. Nothing is delivered afterwards. A second call does nothing."""

    def cancelAfter(count: int) -> None:
        """
        End it after C{count} messages, including those already delivered. A later call replaces an
        earlier one; zero ends it at once.
        """

    def reweigh(weight: int) -> None:
        """Change the number of queue group members that it stands for; for links."""


class IOrigin(Interface):
    """
    The publisher of a message, as services see it: the C{origin} of a client's messages. A bridge
    that publishes for others provides it too, with their grant in this broker; services refuse
    requests whose origin has no grant.
    """

    grant = Attribute(
        "The L{natsbroker.wire.grants.Grant} in force; C{None} before the login and after the end."
    )

    def clientInfo(isDetailed: bool) -> ClientInfo:
        """
        @param isDetailed: whether to give more than the account and the round trip.
        """


class IPeerOrigin(IOrigin):
    """Another server, as the publisher of what its users publish."""

    isPeer = Attribute(
        "Whether the server has admitted its users itself, so that only the subjects of their "
        "messages are known to be allowed. If not, the grant is all that they may do."
    )


class IInterestWatcher(Interface):
    """
    Receives the interest of an account: links translate it into the operations of their dialect.

    By default the interest is that of this broker: clients, internal services and leafnodes that it
    is the hub of, without local services and without the interest of other links. Streams that
    other accounts import from this one count as if their subscribers were in it. Services that this
    account imports do not count: every broker imports them itself.
    """

    def interestGained(pattern: bytes, queue: bytes, weight: int) -> None:
        """
        The first subscription to C{pattern} in the group C{queue} exists.

        @param weight: the members of the group, or the plain subscriptions.
        """

    def interestWeightChanged(pattern: bytes, queue: bytes, weight: int) -> None:
        """The members of a group have changed and are not zero. Not called for plain interest."""

    def interestLost(pattern: bytes, queue: bytes) -> None:
        """The last subscription has ended."""


class IClusterInterestWatcher(IInterestWatcher):
    """
    A watcher with an interest filter that names clusters: the subscriptions of each cluster of
    leafnodes are reported separately.
    """

    def interestGained(pattern: bytes, queue: bytes, weight: int, cluster: bytes = b"") -> None:
        """
        @param cluster: of the leafnode that has the subscription; empty for none.
        """

    def interestWeightChanged(
        pattern: bytes, queue: bytes, weight: int, cluster: bytes = b""
    ) -> None:
        """The members of a group at leafnodes of this cluster have changed."""

    def interestLost(pattern: bytes, queue: bytes, cluster: bytes = b"") -> None:
        """The last subscription at leafnodes of this cluster has ended."""


class IPublisher(Interface):
    """The publishing half of L{IMessageBus}."""

    def mapped(subject: bytes) -> bytes:
        """
        Apply the account's subject mappings to a subject that a client or a leafnode publishes to.
        A session calls this once for each message and checks permissions for the result.

        @return: the subject itself, another one, or empty if the mapping drops the message.
        """

    def publish(
        message: Message, later: Callable[[Generator[None, None, int]], None] | None = None
    ) -> int:
        """
        Deliver a message to the matching subscribers that this kind of origin reaches. Its subject
        is not mapped.

        @param later: called for many receivers, with a generator that delivers to some of them at
            each step and returns their number. The caller exhausts it, at once or in its turns,
            before it publishes anything else. Without C{later} all receivers are served at once.
        @return: the number of receivers, a link counting as one; -1 if C{later} was called.
        """

    def publishInternal(subject: bytes, payload: bytes) -> int:
        """
        Deliver a message of this program that has only a subject and a payload: no reply subject,
        no headers, no origin. It is the shortest way for services that send much.

        @return: how many receivers there were.
        """

    def publishBatch(subject: bytes, payloads: list[bytes]) -> int:
        """
        Deliver many messages to one subject, in order, as L{publish} delivers one.

        @return: how many receivers the last one had.
        """


class IMessageBus(IPublisher):
    """
    One account, for one kind of origin: sessions, links, services and third parties hold a bus, so
    the origin of a message cannot be forged.
    """

    account = Attribute("The account's name, as text.")

    matcher = Attribute(
        "The L{natsbroker.hot.Matcher} of the account: the cached matches of its router, which the "
        "lane reads too. Its C{counterFor} may be set, to count published messages."
    )

    def refresh() -> None:
        """
        Drop the cached matches. A subscriber calls this after a change of its outbox or of its
        subscriptions' permissions.
        """

    def subscribe(
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        """
        @param pattern: a valid subject, with wildcards or without.
        @param subscriber: for kinds that are links an L{ILinkSubscriber}.
        @param tag: an argument of every delivery; for an L{IOutboxSubscriber} the sid.
        @param queue: the queue group; empty for none.
        @param weight: for links: the members of the group at the other broker.
        @raise ValueError: for an invalid subject.
        @raise natsbroker.errors.BrokerError: if the router takes no more entries.
        """

    def serve(
        pattern: bytes, subscriber: ISubscriber, tag: Any = None, queue: bytes = b""
    ) -> ISubscription:
        """
        Subscribe a service whose requests need a permission. It receives only the messages that an
        origin with the permission published: a client, a link for its peer's users, an importer, or
        a program in this process that names an L{IOrigin}, such as a
        L{natsbroker.accounts.requests.ProgramOrigin}. A message of the broker itself (of a stream,
        an answer, a status, a heartbeat) has no origin and is no request; neither is an answer from
        another account. Imports of streams do not reach it.
        """

    def cancelAll(subscriptions: Iterable[ISubscription]) -> None:
        """
        Cancel many subscriptions of the account. None of them receives another message. Memory is
        freed, and the end of interest is announced, in the batches that follow.
        """

    def hasInterest(subject: bytes, isRequest: bool = True) -> bool:
        """
        Whether a message from this kind of origin to a literal subject would have a receiver.

        @param isRequest: whether it has an origin; services take no others (see L{serve}).
        """

    def watchInterest(
        watcher: IInterestWatcher,
        interestFilter: InterestFilter | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """
        Report the interest of the account to a watcher: the present interest and every change.

        @param interestFilter: selects subscriptions; by default those of this broker.
        @param isPatient: whether the present interest may be reported over several batches, with
            changes in between.
        @param whenTold: called when the present interest has been reported.
        @return: called to end it.
        """


class ISubjectRouter(Interface):
    """
    Finds the subscriptions that a subject reaches. Entries are opaque; an entry is inserted at most
    once under a pattern. A router may use other rules than those of NATS.

    The bus caches matches, so a router runs when subscriptions change and not for every message.
    After each C{insert} and C{remove} the bus drops the cached matches of the subjects that the
    pattern matches by NATS's rules. The router announces every other change of a match, whatever
    its cause, through the callable of C{watchChanges}.

    Interest sent to other servers consists of the patterns that clients subscribe to. Routes and
    leafnodes insert these patterns at the other server, so a cluster whose brokers have the same
    router behaves as one; gateways judge interest by NATS's rules. Permissions are checked for the
    subject that was published.
    """

    def insert(pattern: bytes, entry: object) -> None:
        """
        Add an entry under a valid pattern. Subjects that it reaches beyond NATS's rules are
        announced before this returns.

        @raise natsbroker.errors.BrokerError: if the router takes no more entries.
        """

    def remove(pattern: bytes, entry: object) -> bool:
        """
        Remove an entry, with the same announcement as its C{insert}.

        @return: whether it existed.
        """

    def match(subject: bytes) -> Iterable[Any]:
        """
        The entries whose pattern matches a literal subject, in any order. A wildcard in the subject
        is a literal token.
        """

    def hasInterest(subject: bytes) -> bool:
        """Whether L{match} would give an entry."""

    def watchChanges(changed: Callable[[bytes], None]) -> None:
        """
        Register a callable. The router calls it, in the reactor's thread, with a pattern when the
        matches of subjects change that the pattern matches by NATS's rules; C{>} covers all
        subjects. It may call during C{insert} and C{remove}, and need not for the subjects of their
        own pattern.
        """

    def __iter__() -> Iterator[Any]:
        """Iterate over all entries."""

    def __len__() -> int:
        """The number of entries."""


class IPublishFilter(Interface):
    """
    Decides about every message of an account. The account leaves the lane while it has a
    filter; other accounts do not.
    """

    def filterMessage(message: Message, kind: int) -> Message | None:
        """
        Called before matching. It must not block. If it raises, the error is logged and the message
        dropped.

        @param message: the published message.
        @param kind: the L{natsbroker.wire.values.Kind} of its origin.
        @return: the message to deliver, the same or another one; C{None} to drop it. Another one
            is dropped, and the error logged, if its subject or reply is not one to publish to, or
            its header block is longer than its body.
        """
