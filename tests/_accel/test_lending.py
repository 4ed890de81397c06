"""
Large payloads are sent from where they were read. What a receiver does not take at once has to be
there still when it does, and whole, whatever was read into that place meanwhile.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.net.limits import Limits
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from tests._accel.sockets import SocketPeer
from tests.net.clusters import Node
from tests.net.ears import Mouth
from tests.support import COMPILED, HEADERS, QUIET, Doorkeeper, Names, World, needsCompiled, using

pytestmark = needsCompiled

#: From so many bytes on a payload is lent, with the line's end behind it.
LENT = 4096
SIZES = (0, 3, LENT - 3, LENT, LENT + 1, 9_000, 40_000, 150_000)
_MESSAGE = re.compile(rb"(?:MSG (\S+) (\S+) (\d+)|HMSG (\S+) (\S+) \d+ (\d+))\r\n")


class Client:
    """
    The other end of a connection.

    @ivar heard: all that came so far.
    """

    def __init__(self, room: Room, hello: bytes = QUIET, sendBuffer: int = 0) -> None:
        ours, self._socket = socket.socketpair()
        ours.setblocking(False)
        self._socket.setblocking(False)
        if sendBuffer:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sendBuffer)
        self._room = room
        self._unsent = b""
        self.heard = b""
        self.peer = SocketPeer(room.world, room.poller, ours)
        self.say(hello)
        room.run()
        self.listen()
        self.heard = b""

    def say(self, data: bytes) -> None:
        """Send, sooner or later."""
        self._unsent += data
        self.push()

    def push(self) -> bool:
        """Send what the socket takes; whether that was all."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = b""
        return True

    def listen(self, most: int = 1 << 30) -> int:
        """Take so many bytes at most; how many there were."""
        begin = len(self.heard)
        try:
            while len(self.heard) - begin < most:
                data = self._socket.recv(min(most, 1 << 20))
                if not data:
                    break
                self.heard += data
        except OSError:
            pass
        return len(self.heard) - begin

    def messages(self) -> list[tuple[bytes, bytes]]:
        """The subjects and bodies of all that was heard, which has to be whole messages."""
        found, place = [], 0
        while place < len(self.heard):
            line = _MESSAGE.match(self.heard, place)
            assert line is not None, self.heard[place : place + 60]
            end = line.end() + int(line[3] or line[6])
            assert self.heard[end : end + 2] == b"\r\n"
            found.append((line[1] or line[4], self.heard[line.end() : end]))
            place = end + 2
        return found

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Room:
    """
    A broker and the poller that its connections are in.
    """

    def __init__(self, limits: Limits | None = None, authorizer: Doorkeeper | None = None) -> None:
        self.world = World(limits, authorizer)
        self.failures = 0
        self.poller = hot.Poller(self.world.context.turn, self._failed)
        self.clients: list[Client] = []

    def _failed(self) -> None:
        self.failures += 1

    def client(self, hello: bytes = QUIET, sendBuffer: int = 0) -> Client:
        """One more client."""
        made = Client(self, hello, sendBuffer)
        self.clients.append(made)
        return made

    def run(self) -> None:
        """Let happen what is ready."""
        self.poller.run()
        self.world.settle()

    def settle(self) -> None:
        """Have all said and heard."""
        isQuiet = False
        while not isQuiet:
            self.run()
            isQuiet = all([client.push() for client in self.clients])
            isQuiet = not any([client.listen() for client in self.clients]) and isQuiet
            isQuiet = isQuiet and not any(
                client.peer.session.outbox.pending for client in self.clients
            )

    def close(self) -> None:
        """End."""
        for client in self.clients:
            client.close()
        for _ in range(100):
            if not any(client.peer.isOpen for client in self.clients):
                break
            self.poller.run()
            self.world.clock.advance(0.2)
        self.poller.close()


@contextmanager
def room(limits: Limits | None = None, authorizer: Doorkeeper | None = None) -> Iterator[Room]:
    """A room that is closed afterwards."""
    names: Names | None = COMPILED
    assert names is not None
    with using(names):
        made = Room(limits, authorizer)
        try:
            yield made
        finally:
            made.close()


def body(publisher: int, number: int, size: int) -> bytes:
    """What nobody else has published."""
    return (b"%d/%d " % (publisher, number) * (size // 4 + 1))[:size]


def publish(subject: bytes, data: bytes) -> bytes:
    """A publish."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(data), data)


@settings(max_examples=60, deadline=None)
@given(
    plans=st.lists(st.lists(st.sampled_from(SIZES), max_size=12), min_size=2, max_size=2),
    buffers=st.lists(st.sampled_from([0, 2048, 60_000]), min_size=3, max_size=3),
    seed=st.integers(0, 1 << 30),
)
def test_whole(plans: list[list[int]], buffers: list[int], seed: int) -> None:
    """Two publish at once; each receiver gets all of both, whole and in order, at any pace."""
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
            wanted.append([(subject, each) for each in bodies])
            publishers[publisher].say(b"".join(publish(subject, each) for each in bodies))
        for _ in range(random.randrange(30)):
            here.run()
            random.choice(publishers).push()
            random.choice(receivers).listen(random.choice((100, 5_000, 70_000)))
        here.settle()
        for receiver in receivers:
            messages = receiver.messages()
            for publisher, mine in enumerate(wanted):
                subject = b"p%d.x" % publisher
                assert [each for each in messages if each[0] == subject] == mine
        assert here.failures == 0


def test_betweenOthers() -> None:
    """What else a connection is sent stays in its place."""
    with room() as here:
        both = here.client(sendBuffer=2048)
        both.say(b"SUB a 1\r\n")
        large, small = body(1, 1, 50_000), b"small"
        both.say(publish(b"a", large) + b"PING\r\n" + publish(b"a", small) + publish(b"a", large))
        both.say(b"PING\r\n")
        here.settle()
        sent = [b"MSG a 1 %d\r\n%b\r\n" % (len(each), each) for each in (large, small, large)]
        assert both.heard == sent[0] + b"PONG\r\n" + sent[1] + sent[2] + b"PONG\r\n"


def test_headers() -> None:
    """Who takes headers is lent them with the payload; who does not gets a copy without."""
    with room() as here:
        old = here.client(QUIET)
        new = here.client(HEADERS)
        for each in (old, new):
            each.say(b"SUB a 1\r\n")
        here.run()
        block, large = b"NATS/1.0\r\nA: b\r\n\r\n", body(1, 1, 20_000)
        total = len(block) + len(large)
        new.say(b"HPUB a %d %d\r\n%b%b\r\n" % (len(block), total, block, large))
        here.settle()
        assert old.messages() == [(b"a", large)]
        assert new.messages() == [(b"a", block + large)]


def test_limitCountsWhatIsLent() -> None:
    """A receiver that takes nothing is cut at its limit, whether or not payloads are lent to it."""
    with room(Limits(max_pending=200_000)) as here:
        slow, fine, publisher = here.client(sendBuffer=2048), here.client(), here.client()
        for each in (slow, fine):
            each.say(b"SUB a 1\r\n")
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


def test_pausedInBetween() -> None:
    """Who is told to keep everything keeps what it was lent."""
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
    """More payloads than can be lent to one connection at a time arrive all the same."""
    with room() as here:
        receiver, publisher = here.client(), here.client()
        receiver.say(b"SUB a 1\r\nSUB a 2\r\nSUB > 3\r\n")
        here.run()
        bodies = [(b"a", body(0, number, LENT)) for number in range(60)]
        publisher.say(b"".join(publish(*each) for each in bodies))
        here.settle()
        assert receiver.messages() == [each for each in bodies for _ in range(3)]


class Spoken:
    """
    A member of a cluster behind a socket that holds little.
    """

    def __init__(self, node: Node, interest: bytes) -> None:
        ours, self._socket = socket.socketpair()
        for each in (ours, self._socket):
            each.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self._ours = ours
        self.wire = node.joined()
        self.wire.send(interest)
        self.wire.take()
        self.outbox: Any = self.wire.link.outbox
        self.outbox.attach(ours.fileno(), lambda: None)

    def hear(self) -> bytes:
        """All that was sent to it."""
        heard = b""
        while True:
            self.outbox.unblock()
            try:
                heard += self._socket.recv(1 << 20)
            except BlockingIOError:
                return heard

    def close(self) -> None:
        """End."""
        self.outbox.attach(-1, None)
        self._socket.close()
        self._ours.close()


LINES = (b"RS+ A a\r\n", b"RS+ A a q 1\r\n", b"RS+ A a q 1\r\nRS+ A a\r\nRS+ A * r 1\r\n")


@pytest.mark.parametrize("interest", LINES)
@pytest.mark.parametrize("reply", [b"", b"_R.1"])
@pytest.mark.parametrize("hasHeaders", [False, True])
def test_links(interest: bytes, reply: bytes, hasHeaders: bool) -> None:
    """What goes to another server is whole, whatever was read into its place meanwhile."""
    assert COMPILED is not None
    block = b"NATS/1.0\r\nA: b\r\n\r\n" if hasHeaders else b""
    names = b"a %b" % reply if reply else b"a"
    head = b"HPUB %b %d" % (names, len(block)) if hasHeaders else b"PUB %b" % names
    bodies = [block + body(7, number, SIZES[number % len(SIZES)]) for number in range(24)]
    with using(COMPILED):
        node = Node()
        member = Spoken(node, interest)
        mouth = Mouth(COMPILED, node)
        try:
            for place in range(0, len(bodies), 6):
                some = bodies[place : place + 6]
                said = b"".join(b"%b %d\r\n%b\r\n" % (head, len(each), each) for each in some)
                assert mouth.say(said) == len(some)
            heard = member.hear()
        finally:
            member.close()
    for each in bodies:
        line, _, heard = heard.partition(b"\r\n")
        words = line.split(b" ")
        assert words[:3] == [b"HMSG" if hasHeaders else b"RMSG", b"A", b"a"]
        assert int(words[-1]) == len(each) and (reply in words or not reply)
        assert (b"q" in words) == (b" q " in interest)
        assert heard.startswith(each + b"\r\n")
        heard = heard[len(each) + 2 :]
    assert heard == b""


class Unsure(SubscribePermissions):
    """
    Cannot say what may be delivered.
    """

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        """See L{SubscribePermissions}."""
        if subject == b"a.c":
            raise ValueError("on purpose")
        return True


def test_raised() -> None:
    """Where something is raised in the middle of it, those who were served before lose nothing."""
    grants = [Grant(), Grant(subscribe=Unsure(None, [b"a.b"])), Grant(), Grant()]
    with room(authorizer=Doorkeeper(lambda hello: grants.pop(0))) as here:
        receiver, unsure = here.client(sendBuffer=2048), here.client()
        publisher, other = here.client(), here.client()
        for each in (receiver, unsure):
            each.say(b"SUB a.* 1\r\n")
            here.run()
        large = body(1, 1, 60_000)
        publisher.say(publish(b"a.c", large))
        other.say(publish(b"b", body(2, 2, 60_000)) * 3)
        here.settle()
        assert here.failures
        assert receiver.messages()[0] == (b"a.c", large)
