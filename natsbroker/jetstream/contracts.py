"""
The stream as its consumers see it, so that their modules need not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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
        """The account of the stream."""

    @property
    def name(self) -> str:
        """The stream's name."""

    @property
    def config(self) -> StreamConfig:
        """With all defaults filled in."""

    @property
    def states(self) -> IStateStore:
        """The states of the stream's consumers."""

    @property
    def isShared(self) -> bool:
        """Whether another broker may lead it later."""

    @property
    def first(self) -> int:
        """The first sequence. An empty stream has C{last + 1}, or 0 if it was never used."""

    @property
    def last(self) -> int:
        """The last durable sequence."""

    @property
    def consumers(self) -> Any:
        """The L{natsbroker.jetstream.consumers.table.ConsumerTable}."""

    def together(self, call: Callable[[], object]) -> None:
        """
        Call a function. Its deletions, and the states that it writes, are committed together if the
        store can.
        """

    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Deferred[Matching]:
        """Messages at or after a sequence that match one of the filters, or all without filters."""

    def readEncoded(
        self, filters: tuple[bytes, ...], sequence: int, limit: int, maxBytes: int
    ) -> Deferred[Matching]:
        """As L{read}, but some messages may be decoded only when they are accessed."""

    def get(self, sequence: int) -> Deferred[Record | None]:
        """One message."""

    def count(self, filters: tuple[bytes, ...], sequence: int) -> Deferred[int]:
        """The number of matching messages at or after a sequence."""

    def lastPerSubject(self, filters: tuple[bytes, ...]) -> Deferred[list[int]]:
        """The sequence of the last message of each matching subject, sorted."""

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        """The first sequence that is not older than a time."""

    def settled(self, consumer: Any, sequences: Collection[int]) -> None:
        """Let the stream remove messages that a consumer acknowledged or terminated."""

    def settledLate(self, sequences: Collection[int]) -> None:
        """Let the stream remove messages that a consumer settled behind its floor."""

    def consumerEnded(self, consumer: Any) -> None:
        """
        Delete the configuration and the state of a consumer that was inactive for too long and has
        stopped, and publish an advisory of it.
        """
