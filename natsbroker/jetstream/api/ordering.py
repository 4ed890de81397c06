"""
The order of requests that change the same stream.
"""

from __future__ import annotations

from collections import Counter, deque

from twisted.internet.defer import Deferred, succeed


class RequestOrder:
    """
    Lets requests pass one after the other. Many may pass in one turn of the reactor, but none
    begins within the call of another.

    A request about one consumer lets later ones pass as soon as its change is in memory, so that
    several share a commit. Requests about the same consumer, or about the whole stream, wait until
    it has ended.
    """

    def __init__(self) -> None:
        self._waiting: deque[Deferred[None]] = deque()
        self._isHeld = False
        self._isPassing = False
        self._beside: Counter[str] = Counter()
        self._waits: tuple[str, Deferred[None]] | None = None

    @property
    def isIdle(self) -> bool:
        return not (self._isHeld or self._waiting or self._beside)

    def acquire(self) -> Deferred[None]:
        """Wait for the earlier requests. A request that is cancelled meanwhile loses its place."""
        if not self._isHeld:
            self._isHeld = True
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def release(self) -> None:
        self._isHeld = False
        if self._isPassing:
            return
        self._isPassing = True
        try:
            while self._waiting and not self._isHeld:
                following = self._waiting.popleft()
                if not following.called:
                    self._isHeld = True
                    following.callback(None)
        finally:
            self._isPassing = False

    def wait(self, name: str = "") -> Deferred[None]:
        """
        Make the passing request wait for earlier requests that have not ended.

        @param name: of a consumer, to wait only for a request about it.
        """
        if not self._isBeside(name):
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waits = name, waiting
        return waiting

    def _isBeside(self, name: str) -> bool:
        return name in self._beside if name else bool(self._beside)

    def goOn(self, name: str) -> None:
        """
        Let the next request pass although this one, about a consumer, is not finished until
        L{ended}.
        """
        self._beside[name] += 1
        self.release()

    def ended(self, name: str) -> None:
        self._beside[name] -= 1
        if not self._beside[name]:
            del self._beside[name]
        if self._waits is not None and not self._isBeside(self._waits[0]):
            waiting, self._waits = self._waits[1], None
            if not waiting.called:
                waiting.callback(None)


class RequestTurn:
    """The turn of one request in the order of its client, and in that of its stream."""

    def __init__(self, isAlone: bool = True) -> None:
        """
        @param isAlone: whether it waits for all earlier requests, and not only for those about the
            same consumer.
        """
        self._isAlone = isAlone
        self._orders: list[RequestOrder] = []
        self._name: str | None = None

    async def begin(self, order: RequestOrder) -> None:
        """Wait for this request's turn in an order. Call L{end} afterwards."""
        await order.acquire()
        self._orders.append(order)
        try:
            if self._isAlone:
                await order.wait()
        except BaseException:
            self.end(order)
            raise

    async def wait(self, name: str) -> None:
        """Wait for the earlier requests about a consumer."""
        for order in self._orders[-1:]:
            await order.wait(name)

    def goOn(self, name: str) -> None:
        """Let other requests pass, because they see the consumer's change in memory."""
        self._name = name
        for order in self._orders:
            order.goOn(name)

    def end(self, order: RequestOrder) -> None:
        if self._name is None:
            order.release()
        else:
            order.ended(self._name)
