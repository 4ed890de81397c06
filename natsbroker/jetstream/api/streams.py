"""
The API requests about streams and their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from natsbroker.errors import BrokerError
from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.api.answering import findStream, inTurns, shownStream
from natsbroker.jetstream.api.dispatcher import ApiRoute, Request
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.answers import (
    LIST_LIMIT,
    NAMES_LIMIT,
    SubjectsPage,
    accountInfo,
    page,
    storedMessage,
    tiersInfo,
)
from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.gojson import EncodedObject
from natsbroker.jetstream.model.limits import NOTHING
from natsbroker.jetstream.model.names import overlapping
from natsbroker.jetstream.model.requests import (
    parseInfo,
    parseMessageDelete,
    parseMessageGet,
    parsePeer,
    parsePurge,
    parseStepDown,
    parseStream,
    parseStreams,
    requireEmpty,
)
from natsbroker.jetstream.model.streamchecks import StreamChecker
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.model.streamupdates import createdStream, updatedStream
from natsbroker.jetstream.streams.recovery import createStream, deleteDamaged, deleteStream
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.steps import Steps, finish
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.subjects.shapes import TooManyShapes

COMPARED = 256
"""The streams whose subjects are compared in one turn of the reactor."""

COUNTED = 64
"""The streams whose use is counted in one turn."""

_ATTEMPTS = 3
"""
The number of attempts to check a configuration over several turns of the reactor. The next attempt
takes one turn.
"""

_SUCCESS = {"success": True}
_NO_PAGE = {"total": 0, "offset": 0, "limit": 0}


async def checker(account: JetStreamAccount, replicas: int) -> StreamChecker:
    """
    Checks configurations against the account's streams and limits.

    @param replicas: of the stream that is checked.
    """
    limits = account.allowance.effective(replicas)
    channels = account.streams.channels
    if channels and limits.max_streams > 0:
        limits = replace(limits, max_streams=limits.max_streams + len(channels))
    tier = (replicas or 1) if account.allowance.tiers else 0
    others = account.serverLimits, account.members, tier, account.subjects
    if account.cluster is None:
        known = account.streams.changed, account.sized
        return StreamChecker(account.configs, limits, *others, *known)
    await account.cluster.refresh()
    streams = await account.cluster.configs()
    for name in channels & streams.keys():
        streams[name] = replace(streams[name], max_bytes=-1)
    return StreamChecker(streams, limits, *others)


async def _checked(
    account: JetStreamAccount,
    replicas: int,
    check: Callable[[StreamChecker], Steps[StreamConfig]],
) -> StreamConfig:
    """
    The configuration to store. If another stream has changed while it was checked, it is checked
    once more, the last time without a pause.
    """
    for _ in range(_ATTEMPTS):
        checks = await checker(account, replicas)
        changes = account.changes
        config = await account.inSteps(check(checks))
        if changes == account.changes:
            return config
    return finish(check(await checker(account, replicas)))


async def _configsOf(account: JetStreamAccount) -> Mapping[str, StreamConfig]:
    """The configurations of all streams of an account, also of those that other brokers lead."""
    if account.cluster is not None:
        return await account.cluster.configs()
    return account.configs


async def _create(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    (name,) = request.names
    parsed = await account.inSteps(parseStream(request.body, account.strict))
    account.allowance.check(parsed.config.num_replicas)
    config = await _checked(
        account, parsed.config.num_replicas, partial(createdStream, parsed, name)
    )
    stream = account.streams.get(name)
    if stream is None:
        with account.change(config):
            stream = await createStream(account, config)
        stream.advise("CREATED", "stream_action", action="create")
        if account.cluster is not None:
            account.cluster.elected(stream)
    return {**await shownStream(account, stream), "did_create": True}


async def _update(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    (name,) = request.names
    parsed = await account.inSteps(parseStream(request.body, account.strict))
    stream = account.streams.get(name)
    if stream is not None and stream.isChannel:
        raise errors.STREAM_UPDATE(err="the stream is a channel, with the limits of NATS Streaming")
    consumers = {} if stream is None else stream.consumers.configs
    config = await _checked(
        account,
        parsed.config.num_replicas,
        lambda checks: updatedStream(parsed, name, checks, consumers),
    )
    stream = findStream(account, name)
    with account.change(config):
        await stream.settle()
        await _apply(stream, config)
    await stream.log.append([])  # Then a lower limit has removed messages.
    if stream.last:
        stream.evicted()
    stream.advise("UPDATED", "stream_action", action="modify")
    shown = await shownStream(account, stream)
    if account.domain:
        place = list(shown).index("ts")
        items = list(shown.items())
        shown = dict([*items[:place], ("domain", account.domain), *items[place:]])
    return shown


async def _apply(stream: Stream, config: StreamConfig) -> None:
    """
    Raise L{errors.JetStreamError} if the account takes no more subscriptions of these shapes; then
    the stream stays as it is.
    """
    before = stream.config
    await stream.states.put(stream.stateKey(), stream.stateValue(config))
    try:
        await stream.applyConfig(config)
    except (TooManyShapes, BrokerError) as error:
        await stream.states.put(stream.stateKey(), stream.stateValue(before))
        await stream.applyConfig(before)
        raise errors.STREAM_UPDATE(err=error) from error


async def _delete(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    requireEmpty(request.body)
    if request.names[0] in account.damaged:
        await deleteDamaged(account, request.names[0])
        return _SUCCESS
    stream = findStream(account, request.names[0])
    if stream.isChannel:
        raise errors.STREAM_DELETE(err="the stream is a channel, which NATS Streaming deletes")
    for consumer in stream.consumers.values():
        if not consumer.config.direct:
            consumer.core.advise("DELETED", "consumer_action", action="delete")
    await deleteStream(account, stream)
    stream.advise("DELETED", "stream_action", action="delete")
    return _SUCCESS


async def _info(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parseInfo(request.body, account.strict)
    stream = findStream(account, request.names[0])
    paging: dict[str, Any] = _NO_PAGE
    subjects: EncodedObject | None = None
    if parsed.subjects_filter:
        await stream.settle()
        matching = SubjectsPage(max(parsed.offset, 0))
        await stream.eachTally((parsed.subjects_filter.encode(),), matching.add)
        paging, subjects = matching.paging, matching.shown
    shown = await shownStream(
        account, stream, isInfo=True, subjects=subjects, showsDeleted=parsed.deleted_details
    )
    return {**paging, **shown}


async def _matching(account: JetStreamAccount, subject: str) -> list[str]:
    """The sorted names of the streams that take messages of a subject; an empty one selects all."""
    configs = await _configsOf(account)
    names = sorted(configs)
    if not subject:
        return names
    overlaps = overlapping([subject])
    return [
        name
        async for name in inTurns(account, names, COMPARED)
        if name in configs and any(map(overlaps, configs[name].subjects))
    ]


async def _names(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parseStreams(request.body, account.strict)
    names = await _matching(account, parsed.subject)
    return page(names, parsed.offset, NAMES_LIMIT, "streams", isNullable=True)


async def _list(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parseStreams(request.body, account.strict)
    names = await _matching(account, parsed.subject)
    shown = page(names, parsed.offset, LIST_LIMIT, "streams")
    if account.cluster is not None:
        shown["streams"], missing = await account.cluster.lists(shown["streams"])
        return {**shown, "missing": missing} if missing else shown
    infos = []
    async for name in inTurns(account, shown["streams"]):
        stream = account.streams.get(name)
        if stream is None:
            continue
        try:
            infos.append(await shownStream(account, stream, isListed=True))
        except StoreError:
            if not stream.isDeleted:
                raise
    shown["streams"] = infos
    return shown


async def _purge(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parsePurge(request.body, account.strict)
    stream = findStream(account, request.names[0])
    if stream.config.sealed:
        raise errors.STREAM_SEALED()
    if stream.config.deny_purge:
        raise errors.STREAM_PURGE_FAILED(err="stream purge not permitted")
    pattern = parsed.filter.encode()
    if pattern and not isValidSubject(pattern):
        return {**_SUCCESS, "purged": 0}
    purged = await stream.purge(pattern, parsed.seq, parsed.keep)
    return {**_SUCCESS, "purged": purged}


async def _getMessage(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parseMessageGet(request.body, account.strict)
    stream = findStream(account, request.names[0])
    await stream.settle()
    record = await findMessage(stream, parsed)
    if record is None:
        raise errors.NO_MESSAGE_FOUND()
    return {
        "message": storedMessage(
            record.subject.decode("utf-8", "surrogateescape"),
            record.sequence,
            record.timestamp,
            b"" if parsed.no_hdr else record.headers,
            record.payload,
        )
    }


async def findMessage(stream: Stream, wanted: MessageGetRequest) -> Record | None:
    """The one message that a request asks for."""
    if wanted.last_by_subj:
        return await stream.lastMatching(wanted.last_by_subj.encode())
    sequence = wanted.seq
    if wanted.start_time is not None:
        sequence = await stream.sequenceAt(int(wanted.start_time))
        return await stream.nextMatching((wanted.next_by_subj or ">").encode(), sequence)
    if wanted.next_by_subj:
        return await stream.nextMatching(wanted.next_by_subj.encode(), sequence)
    return await stream.get(sequence)


async def _deleteMessage(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = parseMessageDelete(request.body, account.strict)
    stream = findStream(account, request.names[0])
    if stream.config.sealed:
        raise errors.STREAM_SEALED()
    if stream.config.deny_delete:
        raise errors.STREAM_MSG_DELETE_FAILED(err="message delete not permitted")
    await stream.settle()
    if await stream.get(parsed.seq) is None:
        raise _missingMessage(stream, parsed.seq)
    await stream.remove([parsed.seq])
    return _SUCCESS


def _missingMessage(stream: Stream, sequence: int) -> errors.JetStreamError:
    """
    The reason why no message is deleted. A file store names the place where the sequence would be.
    """
    if stream.isInFile and sequence > stream.last:
        return errors.STREAM_MSG_DELETE_FAILED(err="stream store EOF")
    if stream.isInFile and sequence < max(stream.first, 1):
        return errors.STREAM_MSG_DELETE_FAILED(err="no message found")
    return errors.SEQUENCE_NOT_FOUND(seq=sequence)


async def usageOf(account: JetStreamAccount) -> dict[str, Any]:
    """The usage of an account's streams that this broker serves."""
    usage, consumers = dict.fromkeys(StorageType, 0), 0
    async for stream in inTurns(account, list(account.streams.values()), COUNTED):
        await stream.settle()
        consumers += len(stream.consumers)
        if not stream.isChannel:
            usage[stream.config.storage] += stream.size
    return {
        "memory": usage[StorageType.MEMORY],
        "storage": usage[StorageType.FILE],
        "reservedMemory": account.reserved(StorageType.MEMORY),
        "reservedStorage": account.reserved(StorageType.FILE),
        "streams": len(account.streams),
        "consumers": consumers,
        "requests": account.requests,
        "failures": account.failures,
    }


async def _accountInfo(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    if account.cluster is None:
        usages = [await usageOf(account)]
    else:
        usages = await account.cluster.usages()
    totals: dict[str, Any] = {key: sum(usage[key] for usage in usages) for key in usages[0]}
    allowance = account.allowance
    limits = NOTHING if allowance.tiers else allowance.limits
    info = accountInfo(limits=limits, domain=account.domain, **totals)
    if allowance.tiers:
        info["tiers"] = tiersInfo(allowance, info)
    return info


async def _stepDown(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    if account.members is None or account.cluster is None:
        raise errors.CLUSTER_REQUIRED()
    stream = findStream(account, request.names[0])
    await account.cluster.refresh()
    await account.cluster.stepDown(stream, parseStepDown(request.body))
    return _SUCCESS


async def _removePeer(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    """Refuse to replace a peer: no broker holds the data of a stream itself."""
    members = account.members
    if members is None:
        raise errors.CLUSTER_REQUIRED()
    findStream(account, request.names[0])
    peer = parsePeer(request.body)
    if not members.knows(peer):
        raise errors.CLUSTER_PEER_NOT_MEMBER()
    raise errors.PEER_REMAP()


async def _silent(account: JetStreamAccount, request: Request) -> None:
    """Leave an unknown request unanswered. nats-server sends no "no responders" either."""


STREAM_ROUTES = (
    ApiRoute("INFO", "account_info", _accountInfo, isRead=True),
    ApiRoute("STREAM.CREATE.*", "stream_create", _create, isLong=True),
    ApiRoute("STREAM.UPDATE.*", "stream_update", _update, isLong=True),
    ApiRoute("STREAM.DELETE.*", "stream_delete", _delete),
    ApiRoute("STREAM.INFO.*", "stream_info", _info, _NO_PAGE, isRead=True),
    ApiRoute("STREAM.NAMES", "stream_names", _names, {**_NO_PAGE, "streams": None}, isRead=True),
    ApiRoute("STREAM.LIST", "stream_list", _list, {**_NO_PAGE, "streams": []}, isRead=True),
    ApiRoute("STREAM.PURGE.*", "stream_purge", _purge, {"purged": 0}),
    ApiRoute("STREAM.MSG.GET.*", "stream_msg_get", _getMessage, isAudited=False, isRead=True),
    ApiRoute("STREAM.MSG.DELETE.*", "stream_msg_delete", _deleteMessage),
    ApiRoute("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown", _stepDown),
    ApiRoute("STREAM.PEER.REMOVE.*", "stream_remove_peer", _removePeer),
    ApiRoute("STREAM.CREATE", "", _silent),
    ApiRoute("META.>", "", _silent),
    ApiRoute("SERVER.>", "", _silent),
    ApiRoute("ACCOUNT.>", "", _silent),
)
