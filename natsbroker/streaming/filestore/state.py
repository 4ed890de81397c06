"""Clients and subscriptions of nats-streaming-server, from C{clients.dat} and C{subs.dat}."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from natsbroker.streaming.filestore.framing import SourceError, TypedRecord
from natsbroker.streaming.protocol import Malformed, messageClasses

_classes = messageClasses("natsbroker.streaming.filestore", "filestore")

ServerInfo: Any = _classes["ServerInfo"]
ClientInfo: Any = _classes["ClientInfo"]
ClientDelete: Any = _classes["ClientDelete"]
SubState: Any = _classes["SubState"]
SubStateDelete: Any = _classes["SubStateDelete"]
SubStateUpdate: Any = _classes["SubStateUpdate"]

_ADD_CLIENT, _DELETE_CLIENT = 1, 2
_NEW, _UPDATE, _DELETE, _ACK, _SENT = 1, 2, 3, 4, 5


@dataclass(slots=True)
class SourceSubscription:
    """
    A subscription as the server would restore it after a restart. C{state} is its last C{SubState}.
    """

    state: Any
    lastSent: int = 0
    pending: set[int] = field(default_factory=set)

    @property
    def isDurable(self) -> bool:
        """Whether it outlives its client. Before server 0.3.0, its durable name tells."""
        return bool(self.state.isDurable or (self.state.durableName and not self.state.qGroup))


def replayClients(name: str, records: Iterable[TypedRecord]) -> dict[str, Any]:
    """The C{ClientInfo} of each client that was connected, by its id."""
    clients: dict[str, Any] = {}
    for record in records:
        if record.kind == _ADD_CLIENT:
            client = _parsed(ClientInfo, name, record)
            clients[client.id] = client
        elif record.kind == _DELETE_CLIENT:
            clients.pop(_parsed(ClientDelete, name, record).id, None)
        else:
            raise _unknown(name, record)
    return clients


def replaySubscriptions(name: str, records: Iterable[TypedRecord]) -> list[SourceSubscription]:
    subscriptions: dict[int, SourceSubscription] = {}
    for record in records:
        replay = _REPLAY.get(record.kind)
        if replay is None:
            raise _unknown(name, record)
        messageClass, apply = replay
        apply(subscriptions, _parsed(messageClass, name, record))
    return list(subscriptions.values())


def _put(subscriptions: dict[int, SourceSubscription], state: Any) -> None:
    subscription = subscriptions.setdefault(state.id, SourceSubscription(state))
    subscription.state = state
    subscription.lastSent = max(subscription.lastSent, state.lastSent)


def _delete(subscriptions: dict[int, SourceSubscription], deleted: Any) -> None:
    subscriptions.pop(deleted.id, None)


def _acknowledge(subscriptions: dict[int, SourceSubscription], update: Any) -> None:
    subscription = subscriptions.get(update.id)
    if subscription is not None:
        subscription.pending.discard(update.seqno)


def _send(subscriptions: dict[int, SourceSubscription], update: Any) -> None:
    subscription = subscriptions.get(update.id)
    if subscription is not None:
        subscription.pending.add(update.seqno)
        subscription.lastSent = max(subscription.lastSent, update.seqno)


_REPLAY: dict[int, tuple[Any, Callable[[dict[int, SourceSubscription], Any], None]]] = {
    _NEW: (SubState, _put),
    _UPDATE: (SubState, _put),
    _DELETE: (SubStateDelete, _delete),
    _ACK: (SubStateUpdate, _acknowledge),
    _SENT: (SubStateUpdate, _send),
}


def _parsed(messageClass: Any, name: str, record: TypedRecord) -> Any:
    try:
        return messageClass.FromString(record.payload)
    except Malformed:
        raise SourceError(f"{name}: the record at {record.offset} is not a message") from None


def _unknown(name: str, record: TypedRecord) -> SourceError:
    return SourceError(f"{name}: the record at {record.offset} has unknown type {record.kind}")
