"""
The durable state of the service beside the channels' logs: clients, subscriptions, positions.

A client or a subscription is durable, or removed durably, when the Deferred fires. Positions and
acknowledgements are written a little later, those of a group in one write. So after an unexpected
end the service may redeliver messages that were acknowledged just before, but never skips one.
While the store takes no writes, removals of clients and subscriptions wait until it does.

Keys: C{service}; C{client/ID}; C{subscription/NUMBER}; C{import}, written by
L{natsbroker.streaming.filestore.importer}.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.interfaces import IStateStore
from natsbroker.interfaces.records import StoreError, UnknownFormat
from natsbroker.runtime.deadlines import Deadline, Deadlines
from natsbroker.streaming.model import ChannelSubscription, Group, StreamingClient
from natsbroker.streaming.protocol import Malformed, messageClasses

_log = Logger(namespace="natsbroker.streaming")

#: The version of this format. A service does not change a state that it does not understand.
FORMAT = 1

#: Seconds until progress is written down.
DELAY = 0.2

#: Seconds after which what could not be written is tried again.
RETRY = 1.0

#: The messages that a group may receive beyond its stored position, if it acknowledges them. A
#: group that does not receives no more than it has room for.
ANNOUNCED = 1024

_classes = messageClasses("natsbroker.streaming", "state")

ServiceState: Any = _classes["ServiceState"]
ImportState: Any = _classes["ImportState"]
ClientState: Any = _classes["ClientState"]
SubscriptionState: Any = _classes["SubscriptionState"]

SERVICE_KEY = b"service"
IMPORT_KEY = b"import"
_CLIENT = b"client/"
_SUBSCRIPTION = b"subscription/"


def ledgerSpace(clusterId: str) -> str:
    return f"stan/{clusterId}"


class Remembered(NamedTuple):
    clients: list[Any]
    subscriptions: list[Any]


class Ledger:
    def __init__(self, states: IStateStore, deadlines: Deadlines) -> None:
        self._states = states
        self._deadlines = deadlines
        self._touched: dict[int, ChannelSubscription] = {}
        self._owed: dict[bytes, bytes | None] = {}
        self._writing: dict[bytes, int] = {}
        self._writes = 0
        self._isFinal = False
        self._timer: Deadline | None = None

    async def load(self) -> Remembered:
        """
        Load the state. L{UnknownFormat} for another version, L{StoreError} for an unfinished
        import.
        """
        values: dict[bytes, bytes] = await self._states.load()
        if IMPORT_KEY in values:
            imported = _read(ImportState, IMPORT_KEY, values[IMPORT_KEY])
            if imported is None or not imported.isFinished:
                raise StoreError(
                    "an import into this store was begun and not finished: run it again"
                )
        if SERVICE_KEY not in values:
            await self._states.put(SERVICE_KEY, ServiceState(format=FORMAT).SerializeToString())
            return Remembered([], [])
        written = _read(ServiceState, SERVICE_KEY, values[SERVICE_KEY])
        if written is None or written.format != FORMAT:
            raise UnknownFormat("the state of the streaming service has an unknown format")
        clients = [_read(ClientState, *item) for item in values.items() if _isA(_CLIENT, item)]
        items = [item for item in values.items() if _isA(_SUBSCRIPTION, item)]
        subscriptions = [_read(SubscriptionState, *item) for item in items]
        return Remembered(
            [client for client in clients if client is not None],
            [subscription for subscription in subscriptions if subscription is not None],
        )

    def clientCame(self, client: StreamingClient) -> Deferred[None]:
        return self._write({clientKey(client.clientID): _clientState(client)})

    def clientWent(
        self, client: StreamingClient, ended: Iterable[ChannelSubscription] = ()
    ) -> Deferred[None]:
        changes: dict[bytes, bytes | None] = {clientKey(client.clientID): None}
        changes.update(self._gone(ended))
        return self._write(changes)

    def changed(self, subscription: ChannelSubscription) -> Deferred[None]:
        self._touched[subscription.number] = subscription
        return self._write({})

    def ended(self, subscriptions: Iterable[ChannelSubscription]) -> Deferred[None]:
        return self._write(self._gone(subscriptions))

    def _gone(self, subscriptions: Iterable[ChannelSubscription]) -> dict[bytes, bytes | None]:
        changes: dict[bytes, bytes | None] = {}
        for subscription in subscriptions:
            self._touched.pop(subscription.number, None)
            changes[subscriptionKey(subscription.number)] = None
        return changes

    def touched(self, subscription: ChannelSubscription) -> None:
        self._touched[subscription.number] = subscription
        group = subscription.group
        self._schedule(DELAY if group.lastSent < group.announced else 0.0)

    def settled(self, subscription: ChannelSubscription) -> None:
        subscription.group.settledAt = self._deadlines.now()
        self.touched(subscription)

    def _schedule(self, delay: float) -> None:
        """Write progress after a delay in seconds, or at once if it is 0."""
        if self._timer is None:
            self._timer = self._deadlines.after(delay, self._due)
        elif not delay and self._timer.when > self._deadlines.now():
            self._timer.cancel()
            self._timer = self._deadlines.after(0.0, self._due)

    def _due(self) -> None:
        self._timer = None
        self.flush().addErrback(lambda failure: None)

    def flush(self) -> Deferred[None]:
        return self._write({}) if self._touched or self._owed else succeed(None)

    def finish(self, subscriptions: Iterable[ChannelSubscription]) -> Deferred[None]:
        """Write everything as it is now, for the last time. Nothing is sent from now on."""
        self._isFinal = True
        self._touched.update((subscription.number, subscription) for subscription in subscriptions)
        return self.flush()

    def _write(self, changes: dict[bytes, bytes | None]) -> Deferred[None]:
        touched, self._touched = self._touched, {}
        owed, self._owed = self._owed, {}
        touched |= self._tightened({member.group for member in touched.values()})
        for number, subscription in touched.items():
            state = _subscriptionState(subscription, self._isFinal)
            changes.setdefault(subscriptionKey(number), state)
        changes = {**owed, **changes}
        if not changes:
            return succeed(None)
        self._writes += 1
        self._writing.update(dict.fromkeys(changes, self._writes))
        writing = self._states.change(changes)
        writing.addBoth(self._written, changes, self._writes)
        return writing.addErrback(self._failed, touched)

    def _tightened(self, groups: Iterable[Group]) -> dict[int, ChannelSubscription]:
        """
        Find out how much may be sent to groups before they are written again. Groups that
        acknowledge may get much more than they have room for now. When they stop acknowledging, it
        is written that nothing more is sent to them. So after an unexpected end, no message is
        marked as redelivered that was never sent.

        @return: further subscriptions to write, by number.
        """
        more: dict[int, ChannelSubscription] = {}
        for group in groups:
            isFlowing = self._deadlines.now() - group.settledAt < DELAY
            if isFlowing and not self._isFinal:
                self._touched.update((member.number, member) for member in group.members)
                self._schedule(DELAY)
            elif group.isFlowing:
                more.update((member.number, member) for member in group.members)
            group.isFlowing = isFlowing
        return more

    def _written(
        self, result: Failure | None, changes: dict[bytes, bytes | None], write: int
    ) -> Failure | None:
        """
        Remember deletions and new clients whose write failed, unless a later write has their key.
        """
        for key, value in changes.items():
            if self._writing.get(key) == write:
                del self._writing[key]
                isOwed = value is None or key.startswith(_CLIENT)
                if isOwed and isinstance(result, Failure):
                    self._owed[key] = value
        return result

    def _failed(self, failure: Failure, touched: dict[int, ChannelSubscription]) -> Failure:
        if not isinstance(failure.value, StoreError):
            return failure
        for number, subscription in touched.items():
            if subscription in subscription.group.subscriptions:
                self._touched.setdefault(number, subscription)
        if self._timer is None:
            self._timer = self._deadlines.after(RETRY, self._due)
        return failure


def _isA(prefix: bytes, item: tuple[bytes, bytes]) -> bool:
    return item[0].startswith(prefix)


def _read(stateClass: Any, key: bytes, value: bytes) -> Any:
    try:
        return stateClass.FromString(value)
    except Malformed:
        _log.error("The streaming service cannot read its note {key}", key=key.decode())
        return None


def clientKey(clientID: str) -> bytes:
    name = clientID.encode("ascii")
    return _CLIENT + (name if len(name) <= 200 else b"sha256:" + sha256(name).hexdigest().encode())


def subscriptionKey(number: int) -> bytes:
    return _SUBSCRIPTION + b"%016x" % number


def _clientState(client: StreamingClient) -> bytes:
    state = ClientState(
        clientID=client.clientID,
        heartbeatInbox=client.heartbeatInbox,
        protocol=client.protocol,
        connID=client.connID,
        owner=client.owner,
    )
    encoded: bytes = state.SerializeToString()
    return encoded


def _subscriptionState(subscription: ChannelSubscription, isFinal: bool) -> bytes:
    """The state to write; nothing is sent after a final one."""
    group = subscription.group
    announced = group.lastSent
    if group.members and not isFinal:
        room = sum(max(member.maxInFlight - len(member.pending), 0) for member in group.members)
        announced += max(ANNOUNCED, room) if group.isFlowing else room
    group.announced = announced
    state = SubscriptionState(
        id=subscription.number,
        channel=group.channel.name,
        clientID=subscription.clientID,
        inbox=subscription.inbox.decode(),
        ackInbox=subscription.ackInbox.decode(),
        maxInFlight=subscription.maxInFlight,
        ackWaitInSecs=subscription.ackWaitInSecs,
        durableName=group.durableName,
        queue=group.queue,
        isDurable=group.isDurable,
        isOffline=not subscription.isActive,
        lastSent=group.lastSent,
        mayBeSent=max(announced, group.mayBeSent),
        pending=sorted(subscription.pending),
        owner=subscription.owner,
    )
    encoded: bytes = state.SerializeToString()
    return encoded
