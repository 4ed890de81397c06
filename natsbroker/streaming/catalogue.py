"""
The channels, as logs for jobs.

Promises: what can be read by its name now: channels whose logs are open and that are not being
deleted.
Must never know: who reads.
"""

from __future__ import annotations

from zope.interface import implementer

from natsbroker.interfaces import ILogCatalogue, IStateStore, IStreamLog, IStreamStore
from natsbroker.streaming.channels import Channels

__all__ = ["ChannelCatalogue"]


@implementer(ILogCatalogue)
class ChannelCatalogue:
    """
    The channels of a cluster.

    @ivar realm: the id of the cluster.
    """

    kind = "CHANNEL"

    def __init__(self, channels: Channels, store: IStreamStore, clusterId: str) -> None:
        self.realm = clusterId
        self._channels = channels
        self._store = store

    def names(self) -> list[str]:
        """
        See L{ILogCatalogue.names}.
        """
        return sorted(each.name for each in self._channels if each.isOpen and not each.isDeleted)

    def find(self, name: str) -> IStreamLog | None:
        """
        See L{ILogCatalogue.find}.
        """
        channel = self._channels.get(name)
        if channel is None or channel.isDeleted or not channel.isOpen:
            return None
        return channel.log

    def states(self) -> IStateStore:
        """
        See L{ILogCatalogue.states}.
        """
        return self._store.states(f"pipeline/stan/{self.realm}")
