"""
Deletion of inactive channels.

A channel with a limit on inactivity is deleted after that time without an active subscription and
without a new message, unless a subscription or an append is in progress or a job holds messages.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from natsbroker.streaming.deadlines import Deadlines
from natsbroker.streaming.delivery import Run
from natsbroker.streaming.model import Channel


class InactivityTimers:
    def __init__(
        self,
        deadlines: Deadlines,
        run: Run,
        delete: Callable[[Channel], Coroutine[Any, Any, None]],
    ) -> None:
        self._deadlines = deadlines
        self._run = run
        self._delete = delete

    def created(self, channel: Channel) -> None:
        self.used(channel)
        self.left(channel)

    def used(self, channel: Channel) -> None:
        channel.lastActivity = self._deadlines.now()

    def left(self, channel: Channel) -> None:
        if channel.limits.max_inactivity and not channel.isWatched and not channel.isDeleted:
            self.used(channel)
            self._watch(channel, channel.limits.max_inactivity)

    def joined(self, channel: Channel) -> None:
        inactivity, channel.inactivity = channel.inactivity, None
        if inactivity is not None:
            inactivity.cancel()

    def _watch(self, channel: Channel, seconds: float) -> None:
        self.joined(channel)
        channel.inactivity = self._deadlines.after(seconds, partial(self._passed, channel))

    def _passed(self, channel: Channel) -> None:
        channel.inactivity = None
        if channel.isWatched or channel.isDeleted:
            return
        maximum = channel.limits.max_inactivity
        rest = maximum - (self._deadlines.now() - channel.lastActivity)
        if channel.inFlight or channel.users or channel.isHeld:
            rest = maximum
        if rest > 1e-9:
            self._watch(channel, rest)
        else:
            self._run(self._delete(channel))
