"""
A stage for the broker's side of the pipeline: a bus, a clock, logs in memory, and a client.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.connections.turns import turnsOn
from natsbroker.export.logs import ILogDirectory
from natsbroker.export.service import ExportService
from natsbroker.interfaces import IOrigin, IStreamLog, ISubscriber
from natsbroker.storage.memory import MemoryStore
from natsbroker.wire.columnar import ColumnFrame, readFrame, valuesOf
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.support import Router

SECOND = 1_000_000_000
BEGINNING = 1_700_000_000 * SECOND


def result(deferred: Deferred[Any]) -> Any:
    """The result of a Deferred."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    assert results, "the Deferred has not fired"
    if isinstance(results[0], Failure):
        results[0].raiseException()
    return results[0]


@implementer(IOrigin)
class Connection:
    """The origin of a request."""

    def __init__(self, grant: Grant | None = None) -> None:
        self.grant = grant

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return ClientInfo()


@implementer(IStreamLog)
class PlainLog:
    """A log that can only be read and appended to, like that of a third party's simple store."""

    def __init__(self, inner: Any) -> None:
        self.name = inner.name
        self.identity = inner.identity
        self.append = inner.append
        self.read = inner.read
        self.bounds = inner.bounds
        self.sequenceAt = inner.sequenceAt

    @property
    def nextSequence(self) -> int:
        return int(self.bounds().last + 1)


@implementer(ILogDirectory)
class Shelf:
    """A directory of all logs of a store."""

    kind = "CHANNEL"
    realm = "test-cluster"

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.prefix = 0
        self.needed: tuple[bytes, ...] = ()
        self.logs: dict[str, Any] = {}

    def names(self) -> list[str]:
        return sorted(self.logs)

    def find(self, name: str) -> Any:
        return self.logs.get(name)

    def headerPrefix(self, name: str) -> int:
        return self.prefix

    def readSubjects(self, name: str) -> tuple[bytes, ...]:
        return self.needed

    def states(self) -> Any:
        return self.store.states("pipeline")


@implementer(ISubscriber)
class Inbox:
    """A subscriber that keeps its answers."""

    def __init__(self, subject: bytes) -> None:
        self.subject = subject
        self.got: list[bytes] = []
        self.subscription: Any = None

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append(message.payload)

    def subscriptionEnded(self, tag: Any) -> None:
        """Unused by these tests."""


class TurnClock(Clock):
    """A clock that, like the reactor, makes calls scheduled during a turn in the next turn."""

    def advance(self, amount: float) -> None:
        self.rightNow += amount
        due = [call for call in self.calls if call.getTime() <= self.seconds()]
        for call in sorted(due, key=DelayedCall.getTime):
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Stage:
    """
    An export service for some logs.

    @ivar clock: the clock of the service.
    @ivar shelf: the logs of the service.
    @ivar turns: the turns of the service's work.
    """

    def __init__(self, maxPayload: int = 1 << 20) -> None:
        self.clock = TurnClock()
        batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.account = Account("A", Router(), AccountDependencies(batch, Random(1)))
        self.bus = self.account.busFor(Kind.CLIENT)
        self.store = MemoryStore(self.clock, now=self.now)
        self.shelf = Shelf(self.store)
        self.maxPayload = maxPayload
        self._inboxes = count(1)
        self.service = self._makeService()
        result(self.service.begin(self.shelf))

    def _makeService(self) -> ExportService:
        self.turns = turnsOn(self.clock)
        return ExportService(
            self.account.busFor(Kind.INTERNAL),
            self.clock,
            self.turns.of("A"),
            self.now,
            lambda: self.maxPayload,
        )

    def now(self) -> int:
        """The wall clock, in nanoseconds."""
        return BEGINNING + round(self.clock.seconds() * SECOND)

    def log(self, name: str, payloads: Sequence[bytes] = (), isPlain: bool = False) -> Any:
        """A log on the shelf, with messages a second apart."""
        log = result(self.store.open(name))
        subject = name.encode()
        entries = [(subject, b"", payload, (n + 1) * SECOND) for n, payload in enumerate(payloads)]
        result(log.append(entries))
        self.shelf.logs[name] = PlainLog(log) if isPlain else log
        return log

    def restart(self) -> None:
        """End the service, and begin another one."""
        result(self.service.end())
        self.service = self._makeService()
        result(self.service.begin(self.shelf))

    # Asking.

    def send(self, call: str, question: Any = None, origin: object = None) -> Inbox:
        """Send a request, without running the work for it."""
        inbox = Inbox(b"_INBOX.%d" % next(self._inboxes))
        inbox.subscription = self.bus.subscribe(inbox.subject, inbox)
        payload = question if isinstance(question, bytes) else json.dumps(question or {}).encode()
        origin = origin or Connection(Grant("A"))
        message = Message(f"$NB.API.CHANNEL.{call}".encode(), payload, inbox.subject, origin=origin)
        self.bus.publish(message)
        self.clock.advance(0)
        return inbox

    def ask(self, call: str, question: Any = None, origin: object = None) -> dict[str, Any]:
        """Send a request, and return its only answer."""
        inbox = self.send(call, question, origin)
        self.settle()
        assert len(inbox.got) == 1, inbox.got
        answer = json.loads(inbox.got[0])
        assert isinstance(answer, dict)
        return answer

    def refused(self, call: str, question: Any = None) -> tuple[int, str]:
        """Send a request, and return the number and text of its error."""
        error = self.ask(call, question)["error"]
        assert error["code"] in (400, 404, 410, 429, 500, 501, 503)
        return error["err_code"], error["description"]

    def export(self, name: str, **question: Any) -> list[ColumnFrame]:
        """Request a range, and return the frames."""
        inbox = self.send(f"EXPORT.test-cluster.{name}", question)
        self.settle()
        return [readFrame(message) for message in inbox.got]

    def settle(self, seconds: float = 1.0) -> None:
        """Let a moment pass, in small steps."""
        for _ in range(400):
            self.clock.advance(seconds / 400)


def payloadsOf(frames: Sequence[ColumnFrame]) -> dict[int, bytes]:
    """The payloads of some frames by sequence."""
    results: dict[int, bytes] = {}
    for frame in frames:
        values = valuesOf(frame.payloadEnds.cast("i").tolist(), frame.payloads)
        results.update(zip(frame.sequences.cast("Q").tolist(), values, strict=True))
    return results
