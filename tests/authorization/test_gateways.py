"""
Attempts to bypass authorization through other clusters, and to reach other clusters.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.gateways.policies import OptimisticPolicy
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.routes.crossings import Town
from tests.support import COMPILED, PURE, QUIET, Doorkeeper, Names, Recorder, World, onEach, using

#: One message for another cluster: a subject, perhaps a reply, a size.
SENT = re.compile(rb"RMSG A [^ \t\r\n]+( [^ \t\r\n]+)? 4\r\nbody\r\n")

WORDS = st.text(alphabet="ab.*>\r\n \t\0$_", min_size=1, max_size=8).map(str.encode)


class Border:
    """
    Clients of an account, and gateway connections to and from another cluster.

    @ivar grant: the permissions of the clients.
    """

    def __init__(self, grant: Grant) -> None:
        self.world = World(authorizer=Doorkeeper(lambda hello: grant))
        self.town = Town(OptimisticPolicy(), ())
        for name in ("A", "B"):
            self.town.accounts[name] = self.world.accounts[name]
        self.into = self.town.arriving()
        self.out = self.town.leaving()
        self.out.take()

    def heard(self, account: str) -> Recorder:
        """Subscribe to everything in an account."""
        recorder = Recorder()
        self.town.bus(account=account).subscribe(b">", recorder)
        return recorder


@onEach
class TestDelivery:
    """Messages from another cluster."""

    def test_denied(self, names: Names) -> None:
        """
        A client with a wider subscription does not receive a denied subject from another cluster,
        neither in a queue group nor without one.
        """
        with using(names):
            rules = SubscribePermissions([b"s.>"], [b"s.secret", b"s.group q"])
            border = Border(Grant("A", "u", subscribe=rules))
            client = border.world.client(QUIET)
            assert client.ask(b"SUB s.* 1\r\nSUB s.* q 2\r\nPING\r\n") == b"PONG\r\n"
            border.into.send(b"RMSG A s.secret 1\r\nx\r\nRMSG A s.group | q 1\r\nx\r\n")
            border.into.send(b"RMSG A s.open 1\r\nx\r\n")
            assert client.receive() == b"MSG s.group 1 1\r\nx\r\nMSG s.open 1 1\r\nx\r\n"

    def test_anotherAccount(self, names: Names) -> None:
        """
        A message in one account does not reach another account, and the interest of accounts is
        separate.
        """
        with using(names):
            border = Border(Grant("A", "u"))
            others = border.heard("B")
            border.into.send(b"RMSG A a 1\r\nx\r\nRMSG A _INBOX.b 1\r\nx\r\n")
            border.into.send(b"RMSG A $SYS.REQ.SERVER.PING r 1\r\nx\r\n")
            assert others.got == []
            border.out.say(b"RS- B >", b"A- B")
            border.town.publish(b"a", body=b"body")
            assert SENT.fullmatch(border.out.take())

    def test_trace(self, names: Names) -> None:
        """A message from another cluster that requests a trace is not traced."""
        with using(names):
            border = Border(Grant("A", "u"))
            heard = border.heard("A")
            headers = b"NATS/1.0\r\nNats-Trace-Dest: spy\r\n\r\n"
            size = len(headers)
            border.into.send(b"HMSG A a %d %d\r\n%bx\r\n" % (size, size + 1, headers))
            assert [message.subject for message, _ in heard.got] == [b"a"]
            assert b"spy" not in border.out.take()


@onEach
class TestSending:
    """Messages to another cluster."""

    def test_deniedPublishIsNotSent(self, names: Names) -> None:
        """A publish that is denied to a client is not sent to another cluster."""
        with using(names):
            border = Border(Grant("A", "u", publish=PermissionSet([b"a"], [b"b"])))
            client = border.world.client(QUIET)
            client.ask(b"PUB b 4\r\nbody\r\nPUB a 4\r\nbody\r\n")
            assert border.out.take() == b"RMSG A a 4\r\nbody\r\n"

    @pytest.mark.parametrize("subject", [b"_GR_.x.y.z", b"$GR.x.y.z"])
    def test_reserved(self, names: Names, subject: bytes) -> None:
        """No client can send a message into another cluster by the subjects of answers."""
        with using(names):
            border = Border(Grant("A", "u"))
            client = border.world.client(QUIET)
            client.ask(b"PUB %b 4\r\nbody\r\nPING\r\n" % subject)
            assert b"_GR_" not in border.out.take()


@pytest.mark.parametrize("names", [lane for lane in (PURE, COMPILED) if lane is not None])
@settings(max_examples=60, deadline=None)
@given(operations=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4))
def test_injection(names: Names, operations: list[tuple[bytes, bytes, bytes]]) -> None:
    """
    With any input of a client in subjects, replies and queues, other clusters receive whole
    messages only. The subject of each message is one word.
    """
    with using(names):
        border = Border(Grant("A", "u"))
        for subject, reply, queue in operations:
            client = border.world.client(QUIET)
            client.ask(b"SUB %b %b 1\r\n" % (subject, queue))
            client.ask(b"PUB %b %b 4\r\nbody\r\n" % (subject, reply))
        assert SENT.sub(b"", border.out.take()) == b""
