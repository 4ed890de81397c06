"""
The compiled step in front of publishing. It takes runs of simple messages, as
L{natsbroker.jetstream.streams.publish} would, and leaves all others.
"""

from __future__ import annotations

from typing import Any

from natsbroker import hot
from natsbroker.jetstream.batches.rollups import isReplacing, mayRollUp
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.publishanswers import StreamBatch
from natsbroker.jetstream.streams.publishchecks import leastTtl
from natsbroker.jetstream.streams.publishkeys import Way
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import SubjectStates
from natsbroker.wire.values import Run


class PublishSteps:
    """
    The step of one stream. Without the compiled lane it takes nothing.

    @cvar cost: the cost of a message that is left to the readable path, in the units of
        L{natsbroker.pure.backlog}.
    @ivar isIdle: whether it takes nothing.
    """

    cost = 300

    def __init__(
        self, stream: StreamCore, duplicates: DuplicateWindow, subjects: SubjectStates
    ) -> None:
        self._stream = stream
        self._duplicates = duplicates
        self._subjects = subjects
        self._step: Any = None
        self.isIdle = True

    def applyConfig(self, way: Way) -> None:
        """
        Use the configuration that the stream has now.

        @param way: what L{wayOf<natsbroker.jetstream.streams.publishkeys.wayOf>} says of it.
        """
        stream, duplicates = self._stream, self._duplicates
        if way < Way.STEP or hot.PublishStep is None:
            self._step = None
            self.isIdle = True
            return
        self.isIdle = False
        self._step = hot.PublishStep(
            stream.name.encode(),
            stream.isInFile,
            stream.config.max_msg_size,
            mayRollUp(stream.config) and isReplacing(stream.config),
            leastTtl(stream.config),
            duplicates.sequences if duplicates.window > 0 else None,
            self._subjects.known,
        )

    def take(
        self, runs: list[tuple[Run, Any]], run: int, place: int, batch: StreamBatch | None
    ) -> tuple[int, int, StreamBatch | None]:
        """
        Put messages into the batch until one is too complex.

        @param run: the place of the run to begin with.
        @param place: the place of the message in that run to begin with.
        @param batch: C{None} if there is none yet.
        @return: the places of the next message, and the batch.
        """
        if self._step is None or not self._duplicates.isKnown:
            return run, place, batch
        stream, duplicates, subjects = self._stream, self._duplicates, self._subjects
        filled = StreamBatch(stream.log.nextSequence) if batch is None else batch
        now = stream.account.now()
        duplicates.expire(now)
        ids: list[bytes] = []
        sequences: list[int] = []
        before = len(filled.entries)
        run, place, size, duplicates.last = self._step.take(
            runs,
            run,
            place,
            filled.entries,
            filled.answers,
            ids,
            sequences,
            duplicates.last,
            filled.first + before,
            stream,
            now,
            subjects.stored if subjects.isUsed else None,
        )
        if ids:
            duplicates.added(ids, sequences, now)
        filled.size += size
        return run, place, filled if len(filled.entries) > before else batch
