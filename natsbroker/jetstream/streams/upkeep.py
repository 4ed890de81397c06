"""
The removals by a stream's limits, and the work that is repeated after its store failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred, inlineCallbacks, succeed

from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.streams.aging import MessageAging
from natsbroker.jetstream.streams.outcomes import UnknownOutcome
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.storage.retrying import StoreRetry

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

_PIECE = 64


class StreamUpkeep:
    """
    The work that a stream must do even if its store fails. It is then done when the store works
    again. Work that a restart interrupts is found when the stream is served again.

    @ivar retry: waits for the store.
    @ivar outcome: the messages that a failed store may have stored nevertheless.
    """

    def __init__(self, stream: StreamCore) -> None:
        account = stream.account
        store = account.files if stream.isInFile else account.memory
        self._stream = stream
        self._aging = MessageAging(stream)
        self.retry = StoreRetry(store, account.deadlines)
        self.outcome = UnknownOutcome(stream)
        self._carried: set[Callable[[], Awaitable[Any]]] = set()
        self._isClosed = False

    def close(self) -> None:
        """Begin nothing more."""
        self._isClosed = True
        self._aging.stop()

    # Again and again.

    def carryOut(self, attempt: Callable[..., Awaitable[Any]], *args: Any) -> Deferred[Any]:
        """
        Repeat a piece of work until the store has done it.

        @return: fires then, or at once if this is being done already; fails if the stream is closed
            before.
        """
        if args:
            attempt = partial(attempt, *args)
        if attempt in self._carried:
            return succeed(None)
        self._carried.add(attempt)
        doing = ensureDeferred(self.retry.untilDone(attempt, lambda: not self._isClosed))
        return doing.addBoth(self._ended, attempt)

    def _ended(self, result: Any, attempt: Callable[[], Awaitable[Any]]) -> Any:
        self._carried.discard(attempt)
        return result

    def keepTrying(self, attempt: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """As L{carryOut}, for work whose end nobody waits for."""
        self._stream.account.run(self.carryOut(attempt, *args))

    async def orLater(self, attempt: Callable[..., Awaitable[T]], *args: Any) -> T:
        """
        Do a piece of work now, and again later if the store fails.

        @raise StoreError: if the store fails, so that waiting callers learn of it.
        """
        try:
            return await attempt(*args)
        except StoreError:
            self.keepTrying(attempt, *args)
            raise

    # Limits.

    def stored(self) -> None:
        """Enforce the limits, because messages are durable."""
        config, run = self._stream.config, self._stream.account.run
        if 0 < config.max_bytes < self._stream.size:
            run(self.orLater(self._shrink))
        if config.max_age > 0 and not self._aging.isBusy:
            run(self.orLater(self._aging.enforce))

    def applyConfig(self) -> Deferred[None]:
        """Enforce the limits of another configuration."""
        self._aging.stop()
        return ensureDeferred(self.orLater(self.enforce))

    @inlineCallbacks
    def enforce(self) -> Generator[Deferred[Any], Any, None]:
        """Remove what is beyond C{max_bytes} or older than C{max_age}."""
        stream = self._stream
        if 0 < stream.config.max_bytes < stream.size:
            yield self._shrink()
        if stream.config.max_age > 0 and stream.log.bounds().count:
            yield self._aging.enforce()

    def _shrink(self) -> Deferred[None]:
        return self._stream.change(self._discardExcess())

    @inlineCallbacks
    def _discardExcess(self) -> Generator[Deferred[Any], Any, None]:
        stream = self._stream
        excess, keep = stream.size - stream.config.max_bytes, 0
        sequence = max(stream.first, 1)
        while excess > 0:
            page = yield stream.read((), sequence, _PIECE)
            if not page.records:
                break
            for record in page.records:
                keep = record.sequence + 1
                excess -= stream.sizeOf(record.subject, record.headers, record.payload)
                if excess <= 0:
                    break
            sequence = keep
        if keep:
            yield stream.discardBefore(keep)
