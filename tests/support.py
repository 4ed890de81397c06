"""
Shared parts of the tests: the implementations of the hot names, clients in memory, recorders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import Account, Bus
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.advisories import Advisory
from natsbroker.clients.context import ClientContext
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.protocol import ClientFactory
from natsbroker.config.model import Settings
from natsbroker.interfaces import (
    IAuthorizer,
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IRunSubscriber,
    ISubjectRouter,
    ISubscriber,
)
from natsbroker.pure.collector import Collector
from natsbroker.pure.lane import InternalPublisher, Lane
from natsbroker.pure.outbox import FlushBatch, Outbox
from natsbroker.pure.s2block import decodeBlock
from natsbroker.subjects.index import SubjectIndex
from natsbroker.subjects.matcher import Matcher, Matches, TrafficCounter
from natsbroker.subjects.subscription import (
    ServiceSubscription,
    Shadow,
    SidTable,
    Subscription,
    closeAll,
)
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.decoder import Decoder
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind, Message, Run

_log = Logger()

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


@dataclass(frozen=True)
class Names:
    """
    One implementation of the hot names.

    @ivar label: its name in test ids.
    """

    label: str
    AckCollector: Any
    Collector: Any
    Decoder: Any
    DirectGetStep: Any
    Lane: Any
    LinkLane: Any
    Matcher: Any
    Matches: Any
    Outbox: Any
    InternalPublisher: Any
    PublishStep: Any
    Seal: Any
    ServiceSubscription: Any
    Shadow: Any
    EncodedRecords: Any
    SidTable: Any
    SubjectIndex: Any
    Subscription: Any
    TrafficCounter: Any
    FlushBatch: Any
    closeAll: Any
    decodeBlock: Any
    encodeRecords: Any
    findLast: Any
    findRecord: Any
    gatherBlocks: Any
    packFrame: Any
    readAcks: Any
    readPublishes: Any
    selectRecords: Any
    storedRecords: Any
    writeMessages: Any
    writePubAcks: Any

    def __str__(self) -> str:
        return self.label


#: The attributes of L{Names} that are hot names.
FIELDS = tuple(name for name in Names.__dataclass_fields__ if name != "label")

#: Steps that are only there where they are compiled.
STEPS = (
    "AckCollector",
    "DirectGetStep",
    "EncodedRecords",
    "PublishStep",
    "Seal",
    "encodeRecords",
    "findLast",
    "findRecord",
    "gatherBlocks",
    "packFrame",
    "readAcks",
    "readPublishes",
    "selectRecords",
    "storedRecords",
    "writeMessages",
    "writePubAcks",
)

PURE = Names(
    "pure",
    Collector=Collector,
    Decoder=Decoder,
    Lane=Lane,
    LinkLane=None,
    Matcher=Matcher,
    Matches=Matches,
    Outbox=Outbox,
    InternalPublisher=InternalPublisher,
    ServiceSubscription=ServiceSubscription,
    Shadow=Shadow,
    SidTable=SidTable,
    SubjectIndex=SubjectIndex,
    Subscription=Subscription,
    TrafficCounter=TrafficCounter,
    FlushBatch=FlushBatch,
    closeAll=closeAll,
    decodeBlock=decodeBlock,
    **dict.fromkeys(STEPS),
)


def _findCompiled() -> Names | None:
    """
    @return: the compiled names, unless they do not exist or are disabled.
    """
    if os.environ.get("NATSBROKER_PURE", "") not in ("", "0"):
        return None
    try:
        lane = import_module("natsbroker._accel.lane")
    except ImportError:
        return None
    return Names("compiled", **{name: getattr(lane, name) for name in FIELDS})


COMPILED = _findCompiled()

needsCompiled = pytest.mark.skipif(COMPILED is None, reason="the compiled names are not there")

#: Runs a test with the argument C{names} once for each implementation.
onEach = pytest.mark.parametrize(
    "names",
    [pytest.param(PURE, id="pure"), pytest.param(COMPILED, id="compiled", marks=needsCompiled)],
)


@contextmanager
def using(names: Names) -> Iterator[Names]:
    """
    Have the package use one implementation of the hot names.
    """
    before = {name: getattr(hot, name) for name in FIELDS}
    for name in FIELDS:
        setattr(hot, name, getattr(names, name))
    try:
        yield names
    finally:
        for name, value in before.items():
            setattr(hot, name, value)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """
    @param cuts: offsets to cut at, in any order; those outside the data are ignored.
    @return: the data in pieces, none of them empty.
    """
    places = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


@implementer(ISubscriber)
class Recorder:
    """
    A subscriber that records its messages.

    @ivar got: the messages with their tags.
    @ivar ended: the tags of subscriptions that have ended by themselves.
    @ivar subscription: a place for the test's subscription.
    """

    subscription: Any = None

    def __init__(self, onMessage: Callable[[Message], object] | None = None) -> None:
        self.got: list[tuple[Message, Any]] = []
        self.ended: list[Any] = []
        self._onMessage = onMessage

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append((message, tag))
        if self._onMessage is not None:
            self._onMessage(message)

    def subscriptionEnded(self, tag: Any) -> None:
        self.ended.append(tag)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the messages."""
        return [message.body for message, _ in self.got]

    @property
    def tags(self) -> list[Any]:
        """The tags that came with the messages."""
        return [tag for _, tag in self.got]


@implementer(IBatchSubscriber)
class BatchRecorder(Recorder):
    """
    A recorder of batches.

    @ivar batches: the bodies of each batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[bytes]] = []

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        self.batches.append([message.body for message, _ in messages])
        self.got += messages


@implementer(IRunSubscriber)
class RunRecorder(Recorder):
    """
    A recorder of runs.

    @ivar runs: the bodies of each run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[bytes]] = []

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        self.runs += [run.bodies for run, _ in runs]
        self.got += [(message, tag) for run, tag in runs for message in run]


@implementer(ILinkSubscriber)
class LinkRecorder:
    """
    A link that records the messages to forward.

    @ivar got: the bodies, with the chosen queue groups.
    """

    def __init__(self) -> None:
        self.got: list[tuple[bytes, tuple[bytes, ...]]] = []

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.got.append((message.body, queues))


@implementer(IInterestWatcher)
class WatchRecorder:
    """
    A watcher that records its calls.

    @ivar told: C{(sign, pattern, queue, weight)} with the signs C{+}, C{=} and C{-}.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes, bytes, int]] = []

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self.told.append(("+", pattern, queue, weight))

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self.told.append(("=", pattern, queue, weight))

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        self.told.append(("-", pattern, queue, 0))

    def taken(self) -> list[tuple[str, bytes, bytes, int]]:
        """The events since the last call."""
        told, self.told = self.told, []
        return told


@implementer(ISubjectRouter)
class Router:
    """A subject router of the present implementation."""

    hasPlainRules = True

    def __init__(self) -> None:
        self._index: Any = hot.SubjectIndex()

    def insert(self, pattern: bytes, entry: object) -> None:
        self._index.insert(pattern, entry)

    def remove(self, pattern: bytes, entry: object) -> bool:
        return bool(self._index.remove(pattern, entry))

    def match(self, subject: bytes) -> Iterable[Any]:
        matched: Iterable[Any] = self._index.match(subject)
        return matched

    def hasInterest(self, subject: bytes) -> bool:
        return bool(self._index.hasInterest(subject))

    def watchChanges(self, changed: Any) -> None:
        """Nothing to do, because the rules do not change."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)


@implementer(IAuthorizer)
class Doorkeeper:
    """
    An authorizer that a test controls.

    @ivar answer: a function of the L{ConnectRequest}; its result or exception is the answer.
    @ivar asked: every L{ConnectRequest} so far.
    """

    def __init__(
        self,
        answer: Callable[[ConnectRequest], Any] | None = None,
        required: bool = False,
        nonce: bool = False,
        deadline: bool = False,
    ) -> None:
        self.answer = answer or (lambda hello: Grant())
        self.required = required
        self.deadline = required or deadline
        self.nonce = nonce
        self.asked: list[ConnectRequest] = []

    def grantFor(self, hello: ConnectRequest) -> Any:
        self.asked.append(hello)
        return self.answer(hello)

    def watchRevocations(self, revoked: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Accounts(AccountRegistry):
    """
    Accounts that are created when they are first used.

    @ivar counts: the number of connections of each account.
    @ivar maximum: the limit of connections of each account.
    """

    def __init__(
        self, batch: Any, random: Random, names: tuple[str, ...], clock: Any = None
    ) -> None:
        given = AccountDependencies(batch, random, clock)
        super().__init__(given, lambda name: Router())
        self._accounts = {name: Account(name, Router(), given) for name in names}
        self.counts = dict.fromkeys(names, 0)
        self.maximum = 0

    def __getitem__(self, name: str) -> Account:
        return self._accounts[name]

    def admit(self, grant: Grant, kind: Kind = Kind.CLIENT) -> Bus:
        account = self._accounts[grant.account]
        if self.maximum and self.counts[grant.account] >= self.maximum:
            raise errors.ConnectionLimit(errors.MAX_ACCOUNT_CONNECTIONS)
        self.counts[grant.account] += 1
        return account.busFor(kind)

    def dismiss(self, grant: Grant, kind: Kind = Kind.CLIENT) -> None:
        self.counts[grant.account] -= 1

    def isSystem(self, account: str) -> bool:
        return account == "$SYS"


class Wire:
    """
    One client's end of a connection.

    @ivar transport: the broker's end.
    @ivar protocol: the broker's protocol.
    """

    def __init__(self, world: World, transport: MemoryTransport, protocol: Any) -> None:
        self._world = world
        self.transport = transport
        self.protocol = protocol
        self._session = getattr(protocol, "session", None)

    @property
    def session(self) -> Any:
        """The broker's session, which the protocol forgets at its end."""
        self._session = getattr(self.protocol, "session", None) or self._session
        return self._session

    @property
    def closed(self) -> str:
        self._world.settle()
        return self.transport.closed

    def reads(self) -> bool:
        """Whether the broker reads from this client at present."""
        return self.transport.isReading

    def send(self, *data: bytes) -> None:
        """Send bytes, each piece separately."""
        for piece in data:
            self.transport.send(piece)

    def receive(self) -> bytes:
        """The bytes since the last call."""
        self._world.settle()
        return self.transport.take()

    def ask(self, *data: bytes) -> bytes:
        """Send bytes, and return the output."""
        self.send(*data)
        return self.receive()


class World:
    """
    The context of client connections, without sockets.

    @ivar clock: the clock, which begins at zero.
    @ivar advisories: the advisories for observers.
    """

    def __init__(
        self,
        limits: Settings | None = None,
        authorizer: Doorkeeper | None = None,
        seed: int = 1,
        fastLane: bool = True,
        accounts: tuple[str, ...] = ("$G", "$SYS", "A", "B"),
        schedule: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """
        @param schedule: the scheduler of turns; by default the clock, which runs until no call is
            due.
        """
        self.clock = Clock()
        self.advisories: list[Advisory] = []
        self.authorizer = authorizer or Doorkeeper()
        random = Random(seed)
        soon = schedule or (lambda call: self.clock.callLater(0, call))
        batch = hot.FlushBatch(soon, _log.failure)
        self.accounts = Accounts(batch, random, accounts, self.clock)
        self.context = ClientContext(
            self.clock,
            self.accounts,
            self.authorizer,
            ServerInfo("ID", "name", "2.15.1", "0", auth_required=self.authorizer.required),
            batch,
            limits or Settings(),
            self.advisories.append,
            random,
            lambda count: bytes(range(count)),
        )
        self.context.fastLane = fastLane
        self.factory = ClientFactory(self.context)

    def dial(self, host: str = "127.0.0.1") -> Wire:
        """Connect, without reading INFO."""
        peer = IPv4Address("TCP", host, 50000)
        protocol = self.factory.buildProtocol(peer)
        transport = MemoryTransport(self.clock, protocol, peer)
        transport.connect()
        return Wire(self, transport, protocol)

    def client(self, hello: bytes = QUIET) -> Wire:
        """Connect, read INFO, send CONNECT and drop the answer."""
        wire = self.dial()
        wire.receive()
        wire.ask(hello)
        return wire

    def settle(self) -> None:
        """Run all calls that are due."""
        self.clock.advance(0)

    def advance(self, seconds: float, step: float = 0.05) -> None:
        """Let time pass in steps, so that calls are made at their own times."""
        end = self.clock.seconds() + seconds
        while end - self.clock.seconds() > 1e-9:
            self.clock.advance(min(step, end - self.clock.seconds()))
            self.settle()
