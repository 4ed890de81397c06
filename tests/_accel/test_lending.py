"""
Large payloads are sent from the buffer that they were read into. The part that a receiver does not
take at once stays unchanged until the receiver takes it, although more input is read meanwhile.
"""

from __future__ import annotations

import socket
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.config.model import Settings
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from tests._accel.sockets import body, publish, room
from tests.conftest import FlushLoggedErrors
from tests.links.ears import Mouth
from tests.routes.clusters import Node
from tests.support import COMPILED, HEADERS, QUIET, Doorkeeper, needsCompiled, using

pytestmark = needsCompiled

#: The smallest payload that is lent, with the line's end behind it.
LENT = 4096
SIZES = (0, 3, LENT - 3, LENT, LENT + 1, 9_000, 40_000, 150_000)


@settings(max_examples=60, deadline=None)
@given(
    plans=st.lists(st.lists(st.sampled_from(SIZES), max_size=12), min_size=2, max_size=2),
    buffers=st.lists(st.sampled_from([0, 2048, 60_000]), min_size=3, max_size=3),
    seed=st.integers(0, 1 << 30),
)
def test_twoPublishers(plans: list[list[int]], buffers: list[int], seed: int) -> None:
    """Each receiver gets all messages of two publishers, whole and in order, at any pace."""
    random = Random(seed)
    with room() as here:
        receivers = [here.client(sendBuffer=size) for size in buffers]
        for receiver in receivers:
            receiver.say(b"SUB *.x 1\r\n")
        here.run()
        publishers = [here.client() for _ in plans]
        wanted = []
        for publisher, plan in enumerate(plans):
            subject = b"p%d.x" % publisher
            bodies = [body(publisher, number, size) for number, size in enumerate(plan)]
            wanted.append([(subject, payload) for payload in bodies])
            publishers[publisher].say(b"".join(publish(subject, payload) for payload in bodies))
        for _ in range(random.randrange(30)):
            here.run()
            random.choice(publishers).push()
            random.choice(receivers).listen(random.choice((100, 5_000, 70_000)))
        here.settle()
        for receiver in receivers:
            messages = receiver.messages()
            for publisher, mine in enumerate(wanted):
                subject = b"p%d.x" % publisher
                assert [message for message in messages if message[0] == subject] == mine


def test_betweenOthers() -> None:
    """Other output of a connection stays in its place between lent payloads."""
    with room() as here:
        both = here.client(sendBuffer=2048)
        both.say(b"SUB a 1\r\n")
        large, small = body(1, 1, 50_000), b"small"
        both.say(publish(b"a", large) + b"PING\r\n" + publish(b"a", small) + publish(b"a", large))
        both.say(b"PING\r\n")
        here.settle()
        sent = [
            b"MSG a 1 %d\r\n%b\r\n" % (len(content), content) for content in (large, small, large)
        ]
        assert both.heard == sent[0] + b"PONG\r\n" + sent[1] + sent[2] + b"PONG\r\n"


def test_headers() -> None:
    """
    The headers are lent to a receiver that supports them, with the payload. A receiver without
    support gets a copy without headers.
    """
    with room() as here:
        old = here.client(QUIET)
        new = here.client(HEADERS)
        for client in (old, new):
            client.say(b"SUB a 1\r\n")
        here.run()
        block, large = b"NATS/1.0\r\nA: b\r\n\r\n", body(1, 1, 20_000)
        total = len(block) + len(large)
        new.say(b"HPUB a %d %d\r\n%b%b\r\n" % (len(block), total, block, large))
        here.settle()
        assert old.messages() == [(b"a", large)]
        assert new.messages() == [(b"a", block + large)]


def test_limitCountsLentPayloads() -> None:
    """
    A receiver that reads nothing is disconnected at its limit, whether or not payloads are lent to
    it.
    """
    with room(Settings(max_pending=200_000)) as here:
        slow, fine, publisher = here.client(sendBuffer=2048), here.client(), here.client()
        for client in (slow, fine):
            client.say(b"SUB a 1\r\n")
        here.run()
        outbox: Any = slow.peer.session.outbox
        most, bodies = 0, []
        for number in range(40):
            bodies.append((b"a", body(0, number, 16_000)))
            publisher.say(publish(*bodies[-1]))
            here.run()
            fine.listen()
            most = max(most, outbox.pending)
            if not slow.peer.isOpen:
                break
        assert not slow.peer.isOpen
        assert 150_000 < most <= 200_000
        here.settle()
        assert fine.messages() == bodies


def test_pausedOutbox() -> None:
    """A paused outbox keeps the payloads that it borrowed, and sends them when it is resumed."""
    with room() as here:
        receiver, publisher = here.client(), here.client()
        receiver.say(b"SUB a 1\r\n")
        here.run()
        outbox: Any = receiver.peer.session.outbox
        outbox.pause()
        large = body(1, 1, 30_000)
        publisher.say(publish(b"a", large) * 2)
        here.run()
        assert (receiver.listen(), outbox.pending > 60_000) == (0, True)
        publisher.say(publish(b"b", body(2, 2, 60_000)) * 3)
        here.run()
        outbox.resume()
        here.settle()
        assert receiver.messages() == [(b"a", large)] * 2


def test_manyAtOnce() -> None:
    """Payloads beyond the number that can be lent to one connection at a time are delivered too."""
    with room() as here:
        receiver, publisher = here.client(), here.client()
        receiver.say(b"SUB a 1\r\nSUB a 2\r\nSUB > 3\r\n")
        here.run()
        bodies = [(b"a", body(0, number, LENT)) for number in range(60)]
        publisher.say(b"".join(publish(*payload) for payload in bodies))
        here.settle()
        assert receiver.messages() == [payload for payload in bodies for _ in range(3)]


class MemberBehindSocket:
    """A member of a cluster behind a socket with a small buffer."""

    def __init__(self, node: Node, interest: bytes) -> None:
        ours, self._socket = socket.socketpair()
        for end in (ours, self._socket):
            end.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self._ours = ours
        self.wire = node.joined()
        self.wire.send(interest)
        self.wire.take()
        self.outbox: Any = self.wire.link.outbox
        self.outbox.attach(ours.fileno(), lambda: None)

    def hear(self) -> bytes:
        """Everything that was sent to the member."""
        heard = b""
        while True:
            self.outbox.unblock()
            try:
                heard += self._socket.recv(1 << 20)
            except BlockingIOError:
                return heard

    def close(self) -> None:
        """Close both sockets."""
        self.outbox.attach(-1, None)
        self._socket.close()
        self._ours.close()


LINES = (b"RS+ A a\r\n", b"RS+ A a q 1\r\n", b"RS+ A a q 1\r\nRS+ A a\r\nRS+ A * r 1\r\n")


@pytest.mark.parametrize("interest", LINES)
@pytest.mark.parametrize("reply", [b"", b"_R.1"])
@pytest.mark.parametrize("hasHeaders", [False, True])
def test_links(interest: bytes, reply: bytes, hasHeaders: bool) -> None:
    """
    A message to another server is complete, although other data is read into its buffer meanwhile.
    """
    assert COMPILED is not None
    block = b"NATS/1.0\r\nA: b\r\n\r\n" if hasHeaders else b""
    names = b"a %b" % reply if reply else b"a"
    head = b"HPUB %b %d" % (names, len(block)) if hasHeaders else b"PUB %b" % names
    bodies = [block + body(7, number, SIZES[number % len(SIZES)]) for number in range(24)]
    with using(COMPILED):
        node = Node()
        member = MemberBehindSocket(node, interest)
        mouth = Mouth(COMPILED, node)
        try:
            for place in range(0, len(bodies), 6):
                some = bodies[place : place + 6]
                said = b"".join(
                    b"%b %d\r\n%b\r\n" % (head, len(payload), payload) for payload in some
                )
                assert mouth.say(said) == len(some)
            heard = member.hear()
        finally:
            member.close()
    for payload in bodies:
        line, _, heard = heard.partition(b"\r\n")
        words = line.split(b" ")
        assert words[:3] == [b"HMSG" if hasHeaders else b"RMSG", b"A", b"a"]
        assert int(words[-1]) == len(payload) and (reply in words or not reply)
        assert (b"q" in words) == (b" q " in interest)
        assert heard.startswith(payload + b"\r\n")
        heard = heard[len(payload) + 2 :]
    assert heard == b""


class Unsure(SubscribePermissions):
    """Permissions that raise an exception for one subject."""

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        if subject == b"a.c":
            raise ValueError("on purpose")
        return True


def test_raised(flushLoggedErrors: FlushLoggedErrors) -> None:
    """
    An exception in the middle of a delivery ends the publisher. Receivers that were served before
    lose no message.
    """
    grants = [Grant(), Grant(subscribe=Unsure(None, [b"a.b"])), Grant(), Grant()]
    with room(authorizer=Doorkeeper(lambda hello: grants.pop(0))) as here:
        receiver, unsure = here.client(sendBuffer=2048), here.client()
        publisher, other = here.client(), here.client()
        for client in (receiver, unsure):
            client.say(b"SUB a.* 1\r\n")
            here.run()
        large = body(1, 1, 60_000)
        publisher.say(publish(b"a.c", large))
        other.say(publish(b"b", body(2, 2, 60_000)) * 3)
        here.settle()
        assert len(flushLoggedErrors(ValueError)) == 1
        assert publisher.peer.session.reason == "Internal Client"
        assert receiver.messages() == [(b"a.c", large)]


def test_oneOutboxRaises(flushLoggedErrors: FlushLoggedErrors) -> None:
    """
    An outbox that raises while its borrowed bytes are settled ends its own connection only. Other
    outboxes have copied their bytes before the buffer is used again, and the publisher goes on.
    """
    with room() as here:
        broken, fine = here.client(sendBuffer=2048), here.client(sendBuffer=2048)
        publisher = here.client()
        for client in (broken, fine):
            client.say(b"SUB a 1\r\n")
            here.run()

        def fail() -> None:
            raise SystemExit("on purpose")

        outbox: Any = broken.peer.session.outbox
        outbox.attach(broken.peer.connection.fd, fail)
        large = body(1, 1, 60_000)
        publisher.say(publish(b"a", large))
        here.run()
        assert len(flushLoggedErrors(SystemExit)) == 1
        publisher.say(publish(b"b", body(2, 2, 60_000)) * 3)
        here.settle()
        assert fine.messages() == [(b"a", large)]
        assert broken.peer.session.reason == "Internal Client"
        assert publisher.peer.isOpen
