"""
The end of a consumer that nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.jetstream.consumers.core import ConsumerCore
from natsbroker.jetstream.consumers.pulldelivery import PullDeliverer
from natsbroker.jetstream.consumers.pushdelivery import PushDeliverer


class ConsumerInactivity:
    """
    Ends a consumer after its C{inactive_threshold} without activity. A pull consumer stays while a
    client waits, or may be working on messages.
    """

    def __init__(
        self,
        core: ConsumerCore,
        deliverer: PullDeliverer | PushDeliverer,
        end: Callable[[], None],
    ) -> None:
        self._core = core
        self._pull = deliverer if isinstance(deliverer, PullDeliverer) else None
        self._push = deliverer if isinstance(deliverer, PushDeliverer) else None
        self._end = end

    def watch(self) -> None:
        """Begin to watch, or look again at the configuration."""
        core = self._core
        threshold = core.config.inactive_threshold
        if threshold <= 0 or (self._push is not None and self._push.isBound):
            core.timers.clear(self._passed)
        elif core.isServing:
            core.timers.set(self._passed, core.lastActive + threshold / 1e9)

    def bound(self) -> None:
        self._core.lastActive = self._core.monotonic()
        self.watch()

    def settled(self) -> None:
        """Some messages are no longer pending. With the last one, no client is at work any more."""
        isIdle = self._pull is not None and not self._core.pending.entries
        if isIdle and self._core.config.inactive_threshold > 0:
            self.watch()

    def _passed(self) -> None:
        core, now = self._core, self._core.monotonic()
        threshold = core.config.inactive_threshold / 1e9
        if self._pull is not None:
            last = core.lastActive
            if self._pull.waiting and self._pull.examine():
                last = now
            last = max(last, core.pending.lastDue())
            if last + threshold > now + 1e-9:
                core.timers.set(self._passed, last + threshold)
                return
        self._end()
