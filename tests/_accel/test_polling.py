"""
Connections in a poller: slow receivers, exceptions, and peers that hang up.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.config.model import Settings
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind
from tests._accel.sockets import Room, body, publish, room
from tests.conftest import FlushLoggedErrors
from tests.support import Doorkeeper, Recorder, needsCompiled

pytestmark = needsCompiled

#: Exceptions that C{except Exception} does not catch.
EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit]


def answers(here: Room, client: Any) -> bool:
    """Whether a client gets an answer to its PING."""
    client.heard = b""
    client.say(b"PING\r\n")
    here.settle()
    return b"PONG\r\n" in client.heard


def take(here: Room, client: Any, count: int) -> None:
    """Have a client receive that many bytes."""
    while count:
        assert client.peer.isOpen
        count -= client.listen(count)
        here.run()


class TestWriteDeadline:
    """The time that a receiver may take for waiting output."""

    def test_steady(self) -> None:
        """
        A receiver that reads each batch in time stays connected, though its outbox is never empty.
        """
        with room(Settings(write_deadline=3.0)) as here:
            receiver, publisher = here.client(sendBuffer=4096), here.client()
            receiver.say(b"SUB a 1\r\n")
            here.run()
            publisher.say(publish(b"a", body(1, 1, 100_000)) * 2)
            here.run()
            for second in range(12):
                publisher.say(publish(b"a", body(1, second, 100_000)))
                here.run()
                take(here, receiver, 100_000)
                assert receiver.peer.session.outbox.pending > 50_000
                here.world.advance(1.0)
            assert receiver.peer.isOpen

    def test_stopped(self) -> None:
        """
        A receiver that stops reading is disconnected one write deadline after the last batch that
        it read.
        """
        with room(Settings(write_deadline=3.0)) as here:
            receiver, publisher = here.client(sendBuffer=4096), here.client()
            receiver.say(b"SUB a 1\r\n")
            here.run()
            publisher.say(publish(b"a", body(1, 1, 100_000)))
            here.run()
            here.world.advance(2.0)
            publisher.say(publish(b"a", body(1, 2, 100_000)))
            here.run()
            take(here, receiver, 120_000)
            here.world.advance(2.9)
            assert receiver.peer.isOpen
            here.world.advance(0.2)
            assert receiver.peer.session.reason == "Slow Consumer (Write Deadline)"

    def test_tooSlow(self) -> None:
        """
        A receiver that reads a batch too slowly for the write deadline is disconnected, though it
        reads all the time.
        """
        with room(Settings(write_deadline=3.0)) as here:
            receiver, publisher = here.client(sendBuffer=4096), here.client()
            receiver.say(b"SUB a 1\r\n")
            here.run()
            publisher.say(publish(b"a", body(1, 1, 100_000)) * 4)
            here.run()
            for _ in range(4):
                receiver.listen(10_000)
                here.run()
                here.world.advance(0.8)
            assert receiver.peer.session.reason == "Slow Consumer (Write Deadline)"


class TestExceptions:
    """Exceptions in the callbacks of an event."""

    @pytest.mark.parametrize("error", [ValueError, *EXITS])
    def test_inTheLane(
        self, error: type[BaseException], flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """
        An exception in the lane ends the connection, and other clients are served in the same
        round.
        """
        with room() as here:
            publisher, other = here.client(), here.client()

            def fail(subject: bytes) -> bytes:
                raise error

            matcher = here.world.accounts["$G"].matcher
            matcher.mapSubject = fail
            publisher.say(publish(b"a", b"x"))
            here.settle()
            matcher.mapSubject = None
            assert len(flushLoggedErrors(error)) == 1
            assert publisher.peer.session.reason == "Internal Client"
            assert answers(here, other)

    @pytest.mark.parametrize("error", EXITS)
    def test_inAnAuthorizer(
        self, error: type[BaseException], flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """An authorizer that raises an exception denies the login. Other clients are served."""

        def answer(hello: Any) -> Grant:
            if hello.options["name"] == "evil":
                raise error
            return Grant()

        with room(authorizer=Doorkeeper(answer)) as here:
            other = here.client()
            evil = here.client(b'CONNECT {"name":"evil"}\r\n')
            here.settle()
            flushLoggedErrors(error)
            assert evil.peer.session.reason == "Authorization Violation" or not evil.peer.isOpen
            assert answers(here, other)

    @pytest.mark.parametrize("error", EXITS)
    def test_inASubscriber(
        self, error: type[BaseException], flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """
        A subscriber in this process that raises an exception does not end the publisher's turn.
        """
        with room() as here:

            def fail(message: Any) -> None:
                raise error

            publisher, other = here.client(), here.client()
            here.world.accounts["$G"].busFor(Kind.INTERNAL).subscribe(b"a", Recorder(fail), None)
            publisher.say(publish(b"a", b"x"))
            here.settle()
            flushLoggedErrors(error)
            assert answers(here, other)

    def test_reportRaises(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        A connection is closed if reporting its failure raises an exception, and no other one is.
        """
        with room() as here:
            publisher, other = here.client(), here.client()

            def fail(*_: object) -> None:
                raise MemoryError

            peer = publisher.peer
            peer.connection.forget()
            peer.connection = hot.Connection(
                here.poller,
                peer.connection.fd,
                hot.Decoder(),
                hot.Outbox(here.world.context.batch, peer.session, fail, 1 << 20),
                fail,
                fail,
                fail,
                fail,
                peer._gone,
                fail,
            )
            peer.connection.watch()
            publisher.say(b"PING\r\n")
            here.run()
            assert flushLoggedErrors(MemoryError)
            assert not peer.isOpen
            assert answers(here, other)


class Signals:
    """
    A poller without a reactor, and a descriptor that is readable again after each read, a given
    number of times.

    @ivar seen: for each read, whether the wait before it began without sleeping.
    """

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self._left = 0
        self.seen: list[bool] = []
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        poller.watch(self._descriptor, self._came)

    def _came(self) -> None:
        os.eventfd_read(self._descriptor)
        self.seen.append(self._poller.isEager)
        if self._left:
            self._left -= 1
            os.eventfd_write(self._descriptor, 1)

    def send(self, count: int) -> None:
        """
        Make the descriptor readable C{count} times, one after the other. Then let one wait end
        without an event.
        """
        self._left = count - 1
        os.eventfd_write(self._descriptor, 1)
        while self._left:
            self._poller.run()
        self._poller.run()

    def close(self) -> None:
        """Close the descriptor."""
        self._poller.unwatch(self._descriptor)
        os.close(self._descriptor)


@contextmanager
def signals(mayBeEager: bool) -> Iterator[Signals]:
    """Signals to a poller of their own."""
    poller = hot.Poller(hot.FlushBatch(lambda call: None), mayBeEager)
    with select.epoll() as reactor:
        reactor.register(poller.fileno(), select.EPOLLIN)
        poller.attend(reactor.fileno(), lambda: None)
        here = Signals(poller)
        try:
            yield here
        finally:
            here.close()
            poller.close()


class TestEager:
    """Waits of a poller that begin without sleeping."""

    def test_shortWaits(self) -> None:
        """
        After sixteen short waits, waits begin without sleeping, until one of them ends without an
        event.
        """
        with signals(True) as here:
            for _ in range(1000):
                here.send(100)
                if any(here.seen):
                    break
            eager = here.seen.index(True)
            assert eager >= 16
            here.seen.clear()
            here.send(2)
            assert here.seen == [False, False]

    def test_forbiddenWait(self) -> None:
        """A poll that may not wait returns at once."""
        with signals(False) as here:
            for _ in range(10):
                here.send(100)
            assert here.seen == [False] * 1000


class TestPaused:
    """Sockets whose reading is paused."""

    def test_hangsUp(self) -> None:
        """Input that came before the peer hung up is read when reading resumes, and not before."""
        with room() as here:
            here.world.accounts["$G"].busFor(Kind.INTERNAL).subscribe(
                b"a", recorder := Recorder(), None
            )
            publisher = here.client()
            publisher.peer.pauseReading()
            publisher.say(publish(b"a", b"last words"))
            publisher.close()
            for _ in range(3):
                here.run()
            assert (recorder.bodies, publisher.peer.isOpen) == ([], True)
            publisher.peer.resumeReading()
            here.run()
            here.run()
            assert (recorder.bodies, publisher.peer.isOpen) == ([b"last words"], False)

    def test_pausedSocketIsNotReady(self) -> None:
        """
        A paused socket is not reported as ready after its peer hung up, so that the reactor does
        not spin.
        """
        with room() as here:
            publisher = here.client()
            publisher.peer.pauseReading()
            publisher.close()
            here.run()

            assert select.select([here.poller.fileno()], [], [], 0) == ([], [], [])
            publisher.peer.resumeReading()
            here.run()
            assert not publisher.peer.isOpen

    def test_reset(self) -> None:
        """A connection that was reset is not reported again before it is read."""
        listener = socket.create_server(("127.0.0.1", 0))
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
        listener.close()
        ours.setblocking(False)
        told: list[str] = []
        with room() as here:
            batch = here.world.context.batch
            connection = hot.Connection(
                here.poller,
                ours.fileno(),
                hot.Decoder(),
                hot.Outbox(batch, here.client().peer.session, lambda _: None, 1 << 20),
                lambda: told.append("input"),
                lambda: None,
                lambda: None,
                lambda: told.append("ended"),
                lambda: told.append("lost"),
                lambda: None,
            )
            connection.watch()
            connection.setReading(False)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            for _ in range(3):
                here.run()
            assert told == []
            connection.setReading(True)
            here.run()
            assert told == ["lost"]
            connection.forget()
            ours.close()
