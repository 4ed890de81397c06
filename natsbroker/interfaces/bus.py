"""
The contracts of the message bus and of subject routing.

Promises: small interfaces that say who calls, when, and what may not happen afterwards.
Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from natsbroker.subjects.audience import Audience
    from natsbroker.wire.values import ClientInfo, Message, Run


class ISubscriber(Interface):
    """
    Somebody to whom messages are delivered.
    """

    def deliver(message: Message, tag: Any) -> None:
        """
        Take a message that matches a subscription. Called by the bus, in the reactor's thread,
        in the order of publishing. Must not block, and must not change the message; it may
        publish. What it raises is logged and harms nobody else.

        @param message: the message; its bytes objects may be kept.
        @param tag: what was given to L{IMessageBus.subscribe}.
        """

    def subscriptionEnded(tag: Any) -> None:
        """
        A subscription ended by itself: it had as many messages as C{cancelAfter} allowed. Not
        called for C{cancel}. Nothing is delivered to it afterwards.
        """


class IBatchSubscriber(ISubscriber):
    """
    A subscriber that lives on throughput and wants all that one chunk of input brought it at
    once.
    """

    def deliverMany(messages: list[tuple[Message, Any]]) -> None:
        """
        Take messages with their tags, in order. Called once when the turn ends, instead of one
        C{deliver} for each. The rules of L{ISubscriber.deliver} hold. What was published before a
        subscription was cancelled still comes.
        """


class IRunSubscriber(ISubscriber):
    """
    The same for a subscriber that can do much with messages that differ in their bodies only: it
    gets these together, and nothing is made for each of them.
    """

    def deliverRuns(runs: list[tuple[Run, Any]]) -> None:
        """
        Take runs of messages with their tags, in order. Called once when the turn ends, instead of
        one C{deliver} for each message. The rules of L{ISubscriber.deliver} hold, but that the
        lists of bodies belong to the subscriber. What was published before a subscription was
        cancelled still comes.
        """


class IOutboxSubscriber(ISubscriber):
    """
    A subscriber that is a connection with an outbox. The fast lane writes its frames straight
    into the outbox, with the tag as sid; everything else calls C{deliver}.
    """

    outbox = Attribute(
        "The L{natsbroker.connections.outbox.Outbox} of the connection; asked for once."
    )


class ILinkSubscriber(Interface):
    """
    A connection to another broker, as a target of messages: it gets each message once, however
    many of its subscriptions match.
    """

    def forward(message: Message, queues: tuple[bytes, ...]) -> None:
        """
        Send a message to the other broker.

        @param message: the message.
        @param queues: the queue groups of which the other broker must deliver to one member each.
        """


class IOutboxLink(ILinkSubscriber):
    """
    A link with an outbox. The fast lane writes its frames straight into the outbox, as C{HMSG} or
    C{RMSG} (C{LMSG} to leafnodes) with the tag of the subscription in front of the subject: the
    account as the link names it with a blank behind it, or no bytes. Everything else calls
    C{forward}.

    What leads to, or comes from, a leafnode of a named cluster, perhaps over another member of
    this cluster, has the name as C{cluster}: no message goes back to a cluster that it came from.
    """

    outbox = Attribute(
        "The L{natsbroker.connections.outbox.Outbox} of the connection; asked for once. "
        "Its C{headers} "
        "says whether the peer understands these."
    )

    prefix = Attribute("That tag, for the account that it stands for.")


class ISubscription(Interface):
    """
    One subscription on a bus, as C{subscribe} returns it.
    """

    pattern = Attribute("The subject pattern, as bytes.")
    queue = Attribute("The queue group; no bytes for a plain subscription.")
    tag = Attribute("What was given to L{IMessageBus.subscribe}.")
    delivered = Attribute("How many messages it has had.")
    closed = Attribute("Whether it has ended.")
    permissions = Attribute(
        "The L{natsbroker.subjects.permissions.SubscribePermissions} that are asked about each "
        "message, where only some that match may be delivered; C{None} if all may. Whoever made "
        "the subscription may set it."
    )

    def cancel() -> None:
        """
        End it now. Nothing is delivered afterwards. Cancelling twice does nothing.
        """

    def cancelAfter(count: int) -> None:
        """
        End it when it has had so many messages, those that it already had included; at once if
        it has had them. A later call replaces an earlier one; zero ends it at once.
        """

    def reweigh(weight: int) -> None:
        """
        Have it stand for another number of members of its queue group, which is for links.
        """


class IOrigin(Interface):
    """
    A client that publishes: what services may know of it, and on whose behalf they act. The
    C{origin} of its messages provides this. Whoever passes on messages of others than clients of
    this broker provides it too, with the grant that they have here: an origin that does not is
    nobody to a service that asks, and is refused.
    """

    grant = Attribute(
        "The L{natsbroker.wire.grants.Grant} in force now; C{None} for whoever is not let in, or "
        "not any more."
    )

    def clientInfo(isDetailed: bool) -> ClientInfo:
        """
        Who it is.

        @param isDetailed: whether more may be told than its account and its round trip.
        """


class IInterestWatcher(Interface):
    """
    Somebody who wants to know what an account is subscribed to: links translate it into the
    operations of their dialect.

    Unless it asks for something else, only subscriptions of this broker count (clients, internal
    services and leafnodes that it is the hub of), never what was learned from other links, and no
    services that answer for this broker alone. What other accounts import from this one counts as
    if their subscribers were in it. What this account imports as a service does not: every broker
    does that by itself.

    Whoever asks for an audience that tells clusters of leafnodes apart is given, as one more
    argument at the end, the cluster that a subscription is told of; no more for one of no cluster.
    """

    def interestGained(pattern: bytes, queue: bytes, weight: int) -> None:
        """
        The first subscription to C{pattern} in group C{queue} appeared.

        @param weight: how many members there are; for plain interest, how many subscriptions.
        """

    def interestWeightChanged(pattern: bytes, queue: bytes, weight: int) -> None:
        """
        The number of members of a group changed and is not zero. Not called for plain interest.
        """

    def interestLost(pattern: bytes, queue: bytes) -> None:
        """
        The last one is gone.
        """


class IPublisher(Interface):
    """
    The publishing half of L{IMessageBus}.
    """

    def mapped(subject: bytes) -> bytes:
        """
        Where a message goes that a client, or a leafnode, publishes to a subject: the account's
        mappings say so. Whoever takes messages from clients asks this first, once for each
        message, and checks permissions for the answer.

        @return: the subject itself, another one, or no bytes if the message is lost.
        """

    def publish(
        message: Message, later: Callable[[Generator[None, None, int]], None] | None = None
    ) -> int:
        """
        Deliver a message to everybody who is subscribed and reached from this kind of origin. Its
        subject is not mapped.

        @param later: called with a generator where there are many receivers, which delivers to some
            of them at each step. The caller uses it up, at once or as its turns allow, before it
            publishes anything else; what it returns is the number of receivers. Without C{later}
            all receivers are served at once.
        @return: how many receivers there were (a link counts as one); -1 if C{later} was called.
        """

    def post(subject: bytes, payload: bytes) -> int:
        """
        The same for a message of this program's own that is a subject and a payload and nothing
        else: no reply subject, no headers, no origin. It is the shortest way for services that send
        much.

        @return: how many receivers there were.
        """

    def postMany(subject: bytes, payloads: list[bytes]) -> int:
        """
        The same for many messages to one subject, in order.

        @return: how many receivers the last one had.
        """


class IMessageBus(IPublisher):
    """
    The door to one account, bound to one kind of origin: sessions, links, services and third
    parties hold exactly this, so nobody can lie about where a message came from.
    """

    account = Attribute("The account's name, as text.")

    matcher = Attribute(
        "Who is subscribed to a subject, as a L{natsbroker.hot.Matcher}: the remembered answers "
        "of the account's router, which the fast lane asks by itself. Its C{recorder} may be set, "
        "to have counted what clients publish."
    )

    def refresh() -> None:
        """
        Have everything that is remembered about subscribers found out anew. To be called by a
        subscriber whose outbox, or whose subscriptions' permissions, have changed.
        """

    def subscribe(
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        """
        Have matching messages delivered.

        @param pattern: a valid subject, which may hold wildcards.
        @param subscriber: who gets them; for the kinds that are links an L{ILinkSubscriber}.
        @param tag: given back with every delivery; for an L{IOutboxSubscriber} the sid.
        @param queue: the queue group, or no bytes.
        @param weight: for links: how many members the group has over there.
        @raise ValueError: if the pattern is not a valid subject.
        @raise natsbroker.errors.BrokerError: if the router takes no more.
        """

    def cancelAll(subscriptions: Iterable[ISubscription]) -> None:
        """
        Cancel many subscriptions of the account. None of them gets another message; what they take
        up is freed, and others hear that interest has ended, as turns allow.
        """

    def hasInterest(subject: bytes) -> bool:
        """
        Whether a message to this literal subject would reach anybody from this kind of origin.
        """

    def watchInterest(
        watcher: IInterestWatcher,
        audience: Audience | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Any:
        """
        Be told what is subscribed: all there is, and every change.

        @param audience: of which subscriptions (a L{natsbroker.subjects.audience.Audience}); by
            default of those of this broker.
        @param isPatient: whether what there is may be told bit by bit, as turns allow, with changes
            in between, and not at once.
        @param whenTold: called when the watcher knows what there is.
        @return: a callable without arguments that ends it.
        """


class ISubjectRouter(Interface):
    """
    Which subscriptions a subject reaches. Entries are opaque; an entry is inserted at most once
    under a pattern. A router need not follow NATS's rules of matching.

    The bus remembers answers, so a router runs when subscriptions change and not for every message.
    After each C{insert} and C{remove} the bus forgets its answers for the subjects that the pattern
    matches by NATS's rules. The router announces every other change of an answer, whatever causes
    it, with the callable that C{watchChanges} gave it.

    Interest that other servers are sent consists of the patterns that clients subscribe to. Routes
    and leafnodes insert such patterns on the other side, so a cluster behaves alike where all its
    brokers have the same router; gateways judge interest by NATS's rules. Permissions are checked
    for a subject as it was published.
    """

    def insert(pattern: bytes, entry: object) -> None:
        """
        Add an entry under a valid pattern. Subjects that it reaches although the pattern does not
        match them by NATS's rules are announced before this returns.

        @raise natsbroker.errors.BrokerError: if the router takes no more.
        """

    def remove(pattern: bytes, entry: object) -> bool:
        """
        Take an entry out, with the announcement that its C{insert} made.

        @return: whether it was there.
        """

    def match(subject: bytes) -> Iterable[Any]:
        """
        All entries whose pattern matches a literal subject (a wildcard in it counts as a literal
        token), in any order.
        """

    def hasInterest(subject: bytes) -> bool:
        """
        Whether L{match} would give anything.
        """

    def watchChanges(changed: Callable[[bytes], None]) -> None:
        """
        Register a callable that the router calls, in the reactor's thread, with a pattern when its
        answers change for subjects that the pattern matches by NATS's rules; C{>} covers all
        subjects. Calls during C{insert} and C{remove} are allowed. Changes that these cause for the
        subjects of their own pattern need no call.
        """

    def __iter__() -> Iterator[Any]:
        """
        All entries.
        """

    def __len__() -> int:
        """
        How many entries there are.
        """


class IPublishFilter(Interface):
    """
    A decision for every message of an account. Registering one takes the account off the fast
    lane; no other account pays.
    """

    def filterMessage(message: Message, kind: int) -> Message | None:
        """
        Called before matching. Must not block. If it raises, that is logged, and the message is
        dropped.

        @param message: what was published.
        @param kind: the L{natsbroker.wire.values.Kind} of its origin.
        @return: the message to deliver, which may be another one, or C{None} to drop it.
        """
