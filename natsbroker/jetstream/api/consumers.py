"""
The API requests about consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import SystemRandom
from typing import Any

from twisted.internet.defer import ensureDeferred

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.api.answering import findConsumer, findStream, inTurns, shownConsumer
from natsbroker.jetstream.api.dispatcher import ApiRoute, HeadedResult, Request
from natsbroker.jetstream.consumers.consumer import Consumer, ResetRefused
from natsbroker.jetstream.consumers.core import filtersOf, randomToken
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.answers import LIST_LIMIT, NAMES_LIMIT, page, pauseState
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, PriorityPolicy
from natsbroker.jetstream.model.consumerupdates import (
    CreateForm,
    addressedConsumer,
)
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.requests import (
    parseConsumer,
    parsePage,
    parsePause,
    parseReset,
    parseStepDown,
    parseUnpin,
    requireEmpty,
)
from natsbroker.jetstream.model.sourceconsumers import shortHash
from natsbroker.jetstream.sources.sourcing import IDENTITY
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.recovery import consumerValue, deleteDamagedConsumer
from natsbroker.jetstream.streams.stream import Stream, consumerKeys
from natsbroker.steps import PIECE
from natsbroker.wire.timestamps import ZERO_TIME, formatTime

_RANDOM = SystemRandom()
_NO_PAGE = {"total": 0, "offset": 0, "limit": 0}


def _newName() -> str:
    return randomToken(_RANDOM, 8)


async def _createEphemeral(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    return await _create(account, request, CreateForm.EPHEMERAL)


async def _createNamed(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    return await _create(account, request, CreateForm.NAMED)


async def _createDurable(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    return await _create(account, request, CreateForm.DURABLE)


def _identityOf(stream: Stream, request: Request) -> bytes:
    """
    The header block that names the stream to a mirror or a source. A stream of the same name that
    is created later has another identity.

    @raise errors.JetStreamError: if the request expects another stream.
    """
    identity = shortHash(formatTime(stream.created))
    expected = MessageHeaders(request.message.headers).get(IDENTITY)
    if expected and expected != identity.encode():
        raise errors.CONSUMER_STREAM_IDENTITY_MISMATCH(msg=identity)
    return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (IDENTITY, identity.encode())


async def _create(
    account: JetStreamAccount, request: Request, form: CreateForm
) -> Mapping[str, Any]:
    streamName, name, subjectFilter = (*request.names, "", "")[:3]
    parsed = await account.inSteps(parseConsumer(request.body, account.strict))
    isClustered = account.members is not None
    parsed = addressedConsumer(parsed, form, streamName, name, subjectFilter, isClustered)
    stream = findStream(account, streamName)
    checks = account.consumerChecker(stream)
    isRead = parsed.config.direct or parsed.config.sourcing
    headers = _identityOf(stream, request) if isRead else b""
    if parsed.config.name:
        await request.turn.wait(parsed.config.name)
    config = await account.inSteps(checks.admitted(parsed, _newName))
    filters = filtersOf(config)
    if len(filters) <= PIECE:
        return await _createAdmitted(account, request, stream, config, headers)
    try:
        await account.inSteps(stream.consumers.prepare(filters))
        # Other consumers may have been created meanwhile.
        config = await account.inSteps(checks.admitted(parsed, _newName))
        result = await _createAdmitted(account, request, stream, config, headers)
        # The answer is long too.
        await account.turns.turn()
        return result
    finally:
        stream.consumers.release(filters)


async def _createAdmitted(
    account: JetStreamAccount,
    request: Request,
    stream: Stream,
    config: ConsumerConfig,
    headers: bytes,
) -> Mapping[str, Any]:
    name = config.durable_name or config.name or _newName()
    consumer = stream.consumers.get(name)
    if consumer is None:
        consumer = Consumer(stream, name, config, account.now())
        stream.consumers.add(consumer)
        request.turn.goOn(name)
        await _begin(account, stream, consumer)
        result = {**await shownConsumer(consumer), **consumer.begun}
        return HeadedResult(result, headers) if headers else result
    if not stream.isSettled:
        await stream.settle()
    if config.sourcing:
        # The reader counts deliveries from 1 again, and gets unacknowledged messages again.
        await consumer.reset()
    # An update shows the end of a pause in UTC, even if nothing else changes.
    if encodable(config) != encodable(consumer.config):
        filters = consumer.filters
        updating = consumer.update(config)
        if not config.sourcing:
            request.turn.goOn(name)
        await updating
        await _store(consumer)
        if consumer.filters != filters:
            await stream.interestLost()
    if config.sourcing:
        return HeadedResult({**await shownConsumer(consumer), **consumer.begun}, headers)
    return await shownConsumer(consumer)


async def _begin(account: JetStreamAccount, stream: Stream, consumer: Consumer) -> None:
    """Start a new consumer durably. Earlier publishes are stored before."""
    try:
        if not stream.isSettled:
            await stream.settle()
        if not consumer.isKept:
            await deleteDamagedConsumer(account, stream, consumer.name)
        await consumer.start(_described(consumer))
    except BaseException as error:
        consumer.stop("deleted")
        stream.consumers.remove(consumer)
        if isinstance(error, StoreFailed):
            # The store may have the consumer nevertheless.
            stream.upkeep.keepTrying(stream.forget, consumer)
        raise
    account.damagedConsumers.discard(consumerKeys(stream.name, consumer.name)[0])
    consumer.core.advise("CREATED", "consumer_action", action="create")
    if consumer.core.isPaused:
        consumer.advisePause()
    if account.cluster is not None:
        account.cluster.consumerElected(consumer)


def _described(consumer: Consumer) -> dict[bytes, bytes]:
    """The values that keep a consumer's configuration; none if it ends with its broker."""
    if not consumer.isKept:
        return {}
    return {consumerKeys(consumer.stream.name, consumer.name)[0]: consumerValue(consumer)}


async def _store(consumer: Consumer) -> None:
    """Make the changed configuration of a consumer durable."""
    if described := _described(consumer):
        await consumer.stream.states.change(described)


async def _info(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    requireEmpty(request.body)
    stream = findStream(account, request.names[0])
    consumer = findConsumer(account, *request.names)
    if not stream.isSettled:
        await stream.settle()
    return await shownConsumer(consumer)


async def _delete(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    requireEmpty(request.body)
    stream, name = findStream(account, request.names[0]), request.names[1]
    await request.turn.wait(name)
    if name not in stream.consumers and await deleteDamagedConsumer(account, stream, name):
        return {"success": True}
    consumer = findConsumer(account, *request.names)
    consumer.stop("deleted")
    deleting = ensureDeferred(stream.deleteConsumer(consumer))
    request.turn.goOn(name)
    await deleting
    consumer.core.advise("DELETED", "consumer_action", action="delete")
    return {"success": True}


def _listed(account: JetStreamAccount, name: str) -> list[Consumer]:
    consumers = findStream(account, name).consumers
    return [consumers[key] for key in sorted(consumers) if not consumers[key].config.direct]


async def _names(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parsePage(request.body, account.strict)
    names = [consumer.name for consumer in _listed(account, request.names[0])]
    return page(names, parsed.offset, NAMES_LIMIT, "consumers")


async def _list(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parsePage(request.body, account.strict)
    await findStream(account, request.names[0]).settle()
    shown = page(_listed(account, request.names[0]), parsed.offset, LIST_LIMIT, "consumers")
    shown["consumers"] = [
        await shownConsumer(consumer, isListed=True)
        async for consumer in inTurns(account, shown["consumers"])
    ]
    return shown


async def _pause(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    until = parsePause(request.body, account.strict)
    await request.turn.wait(request.names[1])
    consumer = findConsumer(account, *request.names)
    consumer.pause(until)
    request.turn.goOn(consumer.name)
    await _store(consumer)
    return pauseState(until, account.now())


async def _unpin(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    group = parseUnpin(request.body)
    consumer = findConsumer(account, *request.names)
    if group not in consumer.config.priority_groups:
        raise errors.CONSUMER_INVALID_PRIORITY_GROUP()
    if consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT:
        consumer.unpin(group)
    return {}


async def _reset(account: JetStreamAccount, request: Request) -> Mapping[str, Any] | None:
    """Reset a consumer. A request for an unknown consumer or stream gets no answer."""
    stream = account.streams.get(request.names[0])
    consumer = None if stream is None else stream.consumers.get(request.names[1])
    if stream is None or consumer is None:
        return None
    headers = _identityOf(stream, request) if IDENTITY in request.message.headers else b""
    try:
        asked = parseReset(request.body) or None
        sequence = await consumer.reset(asked)
    except ResetRefused as refused:
        raise errors.CONSUMER_INVALID_RESET(err=refused) from refused
    if asked is not None:
        consumer.core.passOver()
        await _store(consumer)
        account.run(stream.interestLost())
    result = {**await shownConsumer(consumer), **consumer.begun, "reset_seq": sequence}
    return HeadedResult(result, headers) if headers else result


async def _stepDown(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    """Move the stream to another broker: a consumer has the leader of its stream."""
    if account.members is None or account.cluster is None:
        raise errors.CLUSTER_REQUIRED()
    consumer = findConsumer(account, *request.names)
    placement = parseStepDown(request.body)
    await account.cluster.refresh()
    await account.cluster.stepDown(consumer.stream, placement)
    return {"success": True}


_PAUSE_MISSING = {"paused": False, "pause_until": formatTime(ZERO_TIME)}

CONSUMER_ROUTES = (
    ApiRoute("CONSUMER.CREATE.*", "consumer_create", _createEphemeral, isBeside=True, isLong=True),
    ApiRoute("CONSUMER.CREATE.*.*", "consumer_create", _createNamed, isBeside=True, isLong=True),
    ApiRoute("CONSUMER.CREATE.*.*.>", "consumer_create", _createNamed, isBeside=True, isLong=True),
    ApiRoute(
        "CONSUMER.DURABLE.CREATE.*.*", "consumer_create", _createDurable, isBeside=True, isLong=True
    ),
    ApiRoute("CONSUMER.INFO.*.*", "consumer_info", _info, isRead=True),
    ApiRoute("CONSUMER.DELETE.*.*", "consumer_delete", _delete, isBeside=True),
    ApiRoute(
        "CONSUMER.NAMES.*", "consumer_names", _names, {**_NO_PAGE, "consumers": []}, isRead=True
    ),
    ApiRoute("CONSUMER.LIST.*", "consumer_list", _list, {**_NO_PAGE, "consumers": []}, isRead=True),
    ApiRoute("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown", _stepDown),
    ApiRoute("CONSUMER.PAUSE.*.*", "consumer_pause", _pause, _PAUSE_MISSING, isBeside=True),
    ApiRoute("CONSUMER.UNPIN.*.*", "consumer_unpin", _unpin),
    ApiRoute(
        "CONSUMER.RESET.*.*",
        "consumer_reset",
        _reset,
        {"reset_seq": 0},
        isAudited=False,
        isCounted=False,
    ),
)
