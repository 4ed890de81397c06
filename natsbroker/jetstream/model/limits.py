"""
The limits that an account and the server set for streams and consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig

DEFAULT_MAX_CONSUMERS: Final = 1000
"""The number of consumers of a stream that no setting limits."""


@dataclass(frozen=True)
class JetStreamLimits:
    """
    The limits of an account, with the keys and the order of its information.

    @ivar max_memory: bytes; like the others, -1 is no limit.
    """

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False

    def toJSON(self) -> dict[str, Any]:
        """The limits in the order of the wire."""
        return asdict(self)

    def maxStreamBytes(self, storage: StorageType) -> int:
        """The largest C{max_bytes} of a stream."""
        if storage is StorageType.MEMORY:
            return self.memory_max_stream_bytes
        return self.storage_max_stream_bytes

    def total(self, storage: StorageType) -> int:
        """The bytes that all streams may use together."""
        return self.max_memory if storage is StorageType.MEMORY else self.max_storage


NOTHING: Final = JetStreamLimits(0, 0, 0, 0, 0, 0, 0)
"""The limits that infos show for an account with tiers."""


@dataclass(frozen=True)
class AccountAllowance:
    """
    The limits of an account, perhaps by tier.

    @ivar tiers: by name, such as C{R1} for streams with one replica; if there are any, C{limits}
        does not hold.
    """

    limits: JetStreamLimits = JetStreamLimits()
    tiers: Mapping[str, JetStreamLimits] = field(default_factory=dict)

    def effective(self, replicas: int = 1) -> JetStreamLimits:
        """The limits of streams with a number of replicas."""
        return self.tiers.get(f"R{replicas or 1}", NOTHING) if self.tiers else self.limits

    def check(self, replicas: int) -> None:
        """
        Check streams with a number of replicas; L{errors.JetStreamError} if no tier fits them.
        """
        if self.tiers and f"R{replicas or 1}" not in self.tiers:
            raise errors.NO_LIMITS()


@dataclass(frozen=True)
class StorageBounds:
    """
    The limits of one kind of storage, where -1 is none, and the bytes that are in use.

    @ivar serverUsed: by the streams of all accounts.
    @ivar accountUsed: by those of one account.
    """

    server: int
    serverUsed: int
    account: int
    accountUsed: int

    def room(self) -> int | None:
        """The bytes that are left: negative if too many are used, C{None} without a limit."""
        pairs = ((self.server, self.serverUsed), (self.account, self.accountUsed))
        return min((limit - used for limit, used in pairs if limit >= 0), default=None)


@dataclass(frozen=True)
class ConfiguredLimits:
    """
    The limits in the block C{limits} of the configuration, where zero is no limit, and the
    remaining space.

    @ivar max_memory: bytes that all streams in memory may reserve together; -1 is no limit.
    @ivar max_storage: the same for files.
    @ivar default_max_consumers: consumers of a stream where neither it nor its account has a limit;
        below zero for any number.
    @ivar reserved: gives the bytes of a storage that all streams reserve.
    """

    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window: int = 0
    default_max_consumers: int = DEFAULT_MAX_CONSUMERS
    max_memory: int = -1
    max_storage: int = -1
    reserved: Callable[[StorageType], int] = field(default=lambda storage: 0, compare=False)

    def total(self, storage: StorageType) -> int:
        """The bytes that all streams may use together; -1 is no limit."""
        return self.max_memory if storage is StorageType.MEMORY else self.max_storage

    def left(self, storage: StorageType) -> int | None:
        """The bytes that a new stream could reserve; C{None} for any number."""
        total = self.total(storage)
        return None if total < 0 else max(total - self.reserved(storage), 0)

    def after(self, reserved: Callable[[StorageType], int]) -> ConfiguredLimits:
        """
        @param reserved: the bytes of a storage that the streams of all accounts reserve. It looks
            at each stream. So it is called only when a stream is checked, for that stream's kind of
            storage, and if that is limited.
        """
        return replace(self, reserved=reserved)


NO_ACCOUNT_LIMITS: Final = JetStreamLimits()
NO_SERVER_LIMITS: Final = ConfiguredLimits()


def checkLimits(
    config: StreamConfig,
    account: JetStreamLimits,
    server: ConfiguredLimits,
    reserved: int,
    more: int,
) -> None:
    """
    Check a stream against the limits; L{errors.JetStreamError} if it asks for too much.

    @param reserved: bytes that the account's other streams of this storage reserve.
    @param more: bytes that this stream would add; below 0 counts as one byte.
    """
    if 0 < account.max_consumers < config.max_consumers:
        raise errors.MAXIMUM_CONSUMERS_LIMIT()
    more = 1 if more < 0 else more
    total, left = account.total(config.storage), server.left(config.storage)
    if (0 <= total < reserved + more) or (left is not None and more > left):
        if config.storage is StorageType.MEMORY:
            raise errors.MEMORY_RESOURCES_EXCEEDED()
        raise errors.STORAGE_RESOURCES_EXCEEDED()
