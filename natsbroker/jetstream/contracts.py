"""
What consumers and streams need of what they belong to.

The classes are protocols, because the modules of streams and accounts import consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from twisted.internet.defer import Deferred

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces import IMessageBus, IStateStore, IStreamStore
from natsbroker.interfaces.records import Matching, Record, SubjectTallies
from natsbroker.jetstream.batches.budget import BatchBudget
from natsbroker.jetstream.model.limits import StorageBounds
from natsbroker.jetstream.model.members import SharedAccount
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.recordsender import RecordSender
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.steps import Steps
from natsbroker.wire.values import Message

T = TypeVar("T")


class ConsumerAccount(Protocol):
    """The account of a consumer's stream."""

    @property
    def name(self) -> str:
        """The account's name."""

    @property
    def domain(self) -> str:
        """The JetStream domain; empty for none."""

    @property
    def bus(self) -> IMessageBus:
        """The account's bus for services of this broker."""

    @property
    def deadlines(self) -> Deadlines:
        """Timers, by a clock that is never set."""

    @property
    def turns(self) -> AccountTurns:
        """When long work goes on."""

    @property
    def now(self) -> Callable[[], int]:
        """The wall clock, in nanoseconds since 1970."""

    def send(
        self,
        subject: bytes,
        payload: bytes = b"",
        headers: bytes = b"",
        reply: bytes = b"",
        streamSubject: bytes = b"",
        origin: object = None,
    ) -> int:
        """
        Publish a message.

        @param origin: who of this broker asks a service; C{None} for what is no request.
        @return: the number of receivers.
        """

    @property
    def records(self) -> RecordSender:
        """Sends stored messages."""

    async def inSteps(self, steps: Steps[T]) -> T:
        """Do some work, in several turns of the reactor if it is long."""

    def advise(self, subject: str, kind: str, /, **fields: Any) -> None:
        """
        Publish an advisory or a metric, if there is interest.

        @param subject: what follows C{$JS.EVENT.}.
        @param kind: its type, what follows C{io.nats.jetstream.}.
        """

    def watchInterest(
        self, subject: bytes, queue: bytes, changed: Callable[[bool], None]
    ) -> Callable[[], None]:
        """
        Report whether a subject has interest: at once, and with each change.

        @param queue: counts members of this queue group only; empty for any subscription.
        @return: called to end it.
        """

    def serve(
        self,
        serve: Callable[..., Coroutine[Any, Any, Any]],
        message: Message,
        tag: Any,
        isRead: bool,
        cost: int,
    ) -> None:
        """
        Do what a request asks for, in the turns of its origin. If too many wait it is dropped.
        """

    def run(self, coroutine: Coroutine[Any, Any, Any] | Deferred[Any]) -> object:
        """Run a coroutine in the background; its failure is logged."""


class ConsumerStream(Protocol):
    """The stream of a consumer."""

    @property
    def account(self) -> ConsumerAccount:
        """Whose stream it is."""

    @property
    def name(self) -> str:
        """The stream's name."""

    @property
    def config(self) -> StreamConfig:
        """With all defaults filled in."""

    @property
    def states(self) -> IStateStore:
        """Where the states of its consumers are."""

    @property
    def isShared(self) -> bool:
        """Whether another broker may lead it later."""

    @property
    def first(self) -> int:
        """The first sequence; C{last + 1}, or 0 in a stream that was never used, if empty."""

    @property
    def last(self) -> int:
        """The last sequence that is durable."""

    @property
    def consumers(self) -> Any:
        """The L{natsbroker.jetstream.consumers.table.ConsumerTable}."""

    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Deferred[Matching]:
        """
        Messages that match one of the filters, or any without filters, at or after a sequence.
        """

    def readEncoded(
        self, filters: tuple[bytes, ...], sequence: int, limit: int, maxBytes: int
    ) -> Deferred[Matching]:
        """The same, of which some may be decoded only when they are asked for."""

    def get(self, sequence: int) -> Deferred[Record | None]:
        """One message."""

    def count(self, filters: tuple[bytes, ...], sequence: int) -> Deferred[int]:
        """The number of matching messages at or after a sequence."""

    def lastPerSubject(self, filters: tuple[bytes, ...]) -> Deferred[list[int]]:
        """The sequence of the last message of each matching subject, sorted."""

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        """The first sequence that is not older than a time."""

    def settled(self, consumer: Any, sequences: Collection[int]) -> None:
        """A consumer acknowledged or terminated messages."""

    def settledLate(self, sequences: Collection[int]) -> None:
        """A consumer acknowledged or terminated messages behind its floor."""

    def consumerEnded(self, consumer: Any) -> None:
        """
        A consumer was inactive for too long, and has stopped. The stream deletes its configuration
        and its state, and advises of the deletion.
        """


class DirectStream(ConsumerStream, Protocol):
    """The stream that direct get reads."""

    @property
    def isDeleted(self) -> bool:
        """Whether the stream is being deleted."""

    @property
    def isInFile(self) -> bool:
        """Whether header blocks follow their length in the log."""

    @property
    def isSettled(self) -> bool:
        """Whether L{settle} has nothing to wait for."""

    def settle(self) -> Deferred[None]:
        """Wait until what was published and removed before is durable."""

    def verify(self) -> Deferred[None] | None:
        """Ask whether this broker leads the stream still, unless no other one can have it."""

    def lastMatching(self, pattern: bytes) -> Deferred[Record | None]:
        """The newest message whose subject matches a pattern."""

    def nextMatching(self, pattern: bytes, sequence: int) -> Deferred[Record | None]:
        """The first message at or after a sequence whose subject matches a pattern."""

    def eachTally(
        self, filters: Sequence[bytes], note: Callable[[SubjectTallies], object]
    ) -> Deferred[None]:
        """As L{PublishedStream.eachTally}."""


class ExpiringStream(DirectStream, Protocol):
    """The stream whose messages expire, or are scheduled."""

    @property
    def log(self) -> Any:
        """The records."""

    @property
    def publisher(self) -> Any:
        """What stores delete markers."""

    @property
    def isDeleted(self) -> bool:
        """Whether the stream is being deleted."""

    def firstRecord(self) -> Deferred[Record | None]:
        """The oldest message."""

    @property
    def upkeep(self) -> Any:
        """The work that is done again if it fails."""

    def discardBefore(self, sequence: int) -> Deferred[None]:
        """Remove the messages below a sequence."""

    def remove(self, sequences: Collection[int]) -> Deferred[int]:
        """Remove single messages."""


class StreamAccount(ConsumerAccount, Protocol):
    """
    The account of a stream.

    @ivar files: the store of streams in files, and of their configurations and consumers.
    @ivar memory: the store of streams in memory.
    @ivar batches: what atomic batches of all streams use.
    @ivar cluster: what other brokers have of the account, if they share its store.
    @ivar isShared: whether other brokers serve streams of the same store.
    @ivar reserving: the streams that may have a C{max_bytes}.
    """

    files: IStreamStore
    memory: IStreamStore
    batches: BatchBudget
    cluster: SharedAccount | None
    isShared: bool
    reserving: WeakSet[Any]

    def isBounded(self, storage: StorageType) -> bool:
        """Whether the account or the server has a limit for a kind of storage."""

    def isNear(self, storage: StorageType) -> bool:
        """Whether the limits of a kind of storage are so near that each message must be checked."""

    def bounds(self, storage: StorageType, own: int) -> StorageBounds:
        """
        The limits for a kind of storage, and what is in use.

        @param own: bytes of a stream that do not count.
        """

    def spaceOf(self, name: str) -> str:
        """The space of state of a stream and its consumers."""


class PublishedStream(Protocol):
    """
    The stream of a publisher.

    @ivar skippedAt: when a message was last passed over because nobody wanted it, in nanoseconds
        since 1970; 0 for never.
    """

    skippedAt: int

    @property
    def account(self) -> StreamAccount:
        """Whose stream it is."""

    @property
    def name(self) -> str:
        """The stream's name."""

    @property
    def config(self) -> StreamConfig:
        """With all defaults filled in."""

    @property
    def log(self) -> Any:
        """The records."""

    @property
    def consumers(self) -> Any:
        """The L{natsbroker.jetstream.consumers.table.ConsumerTable}."""

    @property
    def watchers(self) -> Sequence[Any]:
        """The callables that receive stored messages."""

    @property
    def isDeleted(self) -> bool:
        """Whether the stream is being deleted."""

    @property
    def isInFile(self) -> bool:
        """Whether the messages are in files."""

    @property
    def sources(self) -> Any:
        """The positions up to which its sources were read."""

    @property
    def upkeep(self) -> Any:
        """The work that is done again if it fails."""

    def written(self) -> Deferred[Any]:
        """Wait until what was given to the log is durable, or could not be stored."""

    @property
    def first(self) -> int:
        """The first sequence."""

    @property
    def messages(self) -> int:
        """The number of messages."""

    @property
    def size(self) -> int:
        """Bytes, as nats-server counts them."""

    def sizeOf(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        """The size of one message."""

    def eachTally(
        self, filters: Sequence[bytes], note: Callable[[SubjectTallies], object]
    ) -> Deferred[None]:
        """Read the tallies of the subjects that match one of the filters, some at a time."""

    def get(self, sequence: int) -> Deferred[Record | None]:
        """One message."""

    def remove(self, sequences: Collection[int]) -> Deferred[Any]:
        """Remove single messages."""

    def drop(self, sequences: Collection[int]) -> None:
        """Remove single messages, again if need be."""

    def purge(self, pattern: bytes = b"", before: int = 0) -> Deferred[int]:
        """Remove the messages below a sequence whose subject matches a pattern, if there is one."""

    def quiet(self) -> Deferred[None]:
        """Wait for deletions that are under way."""

    def stored(self, records: Sequence[Record], isWatched: bool) -> None:
        """Messages are durable."""

    def rollUp(self, first: int, rollups: Sequence[tuple[bytes, int]]) -> Deferred[None]:
        """Remove what messages replace."""


class ReadingStream(PublishedStream, Protocol):
    """A stream that reads another one, as its mirror or a source."""

    @property
    def publisher(self) -> Any:
        """What stores messages that are published."""

    @property
    def states(self) -> IStateStore:
        """Where its configuration and the states of its consumers are."""

    @property
    def last(self) -> int:
        """The last sequence that is durable."""

    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Deferred[Matching]:
        """As L{ConsumerStream.read}."""

    def caughtUp(self) -> None:
        """The mirror has what its origin has."""


class KeptStream(ExpiringStream, Protocol):
    """A stream with limits."""

    @property
    def account(self) -> StreamAccount:
        """Whose stream it is."""

    @property
    def size(self) -> int:
        """Bytes, as nats-server counts them."""

    def sizeOf(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        """The size of one message."""

    def change(self, change: Deferred[Any]) -> Deferred[Any]:
        """Note that messages are being deleted."""


class RetainingStream(ReadingStream, Protocol):
    """A stream that removes what its consumers have settled."""

    def discardBefore(self, sequence: int) -> Deferred[None]:
        """Remove the messages below a sequence."""
