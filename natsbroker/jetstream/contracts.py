"""
What consumers need of their stream, whose modules import them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from natsbroker.interfaces import IStateStore
from natsbroker.interfaces.records import Matching, Record
from natsbroker.jetstream.accountcore import JetStreamAccountCore
from natsbroker.jetstream.model.streamconfig import StreamConfig

T = TypeVar("T")


class ConsumerStream(Protocol):
    """The stream of a consumer."""

    @property
    def account(self) -> JetStreamAccountCore:
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
