"""
Answers that find their way back.
"""

from __future__ import annotations

from natsbroker.gateways.replyrouter import GatewayReplyRouter
from natsbroker.wire.values import Message
from tests.routes.crossings import OURS, THEIRS, Town
from tests.support import LinkRecorder, Recorder

ELSEWHERE = OURS.prefix[:-7] + b"member."


def replyRouter(town: Town) -> GatewayReplyRouter:
    """What takes answers."""
    return town.traffic.replyRouter


def test_notMapped() -> None:
    """A message to any other subject is left alone."""
    town = Town()
    assert not replyRouter(town).take("A", Message(b"_INBOX.x"), True)


def test_fromMember() -> None:
    """A message from a member is delivered here: it is not sent to a further member."""
    town, heard, member = Town(), Recorder(), LinkRecorder()
    town.bus().subscribe(b"r", heard)
    town.members[b"member"] = member
    for prefix in (OURS.prefix, ELSEWHERE):
        assert replyRouter(town).take("A", Message(prefix + b"r", b"x"), True)
    assert (heard.bodies, member.got) == ([b"x", b"x"], [])


def test_fromCluster() -> None:
    """What another cluster sent goes to the member that mapped it."""
    town, heard, member = Town(), Recorder(), LinkRecorder()
    town.bus().subscribe(b"r", heard)
    town.members[b"member"] = member
    assert replyRouter(town).take("A", Message(ELSEWHERE + b"r", b"x"), False)
    assert (heard.got, member.got) == ([], [(b"x", ())])


def test_answerThatAsks() -> None:
    """What leads the answer to an answer back is kept."""
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
    """An answer in an account that is not known is taken, and reaches nobody."""
    assert replyRouter(Town()).take("B", Message(OURS.prefix + b"r"), False)
