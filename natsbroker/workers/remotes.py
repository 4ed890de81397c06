"""The worker that dials the remotes of leafnodes for all."""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.workers.messages import UseRemotes
from natsbroker.workers.slots import WorkerSlot


class RemotePlace:
    """
    Has one worker dial, and another one when that ends or leaves. The first one has hung up before
    the other dials: with two connections everything would come twice.
    """

    def __init__(self, slots: Sequence[WorkerSlot]) -> None:
        self._slots = slots
        self._dialling: WorkerSlot | None = None
        self._isHangingUp = False

    def place(self) -> None:
        """Have a worker dial that takes connections."""
        dialling = self._dialling
        if dialling is None:
            ready = [slot for slot in self._slots if slot.isReady]
            self._dialling = min(ready, key=lambda slot: len(slot.connections), default=None)
            if self._dialling is not None:
                self._dialling.send(UseRemotes(True))
        elif not dialling.isReady and not self._isHangingUp:
            self._isHangingUp = True
            dialling.send(UseRemotes(False))

    def left(self, slot: WorkerSlot) -> None:
        """Note that a worker has no remotes any more."""
        if slot is self._dialling:
            self._dialling, self._isHangingUp = None, False
