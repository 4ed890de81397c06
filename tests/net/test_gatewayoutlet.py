"""
What goes over the connection that we dialled to another cluster.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.gateways.policies import InterestOnlyPolicy
from natsbroker.interfaces import IGatewayLink
from natsbroker.net.gatewayoutlet import GatewayAccount
from natsbroker.wire.dialects.gateway import commandLine
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument, parseDocument
from natsbroker.wire.values import Kind, Message
from tests.net.crossings import OURS, THEIRS, Town, Wire
from tests.support import Names, Recorder, onEach, using


def command(wire: Wire, number: GatewayCommand, account: bytes = b"A") -> bool:
    """Say that all interest follows, or that this was all."""
    line = commandLine("THERE", number, account)
    done: bool = wire.traffic.commanded(parseDocument(line[5:-2]))
    return done


@onEach
class TestModes:
    """What is sent, as the peer tells more."""

    def test_optimistic(self, names: Names) -> None:
        """At most one message for each subject that nobody wants, before that is said."""
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
        """What is wanted again is sent again, subject by subject, by pattern, or as a whole."""
        with using(names):
            town = Town()
            wire = town.leaving()
            wire.say(b"RS- A x.1", b"RS- A x.2", b"RS- A x.3", b"RS+ A x.1")
            sent = [town.publish(each) for each in (b"x.1", b"x.2", b"x.3")]
            wire.say(b"RS+ A x.*")
            sent += [town.publish(each) for each in (b"x.1", b"x.2", b"x.3")]
            wire.say(b"A- A")
            sent.append(town.publish(b"x.1"))
            wire.say(b"A+ A")
            sent.append(town.publish(b"x.1"))
            assert sent == [1, 0, 0, 1, 1, 1, 0, 1]

    def test_switch(self, names: Names) -> None:
        """From the end of the list on, only what is wanted; until then nothing is withheld."""
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
        """A peer that promises to tell everything gets nothing before it has."""
        with using(names):
            town = Town()
            wire = town.leaving(gateway_iom=True)
            assert town.publish(b"a") == 0
            wire.say(b"RS+ A a")
            assert town.publish(b"a") == 1
            assert wire.take() == b"RMSG A a 1\r\nx\r\n"

    def test_interestOnly(self, names: Names) -> None:
        """Not a single message that nobody wants."""
        with using(names):
            town = Town(InterestOnlyPolicy())
            wire = town.leaving()
            for number in range(50):
                town.publish(b"x.%d" % number)
            assert wire.take() == b""

    def test_cutInTheMiddle(self, names: Names) -> None:
        """A connection that ends in the middle of a switch leaves nothing behind."""
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
    """What a peer may say."""

    @pytest.mark.parametrize("line", [b"RS+ A", b"RS+ A a q", b"RS- A", b"A+ A B", b"A- A B"])
    def test_bad(self, line: bytes) -> None:
        """What makes no sense ends the connection, as with the real server."""
        town = Town()
        wire = town.leaving()
        wire.say(line)
        assert wire.closed == errors.BAD_ARGUMENTS.reason

    def test_notASubject(self) -> None:
        """A pattern that is none is ignored, and the connection stays."""
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
        """A command without an account ends the connection, in the real server's words."""
        wire = Town().leaving()
        assert command(wire, number, b"")
        said = b"-ERR 'Account absent from receive-all-subscriptions-%b command'\r\n" % text
        assert wire.take() == said
        assert wire.closed == errors.NO_COMMAND_ACCOUNT.reason

    def test_otherCommands(self) -> None:
        """What is no list is for somebody else."""
        wire = Town().leaving()
        assert not wire.traffic.commanded(ServerDocument(gateway="THERE", gateway_cmd=1))


class TestAccounts:
    """Accounts."""

    def test_each(self) -> None:
        """Every account has a table of its own."""
        town = Town(names=("A", "B"))
        wire = town.leaving()
        wire.say(b"RS- A x")
        assert [town.bus(account=name).publish(Message(b"x")) for name in "AB"] == [0, 1]
        assert wire.take() == b"RMSG B x 0\r\n\r\n"

    def test_later(self) -> None:
        """What is said of an account that is not known yet holds when it is."""
        town = Town()
        wire = town.leaving()
        wire.say(b"RS- B x", b"RS+ B y q 1")
        town.add("B")
        wire.traffic.accountsChanged()
        assert [town.bus(account="B").publish(Message(each)) for each in (b"x", b"y")] == [0, 1]
        assert wire.take() == b"RMSG B y | q 0\r\n\r\n"

    def test_gone(self) -> None:
        """For an account that is no more, or another one of that name, nothing is sent twice."""
        town = Town()
        wire = town.leaving()
        old = town.bus()
        town.add("A")
        wire.traffic.accountsChanged()
        assert [old.publish(Message(b"x")), town.publish(b"x")] == [0, 1]
        del town.accounts["A"]
        new = old
        wire.traffic.accountsChanged()
        assert new.publish(Message(b"x")) == 0

    def test_figures(self) -> None:
        """What there is to see."""
        town = Town()
        wire = town.leaving()
        wire.say(b"RS- A x", b"RS+ A a q 1")
        figures = wire.traffic.figures()["A"]
        assert (figures["mode"], figures["no_interest"], figures["queues"]) == ("optimistic", 1, 1)
        assert list(wire.traffic.interests("A")) == [(b"a", b"q")]
        assert list(wire.traffic.interests("B")) == []


class TestReplies:
    """Reply subjects."""

    @pytest.mark.parametrize(
        ("isNew", "prefix"), [(True, OURS.prefix), (False, OURS.oldPrefix)], ids=["new", "old"]
    )
    def test_fresh(self, isNew: bool, prefix: bytes) -> None:
        """Who has just subscribed is answered here, in the spelling that the peer knows."""
        town = Town()
        wire = town.leaving(gateway_nrp=isNew)
        town.bus().subscribe(b"_INBOX.1", Recorder())
        town.publish(b"a", b"_INBOX.1")
        assert wire.take() == b"RMSG A a %b_INBOX.1 1\r\nx\r\n" % prefix

    def test_back(self) -> None:
        """An answer goes to the cluster that asked, and to no other."""
        town = Town()
        wire, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
        town.bus(Kind.GATEWAY).publish(Message(b"a", b"", b"r", via=THEIRS.prefix))
        town.publish(b"r")
        assert wire.take() == b"RMSG A %br 1\r\nx\r\n" % THEIRS.prefix
        assert other.take() == b""


def test_headers() -> None:
    """A peer without headers gets the payload."""
    town = Town()
    wire = town.leaving(headers=False)
    town.bus().publish(Message(b"a", b"NATS/1.0\r\n\r\nhi", b"", 12))
    assert wire.take() == b"RMSG A a 2\r\nhi\r\n"


def test_account() -> None:
    """The way to an account keeps its contract; nothing is put into an outbox that is closed."""
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
    """The nearest cluster serves a queue group."""
    town = Town()
    one, other = town.leaving(), town.leaving(gateway="ELSEWHERE")
    for wire in (one, other):
        wire.say(b"A- A", b"RS+ A a q 1", b"RS- A a")
    one.traffic.placed(0.2)
    other.traffic.placed(0.1)
    town.publish(b"a")
    assert (one.take(), other.take()) == (b"", b"RMSG A a | q 1\r\nx\r\n")
