"""
Messages over the connection that we dialled to another cluster.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.accounts.gateways import IGatewayLink
from natsbroker.gateways.outbound import GatewayAccount
from natsbroker.gateways.policies import InterestOnlyPolicy
from natsbroker.testing.strategies import literalSubjects, patterns
from natsbroker.wire.dialects.gateway import commandLine
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument, parseDocument
from natsbroker.wire.values import Kind, Message
from tests.links.ears import Mouth
from tests.routes.crossings import OURS, THEIRS, Town, Wire
from tests.support import COMPILED, PURE, Names, Recorder, needsCompiled, onEach, using


def command(wire: Wire, number: GatewayCommand, account: bytes = b"A") -> bool:
    """Announce that all interest follows, or that it is complete."""
    line = commandLine("THERE", number, account)
    done: bool = wire.traffic.commanded(parseDocument(line[5:-2]))
    return done


@onEach
class TestModes:
    """The modes of sending, which the peer's lines change."""

    def test_optimistic(self, names: Names) -> None:
        """At most one message is sent for each unwanted subject before the refusal comes."""
        with using(names):
            town = Town()
            wire = town.leaving()
            for _ in range(3):
                town.publish(b"x.1")
                town.publish(b"x.2")
                if b"x.1" in wire.take():
                    wire.say(b"RS- A x.1", b"RS- A x.2")
            town.publish(b"x.3")
            assert wire.take() == b"RMSG A x.3 1\r\nx\r\n"

    def test_resumes(self, names: Names) -> None:
        """
        A refused subject is sent again after interest in it, in a matching pattern, or in the whole
        account.
        """
        with using(names):
            town = Town()
            wire = town.leaving()
            wire.say(b"RS- A x.1", b"RS- A x.2", b"RS- A x.3", b"RS+ A x.1")
            sent = [town.publish(subject) for subject in (b"x.1", b"x.2", b"x.3")]
            wire.say(b"RS+ A x.*")
            sent += [town.publish(subject) for subject in (b"x.1", b"x.2", b"x.3")]
            wire.say(b"A- A")
            sent.append(town.publish(b"x.1"))
            wire.say(b"A+ A")
            sent.append(town.publish(b"x.1"))
            assert sent == [1, 0, 0, 1, 1, 1, 0, 1]

    @pytest.mark.parametrize("gained", [b"RS+ A a", b"RS+ A a q 1"])
    def test_takenBack(self, names: Names, gained: bytes) -> None:
        """A first subscription in a refused account makes all its subjects wanted again."""
        with using(names):
            town = Town()
            wire = town.leaving()
            mouth = Mouth(names, town)
            wire.say(b"A- A")
            mouth.say(b"PUB x.1 1\r\n1\r\n")
            wire.say(gained)
            mouth.say(b"PUB x.1 1\r\n2\r\n")
            assert wire.take() == b"RMSG A x.1 1\r\n2\r\n"

    def test_switch(self, names: Names) -> None:
        """
        Only wanted messages are sent after the list of interest is complete, and all messages
        before.
        """
        with using(names):
            town = Town()
            wire = town.leaving()
            assert command(wire, GatewayCommand.ALL_SUBS_START)
            wire.say(b"RS+ A want.>")
            sent = [town.publish(b"want.x"), town.publish(b"other")]
            assert command(wire, GatewayCommand.ALL_SUBS_COMPLETE)
            sent += [town.publish(b"want.x"), town.publish(b"other")]
            wire.say(b"RS- A want.>", b"RS+ A other")
            sent += [town.publish(b"want.x"), town.publish(b"other")]
            assert sent == [1, 1, 1, 0, 0, 1]
            assert wire.traffic.figures()["A"]["switched"] == 12.5

    def test_promised(self, names: Names) -> None:
        """A peer that announces all interest gets no message before its list is complete."""
        with using(names):
            town = Town()
            wire = town.leaving(gateway_iom=True)
            assert town.publish(b"a") == 0
            wire.say(b"RS+ A a")
            assert town.publish(b"a") == 1
            assert wire.take() == b"RMSG A a 1\r\nx\r\n"

    def test_interestOnly(self, names: Names) -> None:
        """In the mode interest-only no unwanted message is sent."""
        with using(names):
            town = Town(InterestOnlyPolicy())
            wire = town.leaving()
            for number in range(50):
                town.publish(b"x.%d" % number)
            assert wire.take() == b""

    def test_cutInTheMiddle(self, names: Names) -> None:
        """A connection that ends during a switch leaves nothing behind."""
        with using(names):
            town = Town()
            wire = town.leaving()
            wire.say(b"RS- A x", b"RS+ A a q 1")
            command(wire, GatewayCommand.ALL_SUBS_START)
            wire.hangUp()
            assert [town.publish(b"x"), town.publish(b"a")] == [0, 0]
            again = town.leaving()
            assert [town.publish(b"x"), town.publish(b"a")] == [1, 1]
            assert again.take() == b"RMSG A x 1\r\nx\r\nRMSG A a 1\r\nx\r\n"


class TestPeer:
    """The lines of a peer."""

    @pytest.mark.parametrize("line", [b"RS+ A", b"RS+ A a q", b"RS- A", b"A+ A B", b"A- A B"])
    def test_malformedLines(self, line: bytes) -> None:
        """Malformed lines end the connection, as with nats-server."""
        town = Town()
        wire = town.leaving()
        wire.say(line)
        assert wire.closed == errors.BAD_ARGUMENTS.reason

    def test_notASubject(self) -> None:
        """An invalid pattern is ignored, and the connection stays."""
        town = Town(InterestOnlyPolicy())
        wire = town.leaving()
        wire.say(b"RS+ A a..b", b"RS+ A a.> q 1")
        assert not wire.closed
        assert town.publish(b"a.b") == 1

    @pytest.mark.parametrize(
        ("number", "text"),
        [
            (GatewayCommand.ALL_SUBS_START, b"start"),
            (GatewayCommand.ALL_SUBS_COMPLETE, b"complete"),
        ],
    )
    def test_noAccount(self, number: GatewayCommand, text: bytes) -> None:
        """A command without an account ends the connection with nats-server's error."""
        wire = Town().leaving()
        assert command(wire, number, b"")
        said = b"-ERR 'Account absent from receive-all-subscriptions-%b command'\r\n" % text
        assert wire.take() == said
        assert wire.closed == errors.NO_COMMAND_ACCOUNT.reason

    def test_otherCommands(self) -> None:
        """A command that is not about a list of interest is left to other handlers."""
        wire = Town().leaving()
        assert not wire.traffic.commanded(ServerDocument(gateway="THERE", gateway_cmd=1))


class TestAccounts:
    """Accounts."""

    def test_tableForEachAccount(self) -> None:
        """Every account has an interest table of its own."""
        town = Town(names=("A", "B"))
        wire = town.leaving()
        wire.say(b"RS- A x")
        assert [town.bus(account=name).publish(Message(b"x")) for name in "AB"] == [0, 1]
        assert wire.take() == b"RMSG B x 0\r\n\r\n"

    def test_interestInAnUnknownAccount(self) -> None:
        """Interest in an unknown account applies once the account exists."""
        town = Town()
        wire = town.leaving()
        wire.say(b"RS- B x", b"RS+ B y q 1")
        town.add("B")
        wire.traffic.accountsChanged()
        assert [town.bus(account="B").publish(Message(subject)) for subject in (b"x", b"y")] == [
            0,
            1,
        ]
        assert wire.take() == b"RMSG B y | q 0\r\n\r\n"

    def test_gone(self) -> None:
        """
        An account that was removed or replaced sends no more messages, and a new one of its name
        sends each once.
        """
        town = Town()
        wire = town.leaving()
        old = town.bus()
        town.add("A")
        wire.traffic.accountsChanged()
        assert [old.publish(Message(b"x")), town.publish(b"x")] == [0, 1]
        new = town.bus()
        del town.accounts["A"]
        wire.traffic.accountsChanged()
        assert new.publish(Message(b"x")) == 0

    def test_figures(self) -> None:
        """The figures for monitoring are those of the interest tables."""
        town = Town()
        wire = town.leaving()
        wire.say(b"RS- A x", b"RS+ A a q 1")
        figures = wire.traffic.figures()["A"]
        assert (figures["mode"], figures["no_interest"], figures["queues"]) == ("optimistic", 1, 1)
        assert list(wire.traffic.interests("A")) == [(b"a", b"q")]
        assert list(wire.traffic.interests("B")) == []


class TestReplies:
    """Reply subjects of requests."""

    @pytest.mark.parametrize(
        ("isNew", "prefix"), [(True, OURS.prefix), (False, OURS.oldPrefix)], ids=["new", "old"]
    )
    def test_recentSubscription(self, isNew: bool, prefix: bytes) -> None:
        """A request of a new subscriber is sent with a reply prefix that the peer supports."""
        town = Town()
        wire = town.leaving(gateway_nrp=isNew)
        town.bus().subscribe(b"_INBOX.1", Recorder())
        town.publish(b"a", b"_INBOX.1")
        assert wire.take() == b"RMSG A a %b_INBOX.1 1\r\nx\r\n" % prefix

    def test_answerGoesBack(self) -> None:
        """An answer is sent to the cluster of the request, and to no other."""
        town = Town()
        wire, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
        town.bus(Kind.GATEWAY).publish(Message(b"a", b"", b"r", via=THEIRS.prefix))
        town.publish(b"r")
        assert wire.take() == b"RMSG A %br 1\r\nx\r\n" % THEIRS.prefix
        assert other.take() == b""

    def test_notWanted(self) -> None:
        """An answer is not sent if the other cluster has refused its subject."""
        town = Town()
        wire = town.leaving()
        town.bus(Kind.GATEWAY).publish(Message(b"a", b"", b"r", via=THEIRS.prefix))
        wire.say(b"RS+ A r", b"RS- A r")
        services = town.bus(Kind.INTERNAL)
        assert not services.hasInterest(b"r")
        assert services.publish(Message(b"r")) == 0
        assert wire.take() == b""


def test_headers() -> None:
    """A peer that does not support headers gets the payload only."""
    town = Town()
    wire = town.leaving(headers=False)
    town.bus().publish(Message(b"a", b"NATS/1.0\r\n\r\nhi", b"", 12))
    assert wire.take() == b"RMSG A a 2\r\nhi\r\n"


def test_account() -> None:
    """
    The account's end of a gateway provides its interface, and sends nothing to a closed outbox.
    """
    town = Town()
    wire = town.leaving()
    made = GatewayAccount(b"A", wire.link.outbox, b"_GR_.c.s.", ())
    assert IGatewayLink.providedBy(made)
    before = wire.link.outbox.messages
    made.forward(Message(b"a", b"x"), ())
    assert (wire.link.outbox.messages - before, wire.take()) == (1, b"RMSG A a 1\r\nx\r\n")
    wire.hangUp()
    made.forward(Message(b"a", b"x"), ())
    assert wire.link.outbox.messages - before == 1


def test_placed() -> None:
    """A queue group is served by the nearest cluster."""
    town = Town()
    one, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
    for wire in (one, other):
        wire.say(b"A- A", b"RS+ A a q 1", b"RS- A a")
    one.traffic.placed(0.2)
    other.traffic.placed(0.1)
    town.publish(b"a")
    assert (one.take(), other.take()) == (b"", b"RMSG A a | q 1\r\nx\r\n")


HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"

#: What happens: the peer says something, somebody here subscribes, or something is published.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("peer"), patterns().map(b"RS+ A %b".__mod__)),
        st.tuples(st.just("peer"), patterns().map(b"RS+ A %b q 1".__mod__)),
        st.tuples(st.just("peer"), literalSubjects().map(b"RS- A %b".__mod__)),
        st.tuples(st.just("peer"), st.sampled_from([b"A- A", b"A+ A"])),
        st.tuples(st.just("list"), st.sampled_from(list(GatewayCommand)[1:])),
        st.tuples(st.just("here"), st.tuples(patterns(), st.sampled_from([b"", b"q"]))),
        st.tuples(st.just("later"), st.just(None)),
        st.tuples(
            st.just("publish"),
            st.tuples(literalSubjects(), st.just(b"") | literalSubjects(), st.booleans()),
        ),
    ),
    max_size=16,
)


def played(names: Names, steps: list[tuple[str, Any]], headers: bool) -> list[bytes]:
    """The messages of two clusters and a local client."""
    with using(names):
        town = Town()
        one = town.leaving(headers=headers)
        other = town.leaving(gateway="ELSEWHERE")
        other.say(b"RS+ A a.> q 1", b"RS- A a")
        mouth = Mouth(names, town)
        for step, what in steps:
            if step == "peer":
                one.say(what)
            elif step == "list":
                command(one, what)
            elif step == "later":
                town.clock.advance(2.5)
            elif step == "here":
                # One member of a group, so that nothing is left to chance.
                town.bus().subscribe(what[0], mouth, b"7", what[1])
            else:
                subject, reply, hasHeaders = what
                tokens = b"%b %b" % (subject, reply) if reply else subject
                if hasHeaders:
                    mouth.say(b"HPUB %b 18 19\r\n%bx\r\n" % (tokens, HEADERS))
                else:
                    mouth.say(b"PUB %b 1\r\nx\r\n" % tokens)
        return [one.take(), other.take(), mouth.heard]


@needsCompiled
class TestLanes:
    """The compiled lane, compared with the readable path."""

    @given(STEPS, st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_sameBytesOnBothPaths(self, steps: list[tuple[str, Any]], headers: bool) -> None:
        """
        Other clusters and clients get the same bytes on both paths, for any lines of the peer.
        """
        assert COMPILED is not None
        members = [step for step in steps if step[0] == "here" and step[1][1]]
        steps = [step for step in steps if step not in members[1:]]
        assert played(COMPILED, steps, headers) == played(PURE, steps, headers)

    def test_takenByTheLane(self) -> None:
        """The lane takes messages for other clusters, groups and requests included."""
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            one, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
            one.say(b"RS+ A a q 1")
            other.say(b"A- A", b"RS+ A a q 1", b"RS+ A a r 1", b"A- A")
            taken = Mouth(COMPILED, town).say(
                b"PUB a 1\r\n1\r\nPUB a rep 1\r\n2\r\nHPUB a 18 19\r\n%b3\r\n" % HEADERS
            )
            assert taken == 3
            assert one.take() == (
                b"RMSG A a | q 1\r\n1\r\nRMSG A a + rep q 1\r\n2\r\n"
                b"HMSG A a | q 18 19\r\n%b3\r\n" % HEADERS
            )
            assert other.take() == (
                b"RMSG A a | r 1\r\n1\r\nRMSG A a + rep r 1\r\n2\r\n"
                b"HMSG A a | r 18 19\r\n%b3\r\n" % HEADERS
            )

    def test_refusals(self) -> None:
        """The lane still takes a subject after refusals of other subjects."""
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            wire = town.leaving()
            mouth = Mouth(COMPILED, town)
            for number in range(20):
                wire.say(b"RS- A x.%d" % number)
                assert mouth.say(b"PUB a 1\r\n1\r\nPUB x.%d 1\r\n1\r\n" % number) == 2
            assert wire.take() == b"RMSG A a 1\r\n1\r\n" * 20

    def test_declines(self) -> None:
        """The lane leaves requests and answers that need a reply prefix to the readable path."""
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            wire = town.leaving()
            mouth = Mouth(COMPILED, town)
            town.bus().subscribe(b"_INBOX.1", mouth, b"1")
            assert mouth.say(b"PUB a _INBOX.1 1\r\n1\r\nPUB a _INBOX.2 1\r\n2\r\n") == 1
            town.bus(Kind.GATEWAY).publish(Message(b"q", b"", b"r", via=THEIRS.prefix))
            wire.take()
            assert mouth.say(b"PUB r 1\r\n3\r\n") == 0
            assert wire.take() == b"RMSG A %br 1\r\n3\r\n" % THEIRS.prefix
            town.clock.advance(2.5)
            town.clock.advance(2.5)
            wire.take()
            taken = mouth.say(b"PUB a _INBOX.1 1\r\n4\r\nPUB r 1\r\n5\r\n")
            assert (taken, wire.take()) == (
                2,
                b"RMSG A a _INBOX.1 1\r\n4\r\nRMSG A r 1\r\n5\r\n",
            )
