"""
The reply subjects that gateways map, and the way of the answers.
"""

from __future__ import annotations

from natsbroker.links.gatewayreplies import GatewayReplyRouter, ReplyNames, newHash, oldHash
from natsbroker.wire.values import Message
from tests.routes.crossings import OURS, THEIRS, Town
from tests.support import LinkRecorder, Recorder

#: A server and its cluster, with what nats-server 2.15.1 calls them (seen on the wire).
SERVER = "NBVJR4V6NQ7R5LYY64LMXG7LUMFBTHFB3O6T6STIAIJP7GPPZRLH2WLH"
CLUSTER = "GA"

ELSEWHERE = OURS.prefix[:-7] + b"member."


def test_newHash() -> None:
    """The hash in a reply prefix has six letters, as in nats-server."""
    assert newHash(CLUSTER) == b"F2cAWZ"
    assert newHash(SERVER) == b"lwpwmG"


def test_oldHash() -> None:
    """The hash in an old reply prefix has four hexadecimal digits, as in nats-server."""
    assert oldHash(CLUSTER) == b"0fbc"
    assert len(oldHash("\u00e4")) == 4


def test_prefixes() -> None:
    """Our own reply prefix is recognized, and those of others."""
    names = ReplyNames(CLUSTER, SERVER)
    assert names.prefix == b"_GR_.F2cAWZ.lwpwmG."
    assert names.oldPrefix == b"$GR.%b." % oldHash(CLUSTER)
    assert names.answers == (b"_GR_.F2cAWZ.", names.oldPrefix) == ReplyNames.answersOf(CLUSTER)


def test_destination() -> None:
    """An answer belongs to us, to another member of our cluster, or to another cluster."""
    names = ReplyNames(CLUSTER, SERVER)
    assert names.destination(b"_GR_.F2cAWZ.lwpwmG._INBOX.x") == (b"", b"_INBOX.x")
    assert names.destination(names.oldPrefix + b"_INBOX.x") == (b"", b"_INBOX.x")
    assert names.destination(b"_GR_.F2cAWZ.abcdef._INBOX.x") == (b"abcdef", b"_INBOX.x")
    assert names.destination(b"_GR_.abcdef.lwpwmG._INBOX.x") is None
    assert names.destination(b"$GR.ffff.x") is None
    assert names.destination(b"_INBOX.x") is None


def replyRouter(town: Town) -> GatewayReplyRouter:
    """The router of answers."""
    return town.traffic.replyRouter


def test_notMapped() -> None:
    """A message without a reply prefix is ignored."""
    town = Town()
    assert not replyRouter(town).take("A", Message(b"_INBOX.x"), True)


def test_fromMember() -> None:
    """An answer from a member is delivered here, and not sent to another member."""
    town, heard, member = Town(), Recorder(), LinkRecorder()
    town.bus().subscribe(b"r", heard)
    town.members[b"member"] = member
    for prefix in (OURS.prefix, ELSEWHERE):
        assert replyRouter(town).take("A", Message(prefix + b"r", b"x"), True)
    assert (heard.bodies, member.got) == ([b"x", b"x"], [])


def test_fromCluster() -> None:
    """An answer from another cluster is sent to the member that mapped its reply subject."""
    town, heard, member = Town(), Recorder(), LinkRecorder()
    town.bus().subscribe(b"r", heard)
    town.members[b"member"] = member
    assert replyRouter(town).take("A", Message(ELSEWHERE + b"r", b"x"), False)
    assert (heard.got, member.got) == ([], [(b"x", ())])


def test_answerThatAsks() -> None:
    """The reply subject of an answer leads to the cluster that mapped it."""
    town, heard = Town(), Recorder()
    town.bus().subscribe(b"r", heard)
    out = town.leaving()
    asked = Message(OURS.prefix + b"r", b"x", b"more", via=THEIRS.prefix)
    assert replyRouter(town).take("A", asked, False)
    assert heard.got[0][0].reply == b"more"
    out.take()
    town.publish(b"more")
    assert out.take() == b"RMSG A %bmore 1\r\nx\r\n" % THEIRS.prefix


def test_unknownAccount() -> None:
    """An answer in an unknown account reaches no receiver."""
    assert replyRouter(Town()).take("B", Message(OURS.prefix + b"r"), False)
