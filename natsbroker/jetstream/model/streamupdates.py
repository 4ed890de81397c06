"""
The checks of requests to create or change a stream, against the account's other streams and the
present configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import StreamRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import checkLimits
from natsbroker.jetstream.model.metadata import withLevel, withLevelOf
from natsbroker.jetstream.model.sourcechecks import checkFilters, mappingText
from natsbroker.jetstream.model.streamchecks import StreamChecker, checkCreateRequest
from natsbroker.jetstream.model.streamconfig import (
    DiscardPolicy,
    Republish,
    RetentionPolicy,
    StreamConfig,
)
from natsbroker.steps import Steps
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.transforms import SubjectTransform


def _invalid(text: str) -> JetStreamError:
    return errors.STREAM_INVALID_CONFIG(err=text)


def isIdenticalStream(config: StreamConfig, stored: StreamConfig) -> bool:
    """Whether a complete configuration is that of a stream, apart from the server's metadata."""
    return encodable(withLevelOf(config, stored)) == encodable(stored)


def createdStream(request: StreamRequest, name: str, checker: StreamChecker) -> Steps[StreamConfig]:
    """
    The stream that a request to create one asks for.

    @param name: of the stream, as the subject of the request has it.
    @return: the configuration to store, or that of the stream if it exists and is the same.
    @raise JetStreamError: what the request is answered with.
    """
    config = withLevel(request.config)
    checkCreateRequest(config, name)
    reserved = checker.reserved(config.storage, name)
    if 0 < checker.account.max_streams <= checker.count(name):
        raise errors.MAXIMUM_STREAMS_LIMIT()
    sizes = (reserved, config.max_bytes) if request.namesStorage else (0, 0)
    checkLimits(config, checker.account, checker.server, *sizes)
    config = yield from checker.complete(config, request.pedantic)
    _checkReplicas(config, checker)
    stored = checker.streams.get(config.name)
    if stored is not None:
        if isIdenticalStream(config, stored):
            return stored
        raise errors.STREAM_NAME_EXIST()
    if checker.members is not None:
        checker.members.check(config)
    checkLimits(config, checker.account, checker.server, reserved, config.max_bytes)
    checkFilters(config)
    yield from _checkOverlap(config, checker)
    return config


def updatedStream(
    request: StreamRequest,
    name: str,
    checker: StreamChecker,
    consumers: Mapping[str, ConsumerConfig],
) -> Steps[StreamConfig]:
    """
    The configuration that a request to change a stream asks for.

    @param name: of the stream, as the subject of the request has it.
    @param consumers: of the stream, by name.
    @return: the configuration to store.
    @raise JetStreamError: what the request is answered with.
    """
    config = yield from checker.complete(request.config, request.pedantic)
    if config.name != name:
        raise errors.STREAM_MISMATCH()
    stored = checker.streams.get(name)
    if stored is None:
        raise errors.STREAM_NOT_FOUND()
    config = yield from checker.complete(withLevel(config), request.pedantic)
    _checkReplicas(config, checker)
    isMoved = (config.num_replicas, config.placement) != (stored.num_replicas, stored.placement)
    if checker.members is not None and isMoved:
        checker.members.check(config)
    _checkChange(config, stored)
    if config.sealed:
        config = replace(
            config,
            max_age=0,
            discard=DiscardPolicy.NEW,
            deny_delete=True,
            deny_purge=True,
            allow_rollup_hdrs=False,
        )
    more = max(max(config.max_bytes, 0) - max(stored.max_bytes, 0), 0)
    reserved = checker.reserved(config.storage, name)
    reserved += max(config.max_bytes, 0) - more
    checkLimits(config, checker.account, checker.server, reserved, more)
    _checkConsumers(config, stored, consumers)
    yield from _checkOverlap(config, checker)
    if config.republish is not None and not config.republish.dest:
        config = replace(config, republish=_everywhere(config.republish))
    return config


def _checkReplicas(config: StreamConfig, checker: StreamChecker) -> None:
    """Raise L{JetStreamError} if several replicas are asked for where there is no cluster."""
    if config.num_replicas > 1 and checker.members is None:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED()


def _everywhere(republish: Republish) -> Republish:
    """The directive with C{>} in place of a missing destination. Only an update fills this in."""
    try:
        SubjectTransform(republish.src.encode(), b">")
    except InvalidMapping as error:
        text = f"stream configuration for republish from '{republish.src}' to '>'"
        raise errors.STREAM_UPDATE(err=f"{text}: {mappingText(error)}") from error
    return replace(republish, dest=">")


def _checkChange(config: StreamConfig, stored: StreamConfig) -> None:
    """Raise L{JetStreamError} if the change is not possible."""
    if config.storage is not stored.storage:
        raise _invalid("stream configuration update can not change storage type")
    retentions = (config.retention, stored.retention)
    if config.retention is not stored.retention and RetentionPolicy.WORKQUEUE in retentions:
        raise _invalid(
            "stream configuration update can not change retention policy to/from workqueue"
        )
    if stored.sealed and not config.sealed:
        raise _invalid("stream configuration update can not unseal a sealed stream")
    if stored.deny_delete and not config.deny_delete:
        raise _invalid("stream configuration update can not cancel deny message deletes")
    if stored.deny_purge and not config.deny_purge:
        raise _invalid("stream configuration update can not cancel deny purge")
    if config.mirror is not None and config.mirror != stored.mirror:
        raise errors.STREAM_MIRROR_NOT_UPDATABLE()
    if stored.allow_msg_ttl and not config.allow_msg_ttl:
        raise _invalid("message TTL status can not be disabled")
    if config.allow_msg_counter != stored.allow_msg_counter:
        raise _invalid("stream configuration update can not change message counter setting")
    if stored.allow_msg_schedules and not config.allow_msg_schedules:
        raise _invalid("message schedules can not be disabled")
    if config.persist_mode is not stored.persist_mode:
        raise _invalid("stream configuration update can not change persist mode")


def _checkConsumers(
    config: StreamConfig, stored: StreamConfig, consumers: Mapping[str, ConsumerConfig]
) -> None:
    """Raise L{JetStreamError} if there are consumers beyond new limits."""
    new, old = config.consumer_limits, stored.consumer_limits
    if new == old:
        return
    beyond = [
        name
        for name, consumer in sorted(consumers.items())
        if 0 < new.inactive_threshold < consumer.inactive_threshold
        or 0 < new.max_ack_pending < consumer.max_ack_pending
    ]
    if beyond:
        text = f"change to limits violates consumers: {', '.join(beyond)}"
        raise errors.STREAM_UPDATE(err=text)


def _checkOverlap(config: StreamConfig, checker: StreamChecker) -> Steps[None]:
    """Raise L{JetStreamError} if another stream of the account takes some of the subjects."""
    if (yield from checker.isTaken(config.subjects, config.name)):
        raise errors.STREAM_SUBJECT_OVERLAP()
