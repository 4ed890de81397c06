"""
The rules of a consumer's configuration: defaults and refusals. The checks run in nats-server's
order, because the first one that fails is the answer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.consumerconfig import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
)
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import goQuoted
from natsbroker.jetstream.model.limits import ConfiguredLimits, JetStreamLimits
from natsbroker.jetstream.model.names import (
    MOST_DESCRIPTION,
    MOST_METADATA,
    isLiteralSubject,
    isValidGroup,
    isValidName,
    isValidSubjectText,
    metadataSize,
)
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.steps import PIECE, Steps, pieces
from natsbroker.subjects.collisions import firstInside, firstMeeting
from natsbroker.wire.durations import nanosecondsText

_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1_000_000_000
_ACK_WAIT: Final = 30 * _SECOND
_HEARTBEAT: Final = _SECOND
_LEAST_HEARTBEAT: Final = 100 * _MILLISECOND
_PRIORITY_TIMEOUT: Final = 120 * _SECOND
_MAX_ACK_PENDING: Final = 1000
_MAX_WAITING: Final = 512
_NUMBER = re.compile(r"[+-]?[0-9]+")
_WORDS: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
    DeliverPolicy.BY_START_SEQUENCE: "by start sequence",
    DeliverPolicy.BY_START_TIME: "by start time",
}


def _invalid(text: str) -> JetStreamError:
    return errors.STREAM_INVALID_CONFIG(err=text)


def filtersOf(config: ConsumerConfig) -> tuple[str, ...]:
    """The subjects that a consumer delivers; none for all."""
    return (*config.filter_subjects, *([config.filter_subject] if config.filter_subject else []))


def withConsumerDefaults(
    config: ConsumerConfig,
    stream: StreamConfig,
    account: JetStreamLimits,
    server: ConfiguredLimits,
    pedantic: bool = False,
) -> ConsumerConfig:
    """
    Fill in the keys that a request left out.

    @param stream: the stream of the consumer, whose limits are defaults too.
    @param pedantic: whether correcting a wrong value of a request is an error.
    @raise JetStreamError: if the request is pedantic and something was corrected.
    """
    config = _withoutNegatives(config, pedantic)
    if not config.deliver_subject and config.max_waiting == 0:
        config = replace(config, max_waiting=_MAX_WAITING)
    if config.ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        config = replace(config, ack_wait=_ACK_WAIT)
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise errors.PEDANTIC(err="first backoff value has to equal batch AckWait")
        config = replace(config, ack_wait=config.backoff[0])
    config = _withStreamLimits(config, stream, pedantic)
    if config.max_ack_pending == 0 and config.ack_policy is not AckPolicy.NONE:
        bounds = [server.max_ack_pending, account.max_ack_pending, _MAX_ACK_PENDING]
        config = replace(config, max_ack_pending=min(bound for bound in bounds if bound > 0))
    if not config.deliver_subject and config.max_batch == 0 and server.max_request_batch > 0:
        if pedantic:
            text = "max_request_batch must be set if it's JetStream limits are set"
            raise errors.PEDANTIC(err=text)
        config = replace(config, max_batch=server.max_request_batch)
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        config = replace(config, priority_timeout=_PRIORITY_TIMEOUT)
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        config = replace(config, flow_control=True, idle_heartbeat=_HEARTBEAT)
    return config


def _withoutNegatives(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    if pedantic:
        for key, least, rule in (
            ("max_deliver", -1, "be set to -1"),
            ("max_waiting", 0, "not be negative"),
            ("max_ack_pending", -1, "be set to -1"),
            ("max_batch", 0, "not be negative"),
            ("max_expires", 0, "not be negative"),
            ("max_bytes", 0, "not be negative"),
            ("idle_heartbeat", 0, "not be negative"),
            ("inactive_threshold", 0, "not be negative"),
            ("priority_timeout", 0, "not be negative"),
        ):
            if getattr(config, key) < least:
                raise errors.PEDANTIC(err=f"{key} must {rule}")
    return replace(
        config,
        max_deliver=config.max_deliver if config.max_deliver > 0 else -1,
        max_waiting=max(config.max_waiting, 0),
        max_ack_pending=max(config.max_ack_pending, -1),
        max_batch=max(config.max_batch, 0),
        max_expires=max(config.max_expires, 0),
        max_bytes=max(config.max_bytes, 0),
        idle_heartbeat=max(config.idle_heartbeat, 0),
        inactive_threshold=max(config.inactive_threshold, 0),
        priority_timeout=max(config.priority_timeout, 0),
    )


def _withStreamLimits(
    config: ConsumerConfig, stream: StreamConfig, pedantic: bool
) -> ConsumerConfig:
    limits = stream.consumer_limits
    unset = " must be set if it's configured in stream limits"
    if config.max_ack_pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise errors.PEDANTIC(err=f"max_ack_pending{unset}")
        config = replace(config, max_ack_pending=limits.max_ack_pending)
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise errors.PEDANTIC(err=f"inactive_threshold{unset}")
        config = replace(config, inactive_threshold=limits.inactive_threshold)
    return config


def checkConsumer(
    config: ConsumerConfig,
    stream: StreamConfig,
    account: JetStreamLimits,
    server: ConfiguredLimits,
) -> Steps[None]:
    """Check a configuration with its defaults; L{JetStreamError} at the first broken rule."""
    _checkNames(config)
    _checkReplicas(config, stream)
    _checkAcks(config)
    if len(config.description.encode()) > MOST_DESCRIPTION:
        raise errors.CONSUMER_DESCRIPTION_TOO_LONG(max=MOST_DESCRIPTION)
    if config.deliver_subject:
        yield from _checkPush(config, stream)
    else:
        _checkPull(config, stream, server)
    _checkLimits(config, stream, account, server)
    _checkDirect(config)
    yield from _checkFilters(config)
    _checkStart(config)
    sampleRate(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise errors.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS()
    if config.durable_name and config.name and config.durable_name != config.name:
        raise errors.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH()
    if metadataSize(config.metadata) > MOST_METADATA:
        raise errors.CONSUMER_METADATA_LENGTH(limit=f"{MOST_METADATA // 1024}KB")
    yield from _checkGroups(config)


def _checkNames(config: ConsumerConfig) -> None:
    for name, what in ((config.name, "name"), (config.durable_name, "durable name")):
        if name and not isValidName(name):
            raise _invalid(f"consumer {what} can not contain '.', '*', '>', '\\', '/'")


def _checkReplicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > stream.num_replicas:
        raise errors.CONSUMER_REPLICAS_EXCEEDS_STREAM()
    if config.num_replicas < 0:
        raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE()
    mustMatch = stream.retention is not RetentionPolicy.LIMITS
    if mustMatch and config.num_replicas not in (0, stream.num_replicas):
        raise errors.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM()


def _checkAcks(config: ConsumerConfig) -> None:
    if min(config.backoff, default=0) < 0:
        raise errors.CONSUMER_BACKOFF_NEGATIVE()
    if config.ack_wait < 0:
        raise errors.CONSUMER_ACK_WAIT_NEGATIVE()
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        _checkFlowControlAcks(config)
    if config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise errors.CONSUMER_MAX_DELIVER_BACKOFF()


def _checkFlowControlAcks(config: ConsumerConfig) -> None:
    """Check a consumer whose acknowledgements are the answers to flow control."""
    if not config.deliver_subject:
        raise errors.CONSUMER_ACK_FC_REQUIRES_PUSH()
    if not config.flow_control:
        raise errors.CONSUMER_ACK_FC_REQUIRES_FC()
    if config.idle_heartbeat != _HEARTBEAT:
        raise _invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise errors.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING()
    if config.ack_wait or config.backoff:
        raise errors.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT()
    if config.max_deliver > 0:
        raise errors.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER()


def _checkPush(config: ConsumerConfig, stream: StreamConfig) -> Steps[None]:
    subject = config.deliver_subject
    if not isLiteralSubject(subject):
        raise errors.CONSUMER_DELIVER_TO_WILDCARDS()
    if not isValidSubjectText(subject):
        raise errors.CONSUMER_INVALID_DELIVER_SUBJECT()
    theirs = [filter_.encode() for filter_ in stream.subjects]
    if (yield from firstMeeting([subject.encode()], theirs)) is not None:
        raise errors.CONSUMER_DELIVER_CYCLE()
    if config.max_waiting:
        raise errors.CONSUMER_PUSH_MAX_WAITING()
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise errors.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED()
    if 0 < config.idle_heartbeat < _LEAST_HEARTBEAT:
        raise errors.CONSUMER_SMALL_HEARTBEAT()


def _checkPull(config: ConsumerConfig, stream: StreamConfig, server: ConfiguredLimits) -> None:
    isQueue = stream.retention is RetentionPolicy.WORKQUEUE
    for isWrong, row in (
        (
            isQueue and config.ack_policy is AckPolicy.NONE,
            errors.CONSUMER_PULL_REQUIRES_ACK,
        ),
        (config.rate_limit_bps > 0, errors.CONSUMER_PULL_WITH_RATE_LIMIT),
        (config.idle_heartbeat > 0, errors.CONSUMER_HB_REQUIRES_PUSH),
        (config.flow_control, errors.CONSUMER_FC_REQUIRES_PUSH),
        (
            0 < config.max_expires < _MILLISECOND,
            errors.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL,
        ),
    ):
        if isWrong:
            raise row()
    if 0 < server.max_request_batch < config.max_batch:
        raise errors.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED(limit=server.max_request_batch)


def _checkLimits(
    config: ConsumerConfig,
    stream: StreamConfig,
    account: JetStreamLimits,
    server: ConfiguredLimits,
) -> None:
    limits = stream.consumer_limits
    for most in (server.max_ack_pending, account.max_ack_pending, limits.max_ack_pending):
        if 0 < most < config.max_ack_pending:
            raise errors.CONSUMER_MAX_PENDING_ACK_EXCESS(limit=most)
    if 0 < limits.inactive_threshold < config.inactive_threshold:
        limit = nanosecondsText(limits.inactive_threshold)
        raise errors.CONSUMER_INACTIVE_THRESHOLD_EXCESS(limit=limit)


def _checkDirect(config: ConsumerConfig) -> None:
    if not config.direct:
        return
    if not config.deliver_subject:
        raise errors.CONSUMER_DIRECT_REQUIRES_PUSH()
    if config.durable_name:
        raise errors.CONSUMER_DIRECT_REQUIRES_EPHEMERAL()


def _checkFilters(config: ConsumerConfig) -> Steps[None]:
    if config.filter_subject and config.filter_subjects:
        raise errors.CONSUMER_DUPLICATE_FILTER_SUBJECTS()
    if config.filter_subject and not isValidSubjectText(config.filter_subject):
        raise _invalid("invalid subject")
    if "" in config.filter_subjects:
        raise errors.CONSUMER_EMPTY_FILTER()
    filters = filtersOf(config)
    valid: list[tuple[int, bytes]] = []
    odd = len(filters)
    for some in pieces(list(enumerate(filters))):
        for place, subject in some:
            if isValidSubjectText(subject):
                valid.append((place, subject.encode()))
            else:
                odd = min(odd, place)
        yield
    # A valid subject never lies within an invalid pattern, so only the valid ones are compared.
    inside = yield from firstInside(valid)
    if inside is not None and inside < odd:
        raise errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS()
    if odd < len(filters):
        raise _invalid("invalid subject")


def _checkStart(config: ConsumerConfig) -> None:
    """Check that the start of a consumer fits its policy."""
    policy, word = config.deliver_policy, _WORDS[config.deliver_policy]
    hasSequence, hasTime = config.opt_start_seq > 0, config.opt_start_time is not None
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        if not hasSequence:
            raise _unset(word, "start sequence")
        if hasTime:
            raise _alsoSet(word, "time")
    elif policy is DeliverPolicy.BY_START_TIME:
        if not hasTime:
            raise _unset(word, "start time")
        if hasSequence:
            raise _alsoSet(word, "start sequence")
    else:
        if hasSequence:
            raise _alsoSet(word, "sequence")
        if hasTime:
            raise _alsoSet(word, "time")
        if policy is DeliverPolicy.LAST_PER_SUBJECT and not filtersOf(config):
            raise _unset(word, "filter subject")


def _alsoSet(word: str, what: str) -> JetStreamError:
    policy = f"consumer delivery policy is deliver {word}"
    return errors.CONSUMER_INVALID_POLICY(err=f"{policy}, but optional start {what} is also set")


def _unset(word: str, what: str) -> JetStreamError:
    policy = f"consumer delivery policy is deliver {word}"
    return errors.CONSUMER_INVALID_POLICY(err=f"{policy}, but optional {what} is not set")


def sampleRate(config: ConsumerConfig) -> int:
    """The percentage of acknowledgements that are reported; L{JetStreamError} if it is invalid."""
    text = config.sample_freq
    if not text:
        return 0
    text = text.removesuffix("%")
    problem = ""
    if not _NUMBER.fullmatch(text):
        problem = "invalid syntax"
    elif len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
        problem = "value out of range"
    elif int(text) >= 0:
        return int(text)
    shown = f"strconv.Atoi: parsing {goQuoted(text)}: {problem}" if problem else "<nil>"
    raise errors.CONSUMER_INVALID_SAMPLING(err=shown)


def _checkGroups(config: ConsumerConfig) -> Steps[None]:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise errors.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE()
        if config.priority_timeout > 0:
            raise errors.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE()
        return
    if config.deliver_subject:
        raise errors.CONSUMER_PUSH_WITH_PRIORITY_GROUP()
    if not config.priority_groups:
        raise errors.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP()
    for number, group in enumerate(config.priority_groups):
        if number % PIECE == 0:
            yield
        if not group:
            raise errors.CONSUMER_EMPTY_GROUP_NAME()
        if not isValidGroup(group):
            raise errors.CONSUMER_INVALID_GROUP_NAME()
