"""
Creating streams, and finding them again when the broker starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker.errors import BrokerError
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.damage import Unreadable, lostState, readConfig
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.storenames import logName
from natsbroker.jetstream.streams.stream import (
    Stream,
    consumerKeys,
    keyOf,
    positionsKey,
)
from natsbroker.subjects.shapes import TooManyShapes

_log = Logger(namespace="natsbroker.jetstream")

FLUSH = 2.0
"""Seconds for the write of a consumer's state, before its stream is handed over without it."""

RETRY = 1.0
"""Seconds until the note that messages have ids is written again after a failure."""


async def createStream(account: JetStreamAccount, config: StreamConfig) -> Stream:
    """
    Create a stream. It is durable, and takes messages, on return.

    @raise natsbroker.interfaces.records.StoreError: if the store takes no writes.
    @raise errors.JetStreamError: if the account takes no more subscriptions of these shapes.
    """
    stream = await openStream(account, config)
    try:
        if config.first_seq > 1 and stream.log.nextSequence < config.first_seq:
            await stream.log.skipTo(config.first_seq)
        await stream.states.change(
            {stream.stateKey(): stream.stateValue(), withoutIds(stream.name): b""}
        )
        _awaitIds(stream)
    except StoreError:
        del account.streams[config.name]
        raise
    try:
        await stream.applyConfig(config)
    except (TooManyShapes, BrokerError) as error:
        await deleteStream(account, stream)
        raise errors.STREAM_CREATE(err=error) from error
    return stream


async def openStream(account: JetStreamAccount, config: StreamConfig) -> Stream:
    """
    A stream that takes no messages yet, and would not survive a restart.

    @raise errors.JetStreamError: if a request that is handled at the same time creates it.
    """
    if config.name in account.damaged:
        raise errors.STREAM_OFFLINE_REASON(err=account.damaged[config.name])
    if config.name in account.streams or config.name in account.opening:
        raise errors.STREAM_NAME_EXIST()
    account.opening.add(config.name)
    try:
        store = account.files if config.storage is StorageType.FILE else account.memory
        name = logName(account.name, config.name)
        if account.isShared:
            # The lease of the state comes first: another broker that finds the log without a
            # configuration takes that lease before it drops the log, and then this creation fails.
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
    await stream.applyConfig(stream.config)


def consumerValue(consumer: Consumer) -> bytes:
    """A consumer in the account's state."""
    value = {
        "stream": consumer.stream.name,
        "name": consumer.name,
        "created": consumer.created,
        "config": encodable(consumer.config),
    }
    if consumer.core.passedOver:
        value["passed_over"] = consumer.core.passedOver
    return encode(value)


async def deleteStream(account: JetStreamAccount, stream: Stream) -> None:
    """Delete a stream with its consumers. The deletion is durable on return."""
    stream.isDeleted = True
    stream.close()
    changes: dict[bytes, bytes | None] = dict.fromkeys(_keysOf(stream.name))
    for consumer in list(stream.consumers.values()):
        consumer.stop("deleted")
        changes.update(dict.fromkeys(consumerKeys(stream.name, consumer.name)))
    del account.streams[stream.name]
    # A later stream of this name has consumers of the same names.
    await stream.intake.ended
    drop = partial(_drop, account, stream, changes)
    try:
        await drop()
    except StoreError:
        account.run(stream.upkeep.retry.untilDone(drop))
        raise
    if account.cluster is not None:
        await account.cluster.forgotten(stream.name)


async def _drop(
    account: JetStreamAccount, stream: Stream, changes: dict[bytes, bytes | None]
) -> None:
    """Drop a stream and its stored values, unless there is another stream of its name."""
    if stream.name in account.streams or stream.name in account.opening:
        return
    await stream.states.change(changes)
    store = account.files if stream.isInFile else account.memory
    await store.drop(logName(account.name, stream.name))


def _keysOf(stream: str) -> tuple[bytes, ...]:
    """The keys of the values that the state has for a stream itself."""
    return keyOf(b"stream", stream), withoutIds(stream), positionsKey(stream)


async def recover(account: JetStreamAccount) -> None:
    """Find the streams of an account, and start their consumers."""
    with lostState(account.files) as lost:
        values = await account.states.load()
    isWhole = not lost.isIn(account.spaceOf(""))
    for key, value in values.items():
        if key.startswith(b"stream/") and not await _recoverStream(account, value):
            isWhole = False
    await _dropUnfinished(account, isWhole)
    for stream in list(account.streams.values()):
        await _guarded(account, stream, _recoverState(stream, values))
    for key in values:
        if key.startswith(b"consumer/") and not await _recoverConsumer(account, key, values):
            isWhole = False
    for stream in list(account.streams.values()):
        await _guarded(account, stream, stream.applyConfig(stream.config))
        if isWhole:
            stream.compare()
    # After a crash, replaced messages remain until limits per subject are
    # enforced.
    await account.files.logs()


async def _recoverStream(account: JetStreamAccount, value: bytes) -> bool:
    """Recover a stream. Return whether its value can be read."""
    try:
        kept, config = readConfig(value, StreamConfig)
    except Unreadable as error:
        if error.name:
            account.damaged.note(account.name, error.name, str(error))
        return False
    try:
        log = await account.files.open(logName(account.name, config.name))
    except StoreError as error:
        account.damaged.note(account.name, config.name, str(error))
        return True
    account.streams[config.name] = Stream(account, config, kept["created"], log)
    return True


async def _guarded(account: JetStreamAccount, stream: Stream, starting: Awaitable[Any]) -> None:
    """Leave out a stream that cannot be started."""
    try:
        await starting
    except StoreError as error:
        abandonStream(stream)
        account.streams.pop(stream.name, None)
        account.damaged.note(account.name, stream.name, str(error))


async def deleteDamaged(account: JetStreamAccount, name: str) -> None:
    """Delete a damaged stream, its messages and its consumers, durably on return."""
    changes: dict[bytes, bytes | None] = dict.fromkeys(_keysOf(name))
    for key, value in (await account.states.load(b"consumer/")).items():
        try:
            kept, _ = readConfig(value, ConsumerConfig)
        except Unreadable:
            continue
        if kept.get("stream") == name:
            changes.update(dict.fromkeys(consumerKeys(name, kept["name"]), None))
            changes[key] = None
    await account.states.change(changes)
    log = logName(account.name, name)
    if log in await account.files.logs():
        await account.files.drop(log)
    account.damaged.pop(name, None)


async def deleteDamagedConsumer(account: JetStreamAccount, stream: Stream, name: str) -> bool:
    """
    Delete the stored values of a consumer whose configuration cannot be read, durably on return.

    @return: false if there is no such consumer.
    """
    keys = consumerKeys(stream.name, name)
    if keys[0] not in account.damagedConsumers:
        return False
    await stream.states.change(dict.fromkeys(keys))
    account.damagedConsumers.discard(keys[0])
    return True


async def takeStream(
    account: JetStreamAccount, log: Any, values: Mapping[bytes, bytes]
) -> Stream | None:
    """
    Serve a stream that another broker may have served.

    @param values: its state.
    @return: C{None} if there is no such stream: only its log exists.
    @raise Unreadable: if its configuration cannot be read.
    """
    stored = next((values[key] for key in values if key.startswith(b"stream/")), None)
    if stored is None:
        return None
    kept, config = readConfig(stored, StreamConfig)
    stream = Stream(account, config, kept["created"], log)
    account.streams[config.name] = stream
    try:
        await _recoverState(stream, values)
        for key in values:
            if key.startswith(b"consumer/"):
                await _recoverConsumer(account, key, values)
        await stream.applyConfig(stream.config)
    except BaseException:
        abandonStream(stream)
        del account.streams[config.name]
        raise
    stream.compare()
    return stream


async def releaseStream(stream: Stream) -> None:
    """Stop serving a stream, so that another broker can. Taken messages are durable on return."""
    stream.retire()
    await stream.settle()
    stream.sources.save()
    for consumer in list(stream.consumers.values()):
        await within(stream, consumer.stop("leadership"))
    abandonStream(stream)


def within(stream: Stream, waiting: Deferred[None]) -> Deferred[None]:
    """
    Wait for a write of a consumer's state, up to a limit: after the loss of a lease it may never
    end.
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
    """Stop serving a stream that another broker serves, and write nothing any more."""
    stream.close()
    for consumer in list(stream.consumers.values()):
        consumer.stop("leadership")
        consumer.core.writer.stop()


async def _dropUnfinished(account: JetStreamAccount, isWhole: bool) -> None:
    """
    Drop the logs of streams whose creation or deletion was interrupted.

    @param isWhole: whether the state can be read. If not, a log without a configuration may be that
        of a damaged stream, and stays.
    """
    prefix = logName(account.name, "")
    expected = {logName(account.name, name) for name in (*account.streams, *account.damaged)}
    for name in await account.files.logs():
        if not name.startswith(prefix) or name in expected:
            continue
        if isWhole:
            await account.files.drop(name)
        else:
            account.damaged.note(account.name, name[len(prefix) :], "its configuration is lost")


async def _recoverConsumer(
    account: JetStreamAccount, key: bytes, values: Mapping[bytes, bytes]
) -> bool:
    """Recover a consumer. Return whether its configuration can be read."""
    try:
        kept, config = readConfig(values[key], ConsumerConfig)
    except Unreadable as error:
        account.damagedConsumers.add(key)
        _log.error(
            "Consumer {name} of account {account} is damaged, and is not served: {reason}",
            name=error.name or "without a name",
            account=account.name,
            reason=str(error),
        )
        return False
    stream = account.streams.get(kept["stream"])
    name = kept["name"]
    # A consumer in memory ends with its broker, except if brokers share its stream.
    isOver = config.mem_storage and not account.isShared
    if stream is None or isOver:
        if stream is not None or not account.damaged:
            # The consumer was created while its stream was deleted, and must not be part of a later
            # stream.
            await account.states.change(dict.fromkeys(consumerKeys(kept["stream"], name)))
        return True
    state = values.get(consumerKeys(stream.name, name)[1])
    consumer = await stream.addConsumer(name, config, kept["created"], state)
    consumer.core.passedOver = kept.get("passed_over", 0)
    await _guarded(account, stream, consumer.start())
    return True


def withoutIds(name: str) -> bytes:
    """
    The key in the state that says that no message of a stream ever had an id. It is deleted before
    the first message with an id, so that other streams need not read their duplicate window at a
    start.
    """
    return keyOf(b"withoutids", name)


def _awaitIds(stream: Stream) -> None:
    stream.publisher.duplicates.began = lambda: stream.account.run(_idsBegan(stream))


async def _idsBegan(stream: Stream) -> None:
    while not stream.isDeleted:
        try:
            await stream.states.change({withoutIds(stream.name): None})
        except StoreError:
            again: Deferred[None] = Deferred()
            stream.account.deadlines.after(RETRY, partial(again.callback, None))
            await again
        else:
            return


async def _recoverState(stream: Stream, values: Mapping[bytes, bytes]) -> None:
    """
    Recover the state that a stream needs before it takes or removes messages.

    @param values: the state.
    """
    await stream.sources.recover(values)
    if withoutIds(stream.name) in values:
        _awaitIds(stream)
    else:
        await recoverDuplicates(stream)


async def recoverDuplicates(stream: Stream) -> None:
    """Read the message ids of the duplicate window."""
    window = stream.config.duplicate_window
    if window <= 0 or not stream.messages:
        return
    sequence = await stream.sequenceAt(stream.account.now() - window)
    while sequence <= stream.last:
        page = await stream.read((), sequence, 1024, 1 << 24)
        stream.publisher.duplicates.read(page.records)
        sequence = page.next
