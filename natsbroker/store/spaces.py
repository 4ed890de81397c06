"""
What is the same for the state of every store.

Promises: the short forms of L{natsbroker.interfaces.IStateStore.change}.
Must never know: how state is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

__all__ = ["SpaceBase"]


class SpaceBase:
    """
    The values of one space, to be derived from.
    """

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        raise NotImplementedError
