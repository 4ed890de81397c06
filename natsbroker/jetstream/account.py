"""
The JetStream of one account.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces import IMessageBus, IStateStore
from natsbroker.jetstream.accountcore import UNLIMITED, JetStreamAccountCore, JetStreamServer
from natsbroker.jetstream.damage import DamagedStreams
from natsbroker.jetstream.model.consumerupdates import ConsumerChecker
from natsbroker.jetstream.model.limits import AccountAllowance, ConfiguredLimits
from natsbroker.jetstream.model.members import JetStreamPeers
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.jetstream.streamtable import StreamConfigs, StreamTable
from natsbroker.subjects.collisionindex import CollisionIndex


class JetStreamAccount(JetStreamAccountCore):
    """
    The streams of one account, and what the API needs of them.

    @ivar allowance: what the account may use; it may change.
    @ivar damaged: the streams that cannot be served.
    @ivar damagedConsumers: the keys of consumers whose configuration cannot be read.
    @ivar opening: the names of streams that are being created.
    @ivar changing: the configurations of streams that are being created or changed. Other
        configurations are checked against these too.
    @ivar changes: how often a stream began to be created or changed.
    @ivar subjects: the subjects of all streams, as far as checks have needed them.
    @ivar requests: API requests so far.
    @ivar failures: API requests so far that were answered with an error.
    """

    streams: StreamTable[Stream]
    reserving: WeakSet[Stream]

    def __init__(
        self,
        name: str,
        bus: IMessageBus,
        server: JetStreamServer,
        allowance: AccountAllowance = UNLIMITED,
        turns: AccountTurns | None = None,
    ) -> None:
        super().__init__(name, bus, server, allowance, turns)
        self.states: IStateStore = CopiedStates(self.files.states(f"jetstream/{name}"))
        self.damaged = DamagedStreams()
        self.damagedConsumers: set[bytes] = set()
        self.opening: set[str] = set()
        self.changing: dict[str, StreamConfig] = {}
        self.changes = 0
        self.subjects = CollisionIndex()
        self.requests = 0
        self.failures = 0

    @property
    def members(self) -> JetStreamPeers | None:
        """The brokers of the cluster that serve the account; C{None} for one that is alone."""
        return None if self.cluster is None else self.cluster.members

    def allow(self, allowance: AccountAllowance) -> None:
        """Change what the account may use."""
        self.allowance = allowance
        self._reconfigure()

    def configure(self, limits: ConfiguredLimits) -> None:
        """Change what all accounts may use together."""
        self.configuredLimits = limits
        self._reconfigure()

    def _reconfigure(self) -> None:
        self._looks.clear()
        for stream in self.streams.values():
            stream.publisher.applyConfig()

    @property
    def serverLimits(self) -> ConfiguredLimits:
        """
        The limits of the server: L{configuredLimits}, reduced by the use of other accounts'
        streams.
        """
        every = {**self._others, self.name: self}.values()

        def reserved(storage: StorageType) -> int:
            here: int = sum(other.reserved(storage) for other in every)
            return here + (0 if self.cluster is None else self.cluster.reservedElsewhere(storage))

        return self.configuredLimits.after(reserved)

    def consumerChecker(self, stream: Stream) -> ConsumerChecker:
        return ConsumerChecker(
            stream.config,
            stream.consumers.configs,
            lambda subject: self.bus.hasInterest(subject.encode()),
            self.limits,
            self.configuredLimits,
        )

    @contextmanager
    def change(self, config: StreamConfig) -> Iterator[None]:
        """Reserve the name, subjects and space of a configuration while it is made durable."""
        self.changes += 1
        self.changing[config.name] = config
        self.streams.changed.add(config.name)
        try:
            yield
        finally:
            del self.changing[config.name]
            self.streams.changed.add(config.name)

    @property
    def configs(self) -> StreamConfigs:
        """
        The configurations of the streams that this broker serves, also of those that it is creating
        or changing.
        """
        return StreamConfigs(self.streams, self.changing)

    def reserved(self, storage: StorageType) -> int:
        """The bytes that streams of one kind of storage reserve by their C{max_bytes}."""
        configs = self.sized().values()
        return sum(config.max_bytes for config in configs if config.storage is storage)

    def sized(self) -> dict[str, StreamConfig]:
        """The configurations of the streams that reserve space, by name."""
        changing = self.changing
        configs = {
            stream.name: stream.config
            for stream in self.reserving
            if stream.config.max_bytes > 0
            and not stream.isChannel
            and self.streams.get(stream.name) is stream
            and stream.name not in changing
        }
        configs.update((name, config) for name, config in changing.items() if config.max_bytes > 0)
        return configs
