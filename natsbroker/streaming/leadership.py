"""
Which of several brokers that share a store serves a cluster's channels.

The one that has the lease of a log without records, C{stan/CLUSTER}, serves all of them; the others
are on standby. They do not even listen to what clients ask, so no client is answered twice:
wherever in a cluster of brokers it is connected, the one that serves is asked.

When L{lead} returns, no other broker serves the channels, as long as it has its leases.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.interfaces import ILeasedStore, IStreamStore
from natsbroker.interfaces.records import LeaseLost

__all__ = ["lead", "leaderLog"]


def leaderLog(clusterId: str) -> str:
    """
    The name of the log whose lease is that of the whole cluster.
    """
    return f"stan/{clusterId}"


async def lead(store: IStreamStore, clusterId: str, standBy: Callable[[], object]) -> None:
    """
    Wait until this broker may serve.

    @param standBy: called if another one does.
    @raise natsbroker.interfaces.records.StoreError: if the store fails.
    """
    if not ILeasedStore.providedBy(store):
        return
    name = leaderLog(clusterId)
    try:
        await store.open(name)
    except LeaseLost:
        standBy()
        await store.whenFree(name)
