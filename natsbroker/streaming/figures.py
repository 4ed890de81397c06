"""
Counters of what goes through the service.
"""

from __future__ import annotations

__all__ = ["Traffic"]


class Traffic:
    """
    Messages and bytes since the service started.

    @ivar inMessages: messages that clients published, refused ones included.
    @ivar inBytes: their bytes, as they came.
    @ivar outMessages: messages that were delivered, those that were sent again included.
    @ivar outBytes: their bytes, as they were sent.
    """

    __slots__ = ("inBytes", "inMessages", "outBytes", "outMessages")

    def __init__(self) -> None:
        self.inMessages = 0
        self.inBytes = 0
        self.outMessages = 0
        self.outBytes = 0
