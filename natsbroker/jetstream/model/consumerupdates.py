"""
The checks of requests to create or change a consumer, against the subject of the request, the other
consumers and the present configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import ConsumerAction, ConsumerRequest
from natsbroker.jetstream.model.consumerchecks import (
    checkConsumer,
    filtersOf,
    withConsumerDefaults,
)
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig, DeliverPolicy
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    ConfiguredLimits,
    JetStreamLimits,
)
from natsbroker.jetstream.model.metadata import withLevel, withLevelOf
from natsbroker.jetstream.model.names import MOST_NAME, hasPathSeparator
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.steps import Steps, pieces
from natsbroker.subjects.collisions import firstMeeting
from natsbroker.wire.text import encoded
from natsbroker.wire.timestamps import Timestamp

_EPHEMERAL_THRESHOLD: Final = 5_000_000_000


class CreateForm(Enum):
    """The subjects with which a consumer is created."""

    EPHEMERAL = "CONSUMER.CREATE.<stream>"
    NAMED = "CONSUMER.CREATE.<stream>.<consumer>"
    DURABLE = "CONSUMER.DURABLE.CREATE.<stream>.<consumer>"


def addressedConsumer(
    request: ConsumerRequest,
    form: CreateForm,
    stream: str,
    name: str = "",
    filter_: str = "",
    isClustered: bool = False,
) -> ConsumerRequest:
    """
    Check a request against its subject.

    @param name: of the consumer, as the subject has it.
    @param filter_: the tokens of the subject behind the name.
    @param isClustered: whether several replicas are possible.
    @return: the request with the name that counts.
    @raise errors.JetStreamError: if the request does not fit its subject.
    """
    config = request.config
    if form is CreateForm.EPHEMERAL:
        name = config.name
    if stream != request.stream_name:
        raise errors.STREAM_MISMATCH()
    if hasPathSeparator(name):
        raise errors.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS()
    if form is CreateForm.EPHEMERAL:
        if config.durable_name:
            raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME()
    else:
        if form is CreateForm.DURABLE and not config.durable_name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_SET()
        # The names also differ if the subject is not UTF-8: no JSON could name the consumer.
        if config.durable_name not in ("", name) or encoded(name).decode() != name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT()
        config = replace(config, name=name)
    if filter_ and config.filter_subjects:
        raise errors.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED()
    if filter_ and config.filter_subject != filter_:
        raise errors.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH()
    if config.num_replicas > 1 and not isClustered:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED()
    return replace(request, config=config)


def isIdenticalConsumer(config: ConsumerConfig, stored: ConsumerConfig) -> bool:
    """Whether a complete configuration is that of a consumer, apart from the server's metadata."""
    return encodable(withLevelOf(config, stored)) == encodable(stored)


class ConsumerChecker:
    """The checks of requests to create or change the consumers of one stream."""

    def __init__(
        self,
        stream: StreamConfig,
        consumers: Mapping[str, ConsumerConfig],
        isBound: Callable[[str], bool],
        account: JetStreamLimits = NO_ACCOUNT_LIMITS,
        server: ConfiguredLimits = NO_SERVER_LIMITS,
    ) -> None:
        """
        @param consumers: of the stream, by name, with those of mirrors and sources.
        @param isBound: tells whether a deliver subject has interest.
        """
        self.stream = stream
        self.consumers = consumers
        self.account = account
        self.server = server
        self._isBound = isBound

    def admitted(
        self, request: ConsumerRequest, newName: Callable[[], str]
    ) -> Steps[ConsumerConfig]:
        """
        Check a request and complete its configuration.

        @param request: as L{addressedConsumer} has returned it.
        @param newName: makes a random name.
        @return: the configuration to store. Its durable name or its name is that of the consumer;
            if it has neither, the consumer gets a random name, which the configuration does not
            show. The consumer exists already if its name is among L{consumers}.
        @raise errors.JetStreamError: the answer to a request that is refused.
        """
        config = self._sourcing(request.config, newName)
        stored = self.consumers.get(config.name)
        if stored is not None:
            config = replace(config, pause_until=stored.pause_until)
            if config.sourcing and config.durable_name:
                config = replace(
                    config,
                    deliver_policy=stored.deliver_policy,
                    opt_start_seq=stored.opt_start_seq,
                    opt_start_time=stored.opt_start_time,
                )
        config = withLevel(config)
        limits = (self.stream, self.account, self.server)
        config = withConsumerDefaults(config, *limits, pedantic=request.pedantic)
        yield from checkConsumer(config, *limits)
        name = config.durable_name or config.name
        stored = self.consumers.get(name) if name else None
        if stored is not None:
            return (yield from self._updated(config, stored, request.action))
        if request.action is ConsumerAction.UPDATE:
            raise errors.CONSUMER_DOES_NOT_EXIST()
        if not config.sourcing:
            self._checkCount()
        yield from self._checkQueue(config, name)
        if len(config.durable_name.encode()) > MOST_NAME:
            raise errors.CONSUMER_NAME_TOO_LONG(max=MOST_NAME)
        return _withThreshold(config, config.durable_name)

    def _sourcing(self, config: ConsumerConfig, newName: Callable[[], str]) -> ConsumerConfig:
        """
        The configuration of a mirror's or source's consumer. Each attempt has the same name. The
        name gets a suffix, or the consumer is durable if the stream waits for acknowledgements.
        """
        if not (config.direct and config.sourcing and config.name):
            return config
        if self.stream.retention is RetentionPolicy.LIMITS:
            return replace(config, name=f"{config.name}-{newName()}")
        return replace(
            config,
            direct=False,
            durable_name=config.name,
            ack_policy=AckPolicy.FLOW_CONTROL,
            ack_wait=0,
            max_deliver=0,
            inactive_threshold=0,
        )

    def _updated(
        self, config: ConsumerConfig, stored: ConsumerConfig, action: ConsumerAction
    ) -> Steps[ConsumerConfig]:
        """The configuration that replaces the present one."""
        if action is ConsumerAction.CREATE:
            config = withLevelOf(config, stored)
            if not isIdenticalConsumer(config, stored):
                raise errors.CONSUMER_ALREADY_EXISTS()
        name = config.durable_name or config.name
        if self.stream.retention is RetentionPolicy.WORKQUEUE:
            yield from self._checkUnique(config, name)
        self._checkChange(config, stored)
        if config.pause_until is not None:
            config = replace(config, pause_until=Timestamp(config.pause_until))
        if config.inactive_threshold != stored.inactive_threshold:
            config = _withThreshold(config, stored.durable_name)
        return config

    def _checkChange(self, config: ConsumerConfig, stored: ConsumerConfig) -> None:
        """Raise L{errors.JetStreamError} if the change is not possible."""
        for key, what in (
            ("deliver_policy", "deliver policy"),
            ("mem_storage", "storage type"),
            ("direct", "direct"),
            ("sourcing", "sourcing"),
            ("opt_start_seq", "start sequence"),
            ("opt_start_time", "start time"),
            ("ack_policy", "ack policy"),
            ("replay_policy", "replay policy"),
            ("idle_heartbeat", "heart beats"),
            ("flow_control", "flow control"),
        ):
            if getattr(config, key) != getattr(stored, key):
                raise errors.CONSUMER_CREATE(err=f"{what} can not be updated")
        if config.deliver_subject != stored.deliver_subject:
            if not stored.deliver_subject:
                raise errors.CONSUMER_CREATE(err="can not update pull consumer to push based")
            if not config.deliver_subject:
                raise errors.CONSUMER_CREATE(err="can not update push consumer to pull based")
            if self._isBound(stored.deliver_subject):
                raise errors.CONSUMER_NAME_EXIST()
        if config.max_waiting != stored.max_waiting:
            raise errors.CONSUMER_CREATE(err="max waiting can not be updated")

    def _checkCount(self) -> None:
        """Raise L{errors.JetStreamError} if the stream has its maximum of consumers."""
        most = self.stream.max_consumers
        if most <= 0 or 0 < self.account.max_consumers < most:
            most = self.account.max_consumers
        if most <= 0:
            most = self.server.default_max_consumers
        if 0 < most <= len(self.consumers) and most <= len(self._counted()):
            raise errors.MAXIMUM_CONSUMERS_LIMIT()

    def _counted(self) -> list[str]:
        """The consumers but for those of mirrors and sources."""
        return [
            name
            for name, consumer in self.consumers.items()
            if not consumer.direct and not consumer.sourcing
        ]

    def _checkQueue(self, config: ConsumerConfig, name: str) -> Steps[None]:
        """Raise L{errors.JetStreamError} if a new consumer does not fit into a work queue."""
        if self.stream.retention is not RetentionPolicy.WORKQUEUE:
            return
        if config.direct or config.sourcing:
            return
        if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
            raise errors.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK()
        if config.deliver_policy is not DeliverPolicy.ALL:
            raise errors.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL()
        if self._counted():
            if not filtersOf(config):
                raise errors.CONSUMER_WQ_MULTIPLE_UNFILTERED()
            yield from self._checkUnique(config, name)

    def _checkUnique(self, config: ConsumerConfig, name: str) -> Steps[None]:
        """
        Raise L{errors.JetStreamError} if another consumer of a work queue has the same messages.
        """
        mine = [filter_.encode() for filter_ in filtersOf(config)]
        theirs: list[bytes] = []
        others = [self.consumers[other] for other in self._counted() if mine and other != name]
        for some in pieces(others):
            for other in some:
                filters = filtersOf(other)
                if not filters:
                    raise errors.CONSUMER_WQ_CONSUMER_NOT_UNIQUE()
                theirs += [filter_.encode() for filter_ in filters]
            yield
        if (yield from firstMeeting(mine, theirs)) is not None:
            raise errors.CONSUMER_WQ_CONSUMER_NOT_UNIQUE()


def _withThreshold(config: ConsumerConfig, durable: str) -> ConsumerConfig:
    """
    @param durable: the durable name that the consumer has had until now.
    @return: the configuration with the time after which an unused ephemeral consumer ends.
    """
    if durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=_EPHEMERAL_THRESHOLD)
