"""
The delivery of what is published in an account.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker.interfaces import IBatchSubscriber, IPublishFilter
from natsbroker.subjects.grammar import matches
from natsbroker.wire.reach import REACH
from natsbroker.wire.values import EVERY_GROUP, GroupMessage, Kind, Message
from tests.accounts.hall import Connection, Hall
from tests.subjects.strategies import DELIVERABLE, PATTERNS
from tests.support import LinkRecorder, Names, Recorder, onEach, using


@implementer(IBatchSubscriber)
class BatchRecorder(Recorder):
    """
    A service that takes its messages at the end of a batch.
    """

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        for message, tag in messages:
            self.deliver(message, tag)


LINKS = [Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE]
OURS = [Kind.CLIENT, Kind.INTERNAL]


@onEach
class TestQueueGroups:
    """Queue groups."""

    def test_oneMember(self, hall: Hall) -> None:
        """Exactly one member of each group gets a message. Plain subscriptions get it too."""
        plain = Recorder()
        members = {queue: [Recorder() for _ in range(3)] for queue in (b"q", b"r")}
        hall.bus.subscribe(b"foo", plain)
        for queue, recorders in members.items():
            for recorder in recorders:
                hall.bus.subscribe(b"foo", recorder, b"", queue)
        for number in range(1, 101):
            assert hall.publish(b"foo") == 3
            assert len(plain.got) == number
            for recorders in members.values():
                assert sum(len(recorder.got) for recorder in recorders) == number

    def test_everyMemberGetsSome(self, hall: Hall) -> None:
        """All members of a group get some of many messages."""
        members = [Recorder() for _ in range(4)]
        for member in members:
            hall.bus.subscribe(b"foo", member, b"", b"q")
        for _ in range(400):
            hall.publish(b"foo")
        assert all(len(member.got) > 50 for member in members)

    def test_oneGroupOnSeveralPatterns(self, hall: Hall) -> None:
        """A group whose members match by different patterns is still one group."""
        recorder = Recorder()
        hall.bus.subscribe(b"foo.*", recorder, 1, b"q")
        hall.bus.subscribe(b"foo.>", recorder, 2, b"q")
        for _ in range(20):
            assert hall.publish(b"foo.bar") == 1
        assert set(recorder.tags) == {1, 2}

    def test_memberWithClosedOutbox(self, hall: Hall) -> None:
        """A member of a group whose outbox is closed is not chosen."""
        closed, open_ = Connection(hall.batch), Connection(hall.batch)
        hall.bus.subscribe(b"foo", closed, b"1", b"q")
        hall.bus.subscribe(b"foo", open_, b"2", b"q")
        closed.outbox.close()
        for _ in range(20):
            assert hall.publish(b"foo") == 1
        assert (len(closed.got), len(open_.got)) == (0, 20)

    def test_repeatable(self, hall: Hall) -> None:
        """The same seed chooses the same members of a group."""
        choices = []
        for _ in range(2):
            other, recorder = Hall(seed=7), Recorder()
            for tag in range(5):
                other.bus.subscribe(b"foo", recorder, tag, b"q")
            for _ in range(30):
                other.publish(b"foo")
            choices.append(recorder.tags)
        assert choices[0] == choices[1]
        assert len(set(choices[0])) == 5


@onEach
class TestServices:
    """Subscriptions that take requests."""

    @pytest.mark.parametrize("service", [Recorder, BatchRecorder])
    @pytest.mark.parametrize("queue", [b"", b"q"])
    def test_origin(self, hall: Hall, service: type[Recorder], queue: bytes) -> None:
        """
        A service receives messages with an origin. Clients with the same subscription receive all.
        """
        asked, client = service(), Connection(hall.batch)
        bus = hall.busFor(Kind.INTERNAL)
        bus.serve(b"ask.*", asked, "tag", queue)
        hall.bus.subscribe(b"ask.a", client, b"1", queue and b"r")
        hall.publish(b"ask.a", b"1", origin=object())
        hall.publish(b"ask.a", b"2")
        bus.publishInternal(b"ask.a", b"3")
        bus.publishBatch(b"ask.a", [b"4", b"5"])
        while hall.soon:
            hall.soon.pop(0)()
        assert (asked.bodies, asked.tags) == ([b"1"], ["tag"])
        assert [bus.publishInternal(subject, b"") for subject in (b"ask.a", b"ask.b")] == [1, 0]

    @pytest.mark.parametrize("kind", Kind)
    def test_anyKind(self, hall: Hall, kind: Kind) -> None:
        """
        A service receives a message of any kind that reaches it, if the message has an origin.
        """
        asked = Recorder()
        hall.busFor(Kind.INTERNAL).serve(b"ask", asked)
        taken = int(Kind.INTERNAL in REACH[kind])
        assert hall.publish(b"ask", kind=kind, origin=object()) == taken
        assert hall.publish(b"ask", kind=kind) == 0

    def test_filtered(self, hall: Hall) -> None:
        """A message that a filter replaces is a request only if the message before was one."""

        @implementer(IPublishFilter)
        class Louder:
            def filterMessage(self, message: Message, kind: int) -> Message:
                return Message(message.subject, message.body.upper())

        asked = Recorder()
        hall.busFor(Kind.INTERNAL).serve(b"ask", asked)
        hall.account.delivery.filters.add(Louder())
        hall.publish(b"ask", b"a", origin=object())
        hall.publish(b"ask", b"b")
        assert asked.bodies == [b"A"]

    @pytest.mark.parametrize("subject", [b"$JS.API.STREAM.DELETE.S", b"mine"])
    @pytest.mark.parametrize("kind", LINKS)
    @pytest.mark.parametrize("queue", [b"", b"q"])
    def test_otherBrokers(self, hall: Hall, subject: bytes, kind: Kind, queue: bytes) -> None:
        """
        A message that is not a request at this broker is not sent to another broker, where it would
        be a request.
        """
        link = LinkRecorder()
        hall.busFor(kind).subscribe(b">", link, b"", queue)
        hall.busFor(Kind.INTERNAL).serve(b"mine", Recorder())
        assert hall.publish(subject) == hall.publish(subject, kind=Kind.INTERNAL) == 0
        assert hall.publish(b"foo", b"event") == 1
        hall.publish(subject, b"asked", origin=object())
        assert [body for body, _ in link.got] == [b"event", b"asked"]

    def test_interest(self, hall: Hall) -> None:
        """The interest of a service is only in requests."""
        bus = hall.busFor(Kind.INTERNAL)
        service = bus.serve(b"ask", Recorder())
        assert bus.hasInterest(b"ask")
        assert not bus.hasInterest(b"ask", isRequest=False)
        hall.bus.subscribe(b"ask", Recorder())
        assert bus.hasInterest(b"ask", isRequest=False)
        service.cancel()
        assert bus.hasInterest(b"ask")

    def test_outbox(self, hall: Hall) -> None:
        """A connection that has a service receives requests by the readable path."""
        connection = Connection(hall.batch)
        hall.bus.serve(b"ask", connection, b"1")
        assert hall.busFor(Kind.INTERNAL).publishInternal(b"ask", b"x") == 0
        assert hall.publish(b"ask", origin=object()) == 1


@onEach
class TestLinks:
    """Other brokers as receivers."""

    @pytest.mark.parametrize("origin", Kind)
    @pytest.mark.parametrize("target", Kind)
    def test_reach(self, hall: Hall, origin: Kind, target: Kind) -> None:
        """A message goes from one kind to another exactly as the forwarding rules say."""
        receiver: Any = LinkRecorder() if target in LINKS else Recorder()
        hall.busFor(target).subscribe(b"foo", receiver, b"1")
        expected = int(target in REACH[origin])
        assert hall.busFor(origin).hasInterest(b"foo") is bool(expected)
        assert hall.publish(b"foo", kind=origin) == expected
        assert len(receiver.got) == expected

    def test_linkGetsItOnce(self, hall: Hall) -> None:
        """A link gets a message once, however many of its subscriptions match."""
        link, other = LinkRecorder(), LinkRecorder()
        for pattern in (b"a.b", b"a.*", b">"):
            hall.busFor(Kind.ROUTE).subscribe(pattern, link)
        hall.busFor(Kind.ROUTE).subscribe(b"a.b", other)
        assert hall.publish(b"a.b", b"x") == 2
        assert link.got == other.got == [(b"x", ())]

    def test_neverBack(self, hall: Hall) -> None:
        """A message does not go back over the link that it came from."""
        link = LinkRecorder()
        hall.busFor(Kind.SPOKE).subscribe(b"foo", link)
        hall.busFor(Kind.SPOKE).subscribe(b"foo", link, b"", b"q")
        assert hall.publish(b"foo", kind=Kind.SPOKE, origin=link, queues=(b"r",)) == 0
        assert link.got == []

    @pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.HUB, Kind.SPOKE])
    def test_lastMemberGone(self, hall: Hall, kind: Kind) -> None:
        """
        A message for a queue group from another server is passed to another link when the last
        member here is gone.
        """
        member, sender, other = Recorder(), LinkRecorder(), LinkRecorder()
        subscription = hall.bus.subscribe(b"foo", member, b"", b"q")
        for client in (sender, other):
            hall.busFor(kind).subscribe(b"foo", client, b"", b"q")
        chosen: Any = {"kind": kind, "origin": sender, "queues": (b"q",)}
        hall.publish(b"foo", b"1", **chosen)
        subscription.cancel()
        hall.publish(b"foo", b"2", **chosen)
        assert (member.bodies, other.got, sender.got) == ([b"1"], [(b"2", (b"q",))], [])

    def test_mappedAfterLink(self, hall: Hall) -> None:
        """
        A message over a link for every group is not sent to another link, because it was mapped
        here.
        """
        link = LinkRecorder()
        hall.busFor(Kind.HUB).subscribe(b"foo", link, b"", b"q")
        assert hall.publish(b"foo", kind=Kind.HUB, origin=link, queues=EVERY_GROUP) == 0
        assert link.got == []

    def test_cancelledOnTheWay(self, hall: Hall) -> None:
        """A link whose subscription ends while a message is delivered here does not get it."""
        link = LinkRecorder()
        subscription = hall.busFor(Kind.ROUTE).subscribe(b"foo", link)
        hall.bus.subscribe(b"foo", Recorder(lambda message: subscription.cancel()))
        assert hall.publish(b"foo") == 1
        assert link.got == []

    def test_localMembersFirst(self, hall: Hall) -> None:
        """A message for a group with a member here is delivered to a member here."""
        here, link = Recorder(), LinkRecorder()
        hall.bus.subscribe(b"foo", here, b"", b"q")
        hall.busFor(Kind.ROUTE).subscribe(b"foo", link, b"", b"q", weight=100)
        for _ in range(20):
            assert hall.publish(b"foo") == 1
        assert (len(here.got), link.got) == (20, [])

    def test_remoteMember(self, hall: Hall) -> None:
        """A group without a member here is served by one link, which learns the group."""
        links = [LinkRecorder() for _ in range(3)]
        for link in links:
            hall.busFor(Kind.ROUTE).subscribe(b"foo", link, b"", b"q")
        for number in range(1, 31):
            assert hall.publish(b"foo", b"x") == 1
            assert sum(len(link.got) for link in links) == number
        assert all(link.got for link in links)
        assert {got for link in links for got in link.got} == {(b"x", (b"q",))}

    def test_weights(self, hall: Hall) -> None:
        """A link that represents more members of a group is chosen more often."""
        light, heavy = LinkRecorder(), LinkRecorder()
        hall.busFor(Kind.ROUTE).subscribe(b"foo", light, b"", b"q", weight=1)
        hall.busFor(Kind.ROUTE).subscribe(b"foo", heavy, b"", b"q", weight=9)
        for _ in range(200):
            hall.publish(b"foo")
        assert 5 < len(light.got) < 50 < len(heavy.got)

    def test_plainAndQueuesInOne(self, hall: Hall) -> None:
        """
        Plain subscriptions and chosen groups of one link get one message, which names all the
        groups.
        """
        link = LinkRecorder()
        for queue in (b"", b"q", b"r"):
            hall.busFor(Kind.ROUTE).subscribe(b"foo", link, b"", queue)
        assert hall.publish(b"foo", b"x") == 1
        [(body, queues)] = link.got
        assert (body, sorted(queues)) == (b"x", [b"q", b"r"])

    def test_closedOutboxesHere(self, hall: Hall) -> None:
        """A link is chosen for a group if every member here has a closed outbox."""
        here, link = Connection(hall.batch), LinkRecorder()
        hall.bus.subscribe(b"foo", here, b"1", b"q")
        hall.busFor(Kind.ROUTE).subscribe(b"foo", link, b"", b"q")
        here.outbox.close()
        assert hall.publish(b"foo", b"x") == 1
        assert link.got == [(b"x", (b"q",))]

    @pytest.mark.parametrize("kind", LINKS)
    def test_directed(self, hall: Hall, kind: Kind) -> None:
        """
        A message from a link reaches one member of each group that its sender chose, and no other
        group.
        """
        plain, chosen, other = Recorder(), Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        for _ in range(2):
            hall.bus.subscribe(b"foo", chosen, b"", b"q")
            hall.bus.subscribe(b"foo", other, b"", b"r")
        assert hall.publish(b"foo", kind=kind, queues=(b"q", b"unknown")) == 2
        assert (len(plain.got), len(chosen.got), len(other.got)) == (1, 1, 0)

    def test_forGroupsOnly(self, hall: Hall) -> None:
        """A message for groups reaches one member of each group, and no plain subscription."""
        plain, chosen, other = Recorder(), Recorder(), Recorder()
        links = [LinkRecorder(), LinkRecorder()]
        hall.bus.subscribe(b"foo", plain)
        for _ in range(2):
            hall.bus.subscribe(b"foo", chosen, b"", b"q")
            hall.bus.subscribe(b"foo", other, b"", b"r")
        for link in links:
            hall.busFor(Kind.SPOKE).subscribe(b"foo", link, b"")
        hall.busFor(Kind.SPOKE).subscribe(b"foo", links[1], b"", b"s")
        bus = hall.busFor(Kind.ROUTE)
        assert bus.publish(GroupMessage(b"foo", queues=(b"q", b"unknown"))) == 1
        assert (len(plain.got), len(chosen.got), len(other.got)) == (0, 1, 0)
        assert bus.publish(GroupMessage(b"foo", queues=(b"s",))) == 1
        assert [len(link.got) for link in links] == [0, 1]

    def test_filteredForGroupsOnly(self, hall: Hall) -> None:
        """
        A message for groups that a filter replaces reaches the same groups, and no plain
        subscription.
        """
        plain, chosen = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        hall.bus.subscribe(b"foo", chosen, b"", b"q")

        @implementer(IPublishFilter)
        class Filter:
            """A filter that replaces every message."""

            def filterMessage(self, message: Message, kind: int) -> Message:
                return Message(message.subject, b"other")

        hall.account.delivery.filters.add(Filter())
        hall.busFor(Kind.ROUTE).publish(GroupMessage(b"foo", queues=(b"q",)))
        assert (plain.bodies, chosen.bodies) == ([], [b"other"])

    @pytest.mark.parametrize("kind", LINKS)
    def test_undirected(self, hall: Hall, kind: Kind) -> None:
        """A message from a link without chosen groups reaches plain subscriptions only."""
        plain, member = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        hall.bus.subscribe(b"foo", member, b"", b"q")
        assert hall.publish(b"foo", kind=kind) == 1
        assert (len(plain.got), len(member.got)) == (1, 0)

    def test_groupsOutOfReach(self, hall: Hall) -> None:
        """A group whose members are all out of reach gets nothing."""
        link = LinkRecorder()
        hall.busFor(Kind.GATEWAY).subscribe(b"foo", link, b"", b"q")
        assert not hall.busFor(Kind.ROUTE).hasInterest(b"foo")
        assert hall.publish(b"foo", kind=Kind.ROUTE, queues=(b"q",)) == 0
        assert link.got == []

    @pytest.mark.parametrize("kind", [*LINKS, *OURS, Kind.LOCAL])
    @pytest.mark.parametrize("queue", [b"", b"q"])
    def test_local(self, hall: Hall, kind: Kind, queue: bytes) -> None:
        """
        A service for this broker alone receives messages of the broker's own clients and services,
        and none of links.
        """
        recorder, isHeard = Recorder(), kind not in LINKS
        hall.busFor(Kind.LOCAL).subscribe(b"foo", recorder, b"", queue)
        queues = (b"q",) if kind in LINKS else None
        assert hall.publish(b"foo", kind=kind, queues=queues) == isHeard
        assert (len(recorder.got), hall.busFor(kind).hasInterest(b"foo")) == (isHeard, isHeard)

    def test_localConnection(self, hall: Hall) -> None:
        """
        A connection with a service for this broker alone receives messages of the broker, none of
        routes, and none by a lane.
        """
        connection = Connection(hall.batch)
        hall.busFor(Kind.LOCAL).subscribe(b"foo", connection, b"1")
        assert hall.publish(b"foo", b"no", kind=Kind.ROUTE) == 0
        assert hall.busFor(Kind.INTERNAL).publishInternal(b"foo", b"yes") == 1
        assert (connection.bodies, connection.outbox.pending) == ([b"yes"], 0)

    @pytest.mark.parametrize("kind", LINKS)
    def test_localStays(self, hall: Hall, kind: Kind) -> None:
        """A message that a service publishes for this broker only is sent over no link."""
        link, here = LinkRecorder(), Recorder()
        hall.busFor(kind).subscribe(b"foo", link, b"", b"")
        hall.bus.subscribe(b"foo", here)
        assert hall.publish(b"foo", kind=Kind.LOCAL) == 1
        assert (len(here.got), link.got) == (1, [])

    def test_interestOfGroups(self, hall: Hall) -> None:
        """There is interest where only a group has it, here or over a link in reach."""
        hall.bus.subscribe(b"here", Recorder(), b"", b"q")
        hall.busFor(Kind.ROUTE).subscribe(b"there", LinkRecorder(), b"", b"q")
        assert hall.bus.hasInterest(b"here")
        assert hall.bus.hasInterest(b"there")
        assert not hall.bus.hasInterest(b"nowhere")


@implementer(IPublishFilter)
class Filter:
    """A filter that drops, changes or passes messages."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Kind]] = []

    def filterMessage(self, message: Message, kind: int) -> Message | None:
        self.asked.append((message.body, Kind(kind)))
        if message.body == b"drop":
            return None
        if message.body == b"move":
            return Message(b"elsewhere", b"moved")
        return message


@onEach
class TestFilters:
    """Decisions for every message."""

    def test_decides(self, hall: Hall) -> None:
        """A filter passes a message, drops it, or replaces it."""
        here, elsewhere, decider = Recorder(), Recorder(), Filter()
        hall.bus.subscribe(b"foo", here)
        hall.bus.subscribe(b"elsewhere", elsewhere)
        hall.account.delivery.filters.add(decider)
        counts = [hall.publish(b"foo", body) for body in (b"pass", b"drop", b"move")]
        assert counts == [1, 0, 1]
        assert (here.bodies, elsewhere.bodies) == ([b"pass"], [b"moved"])
        assert decider.asked == [
            (b"pass", Kind.CLIENT),
            (b"drop", Kind.CLIENT),
            (b"move", Kind.CLIENT),
        ]

    def test_raising(self, hall: Hall) -> None:
        """
        A filter that raises an exception lets no message through, and the exception is reported.
        """

        @implementer(IPublishFilter)
        class Failing:
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                raise ZeroDivisionError

        recorder = Recorder()
        hall.bus.subscribe(b"foo", recorder)
        hall.account.delivery.filters.add(Failing())
        assert hall.publish(b"foo") == 0
        assert recorder.got == []
        assert hall.failures == ["A publish filter failed, and what it was asked about is dropped"]

    @pytest.mark.parametrize(
        ("returned", "cure"),
        [
            (True, "returned bool, not a Message: return the message, or None"),
            (b"x", "returned bytes, not a Message: return the message, or None"),
            (Deferred(), "returned Deferred, not a Message: a filter cannot wait for an answer"),
        ],
    )
    def test_noMessage(self, returned: Any, cure: str, hall: Hall) -> None:
        """
        A filter that returns something else than a message drops the message, and is reported with
        the cure.
        """
        errors: list[str] = []
        hall.account.delivery.filters._failed = lambda _, text: errors.append(
            str(sys.exc_info()[1])
        )

        class Wrong:
            def filterMessage(self, message: Message, kind: int) -> Any:
                return returned

        recorder = Recorder()
        hall.bus.subscribe(b"foo", recorder)
        hall.account.delivery.filters.add(Wrong())  # type: ignore[arg-type]
        assert (hall.publish(b"foo"), recorder.got) == (0, [])
        assert errors == [f"Wrong.filterMessage {cure}"]

    def test_inOrder(self, hall: Hall) -> None:
        """
        Filters run in the order in which they were added, each on the result of the one before.
        """
        first, second = Filter(), Filter()
        hall.account.delivery.filters.add(first)
        hall.account.delivery.filters.add(second)
        hall.publish(b"foo", b"move", kind=Kind.ROUTE)
        hall.publish(b"foo", b"drop")
        assert second.asked == [(b"moved", Kind.ROUTE)]

    def test_leavesTheFastLane(self, hall: Hall) -> None:
        """While there is a filter every message takes the readable path."""
        seen = [hall.account.matcher.needsSlowPath]
        removes = [
            hall.account.delivery.filters.add(Filter()),
            hall.account.delivery.filters.add(Filter()),
        ]
        seen.append(hall.account.matcher.needsSlowPath)
        for remove in removes:
            remove()
            seen.append(hall.account.matcher.needsSlowPath)
        assert seen == [False, True, True, False]

    def test_removesItselfWhileAsked(self, hall: Hall) -> None:
        """A filter may remove itself while it filters a message."""

        class Once(Filter):
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                remove()
                return super().filterMessage(message, kind)

        once, other = Once(), Filter()
        remove = hall.account.delivery.filters.add(once)
        hall.account.delivery.filters.add(other)
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        assert (len(once.asked), len(other.asked)) == (1, 2)


SUBSCRIPTIONS = st.lists(
    st.tuples(PATTERNS, st.sampled_from([b"", b"", b"q", b"r"]), st.sampled_from(list(Kind))),
    max_size=10,
)


@onEach
class TestAnything:
    """Properties that hold for any subscriptions and any message."""

    @given(
        SUBSCRIPTIONS,
        DELIVERABLE,
        st.sampled_from(list(Kind)),
        st.sampled_from([None, (), (b"q",), (b"q", b"r")]),
        st.booleans(),
        st.integers(0, 99),
    )
    def test_receivers(
        self,
        names: Names,
        subscriptions: list[tuple[bytes, bytes, Kind]],
        subject: bytes,
        origin: Kind,
        queues: tuple[bytes, ...] | None,
        isSubscribed: bool,
        seed: int,
    ) -> None:
        """
        Each plain subscription that matches and is in reach gets the message once, one member of
        each chosen group gets it, and each link gets it at most once. A publisher does not get its
        own message.

        A group that a server chose may have no member in reach. A message from a route then goes to
        a member at another route, or else back to the sender.
        """
        with using(names):
            hall = Hall(seed)
            receivers: list[Any] = []
            for pattern, queue, kind in subscriptions:
                receiver: Any = LinkRecorder() if kind in LINKS else Recorder()
                receivers.append(receiver)
                hall.busFor(kind).subscribe(pattern, receiver, b"", queue)
            kinds = [kind for _, _, kind in subscriptions]
            isSender = isSubscribed and origin in kinds
            sender = receivers[kinds.index(origin)] if isSender else None
            count = hall.publish(subject, b"x", kind=origin, queues=queues, origin=sender)
        groups: dict[bytes, dict[str, list[Any]]] = {}
        for (pattern, queue, kind), receiver in zip(subscriptions, receivers, strict=True):
            matching = matches(pattern, subject)
            reached = matching and kind in REACH[origin] and receiver is not sender
            if not queue:
                assert len(receiver.got) == int(reached)
                continue
            place = "nowhere"
            if reached:
                place = "links" if kind in LINKS else "here"
            elif matching and receiver is sender and origin in (Kind.ROUTE, Kind.HUB, Kind.SPOKE):
                place = "sender"
            elif matching and origin is kind is Kind.ROUTE:
                place = "routes"
            groups.setdefault(queue, {}).setdefault(place, []).append(receiver)
            if kind in LINKS and receiver.got:
                assert receiver.got == [(b"x", (queue,))]
        for queue, places in groups.items():
            order = ["here", "links"]
            if queues is None:
                order = order if origin in (*OURS, Kind.LOCAL) else []
            elif queue not in queues:
                order = []
            elif origin in LINKS:
                order += ["routes", "sender"]
            taking = next((place for place in order if place in places), None)
            for place, members in places.items():
                got = sum(len(member.got) for member in members)
                assert got == int(place == taking), (queue, place)
        assert count == sum(len(recorder.got) for recorder in receivers)
