"""
Creating streams, and finding them again when the broker starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.configjson import (
    CONSUMER_CONFIG,
    STREAM_CONFIG,
    consumerConfigJSON,
)
from natsbroker.jetstream.model.shapes import decode
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StorageType, StreamConfig
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.stream import Stream, consumerKeys, logName

_log = Logger(namespace="natsbroker.jetstream")

FLUSH = 2.0
"""Seconds in which a consumer's state is written before its stream is handed over without it."""


async def createStream(account: JetStreamAccount, config: StreamConfig) -> Stream:
    """
    Create a stream. It is durable, and takes messages, on return.

    @raise natsbroker.interfaces.records.StoreError: if the store takes no writes.
    """
    stream = await openStream(account, config)
    try:
        if config.first_seq > 1 and stream.log.nextSequence < config.first_seq:
            await stream.log.skipTo(config.first_seq)
        await stream.states.put(stream.stateKey(), stream.stateValue())
    except StoreError:
        del account.streams[config.name]
        raise
    await stream.configured(config)
    return stream


async def openStream(account: JetStreamAccount, config: StreamConfig) -> Stream:
    """
    A stream that takes no messages yet, and would not survive a restart.

    @raise errors.JetStreamError: if a request that is handled at the same time creates it.
    """
    if config.name in account.streams or config.name in account.opening:
        raise errors.STREAM_NAME_EXIST()
    account.opening.add(config.name)
    try:
        store = account.files if config.storage is StorageType.FILE else account.memory
        name = logName(account.name, config.name)
        if account.isShared:
            # The lease of the state comes first: who finds the log without a configuration takes
            # that lease before dropping the log, and then this creation fails.
            await store.states(account.spaceOf(config.name)).load()
        log: Any = await store.open(name)
        if log.nextSequence > 1:
            # The deletion of an earlier stream ended before its log was dropped.
            await store.drop(name)
            log = await store.open(name)
    finally:
        account.opening.discard(config.name)
    stream = Stream(account, config, account.now(), log)
    account.streams[config.name] = stream
    return stream


async def activateStream(
    stream: Stream, consumers: Sequence[tuple[Consumer, bytes | None]]
) -> None:
    """
    Make a restored stream durable with its consumers, and have it take messages.

    @param consumers: with their states.
    """
    await recoverDuplicates(stream)
    changes: dict[bytes, bytes | None] = {stream.stateKey(): stream.stateValue()}
    for consumer, state in consumers:
        key, position = consumerKeys(stream.name, consumer.name)
        changes[key] = consumerValue(consumer)
        if state is not None and not consumer.config.mem_storage:
            changes[position] = state
    await stream.states.change(changes)
    for consumer, _ in consumers:
        await consumer.start()
    await stream.configured(stream.config)


def consumerValue(consumer: Consumer) -> bytes:
    """
    What the account's state has of a consumer.
    """
    value = {
        "stream": consumer.stream.name,
        "name": consumer.name,
        "created": consumer.created,
        "config": consumerConfigJSON(consumer.config),
    }
    return json.dumps(value).encode()


async def deleteStream(account: JetStreamAccount, stream: Stream) -> None:
    """
    Delete a stream with its consumers. The deletion is durable on return.
    """
    stream.isDeleted = True
    stream.close()
    changes: dict[bytes, bytes | None] = {stream.stateKey(): None}
    for consumer in list(stream.consumers.values()):
        consumer.stop("deleted")
        changes.update(dict.fromkeys(consumerKeys(stream.name, consumer.name)))
    del account.streams[stream.name]
    await stream.states.change(changes)
    store = account.files if stream.isInFile else account.memory
    await store.drop(logName(account.name, stream.name))
    if account.cluster is not None:
        await account.cluster.forgotten(stream.name)


async def recover(account: JetStreamAccount) -> None:
    """
    Find the streams of an account, and start their consumers.
    """
    values = await account.states.load()
    store = account.files
    expected = set()
    for key, value in values.items():
        if not key.startswith(b"stream/"):
            continue
        found = json.loads(value)
        config = decode(json.dumps(found["config"]).encode(), STREAM_CONFIG)
        name = logName(account.name, config.name)
        expected.add(name)
        stream = Stream(account, config, found["created"], await store.open(name))
        account.streams[config.name] = stream
    await _dropUnfinished(account, expected)
    for stream in account.streams.values():
        await recoverDuplicates(stream)
    for key, value in values.items():
        if key.startswith(b"consumer/"):
            await _recoverConsumer(account, json.loads(value), values)
    for stream in account.streams.values():
        await stream.configured(stream.config)
        if stream.config.retention is RetentionPolicy.INTEREST:
            account.run(_releaseSettled(stream))


async def takeStream(
    account: JetStreamAccount, log: Any, values: Mapping[bytes, bytes]
) -> Stream | None:
    """
    Serve a stream that another broker may have served.

    @param values: its state.
    @return: C{None} if there is no such stream: only its log exists.
    """
    found = next((values[key] for key in values if key.startswith(b"stream/")), None)
    if found is None:
        return None
    kept = json.loads(found)
    config = decode(json.dumps(kept["config"]).encode(), STREAM_CONFIG)
    stream = Stream(account, config, kept["created"], log)
    account.streams[config.name] = stream
    try:
        await recoverDuplicates(stream)
        for key, value in values.items():
            if key.startswith(b"consumer/"):
                await _recoverConsumer(account, json.loads(value), values)
        await stream.configured(stream.config)
    except BaseException:
        abandonStream(stream)
        del account.streams[config.name]
        raise
    if config.retention is RetentionPolicy.INTEREST:
        account.run(_releaseSettled(stream))
    return stream


async def releaseStream(stream: Stream) -> None:
    """
    Stop serving a stream, so that another broker can. Everything that was taken is durable on
    return.
    """
    stream.retire()
    await stream.settle()
    for consumer in list(stream.consumers.values()):
        await within(stream, consumer.stop("leadership"))
    abandonStream(stream)


def within(stream: Stream, waiting: Deferred[None]) -> Deferred[None]:
    """
    Wait for a write of a consumer's state, but not for one that never ends, because the lease was
    lost.
    """
    done: Deferred[None] = Deferred()

    def end(_: object = None) -> None:
        timer.cancel()
        if not done.called:
            done.callback(None)

    timer = stream.account.deadlines.after(FLUSH, end)
    waiting.addBoth(end)
    return done


def abandonStream(stream: Stream) -> None:
    """
    Stop serving a stream that another broker serves: write nothing any more.
    """
    stream.close()
    for consumer in list(stream.consumers.values()):
        consumer.stop("leadership")
        consumer.core.writer.stop()


async def _releaseSettled(stream: Stream) -> None:
    """
    Remove messages with interest retention whose last settlement is durable and whose removal is
    not. What is ahead of every consumer is needed.
    """
    consumers = stream.consumers.values()
    delivered = max((each.core.pending.deliveredStream for each in consumers), default=stream.last)
    await stream.releaseUnneeded(min(delivered, stream.last))


async def _dropUnfinished(account: JetStreamAccount, expected: set[str]) -> None:
    """
    Drop the logs of streams whose creation or deletion was interrupted.
    """
    prefix = logName(account.name, "")
    for name in await account.files.logs():
        if name.startswith(prefix) and name not in expected:
            await account.files.drop(name)


async def _recoverConsumer(
    account: JetStreamAccount, found: dict[str, Any], values: Mapping[bytes, bytes]
) -> None:
    config = decode(json.dumps(found["config"]).encode(), CONSUMER_CONFIG)
    stream = account.streams.get(found["stream"])
    name = found["name"]
    if stream is None:
        # It was made while its stream was deleted, and is not to be part of a later one.
        await account.states.change(dict.fromkeys(consumerKeys(found["stream"], name)))
        return
    state = values.get(consumerKeys(stream.name, name)[1])
    consumer = Consumer(stream, name, config, found["created"], state)
    stream.consumers[name] = consumer
    await consumer.start()


async def recoverDuplicates(stream: Stream) -> None:
    """
    Read the message ids of the duplicate window.
    """
    window = stream.config.duplicate_window
    if window <= 0 or not stream.messages:
        return
    sequence = await stream.sequenceAt(stream.account.now() - window)
    duplicates = stream.publisher.duplicates
    while sequence <= stream.last:
        found = await stream.read((), sequence, 1024, 1 << 24)
        for record in found.records:
            messageId = b""
            if b"Nats-Msg-Id" in record.headers:
                messageId = MessageHeaders(record.headers).get(b"Nats-Msg-Id")
            if messageId:
                duplicates.add(messageId, record.sequence, record.timestamp)
            duplicates.last = messageId
        sequence = found.next
