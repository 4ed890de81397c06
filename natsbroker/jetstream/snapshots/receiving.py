"""
Receiving the chunks of a snapshot that is restored, each answered when its content is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import ISubscriber, ISubscription
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.snapshots.archive import InvalidArchive
from natsbroker.jetstream.snapshots.restoring import StreamRestore
from natsbroker.runtime.deadlines import Deadline
from natsbroker.wire.values import Message

#: Seconds without a chunk after which the sender counts as gone.
STALL = 5.0

#: The most bytes of chunks that wait. A sender that waits for each answer has one chunk here.
MOST_WAITING = 64 << 20

_ERRORS = (InvalidArchive, JetStreamError, StoreError)


@implementer(ISubscriber)
class RestoreReceiver:
    """Serves the subject of one restore; C{bytes} is the number of received bytes."""

    def __init__(
        self,
        account: JetStreamAccount,
        name: str,
        subject: str,
        restore: StreamRestore,
        ended: Callable[[bytes, JetStreamError | None], Awaitable[None]],
    ) -> None:
        """The receiver; C{ended} is called at the end with the reply subject and the error."""
        self._account = account
        self._restore = restore
        self._ended = ended
        self._title = f"restore for stream '{account.name} > {name}'"
        self._failure: Exception | None = None
        self._waiting: deque[Message] = deque()
        self._waitingBytes = 0
        self._isWorking = False
        self._isOver = False
        self._timer: Deadline | None = None
        self.bytes = 0
        self._subscription: ISubscription = account.bus.serve(subject.encode(), self)
        self._watch()

    def deliver(self, message: Message, tag: Any) -> None:
        if self._isOver:
            return
        self._waiting.append(message)
        self._waitingBytes += len(message.payload)
        if not self._isWorking:
            self._isWorking = True
            self._account.run(self._work())

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._account.deadlines.after(STALL, self._stalled)

    def _stalled(self) -> None:
        """
        Keep the restored part, because the sender is gone. No message and no advisory follows.
        """
        if not self._isWorking:
            self._close()
            self._account.run(self._giveUp(InvalidArchive(f"{self._title} is stalled")))

    def _close(self) -> None:
        self._isOver = True
        self._waiting.clear()
        self._subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    async def _work(self) -> None:
        while self._waiting:
            message = self._waiting.popleft()
            if self._waitingBytes > MOST_WAITING:
                await self._giveUp(InvalidArchive(f"{self._title}: too many chunks wait"))
            self._waitingBytes -= len(message.payload)
            if message.reply and message.payload:
                await self._chunk(message)
                self._watch()
                continue
            self._close()
            await self._finish(message)
        self._isWorking = False

    async def _chunk(self, message: Message) -> None:
        """Store a chunk. After a failure chunks are dropped, and the end reports the failure."""
        self.bytes += len(message.payload)
        if self._failure is None:
            try:
                await self._restore.take(message.payload)
            except _ERRORS as error:
                await self._giveUp(error)
        self._account.send(message.reply)

    async def _finish(self, message: Message) -> None:
        if not message.reply:
            text = f"{self._title} requires reply subject for each chunk"
            await self._giveUp(InvalidArchive(text))
        elif self._failure is None:
            try:
                await self._restore.finish()
            except _ERRORS as error:
                await self._giveUp(error)
        failure = self._failure
        if failure is not None and not isinstance(failure, JetStreamError):
            failure = errors.STREAM_RESTORE(err=failure)
        await self._ended(message.reply, failure)

    async def _giveUp(self, failure: Exception) -> None:
        """Restore nothing more."""
        if self._failure is None:
            self._failure = failure
            try:
                await self._restore.activate()
            except _ERRORS as error:
                self._failure = error
