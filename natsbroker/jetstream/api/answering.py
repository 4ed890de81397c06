"""
Helpers of several API handlers: they find a stream or a consumer, and show one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.gojson import EncodedNumbers, EncodedObject
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.timestamps import ZERO_TIME, formatTime

SHOWN = 16
"""The streams or consumers of a list that are shown in one turn of the reactor."""

DELETED = 500_000
"""The sequences without a message that one answer lists."""

T = TypeVar("T")


async def inTurns(account: JetStreamAccount, items: Sequence[T], most: int = 0) -> AsyncIterator[T]:
    """
    Iterate a list in several turns of the reactor.

    @param most: the items of one turn, if not L{SHOWN}.
    """
    for place, item in enumerate(items):
        if place % (most or SHOWN) == 0:
            await (account.turns.turn() if place else account.turns.take())
        yield item


def findStream(account: JetStreamAccount, name: str) -> Stream:
    """Raise L{errors.JetStreamError} if there is no such stream."""
    stream = account.streams.get(name)
    if name in account.damaged:
        raise errors.STREAM_OFFLINE_REASON(err=account.damaged[name])
    if stream is None:
        raise errors.STREAM_NOT_FOUND()
    return stream


def findConsumer(account: JetStreamAccount, stream: str, name: str) -> Consumer:
    """Raise L{errors.JetStreamError} if there is no such consumer."""
    consumer = findStream(account, stream).consumers.get(name)
    if consumer is None:
        raise errors.CONSUMER_NOT_FOUND()
    return consumer


async def shownState(
    stream: Stream, subjects: EncodedObject | None = None, showsDeleted: bool = False
) -> dict[str, Any]:
    """
    The state of a stream, once everything before is durable.

    @param subjects: the messages of each subject, if they are asked for.
    @param showsDeleted: whether the gaps are listed.
    """
    if not stream.isSettled:
        await stream.settle()
    oldest = await stream.firstTime()
    first, last, messages = stream.first, stream.last, stream.messages
    state: dict[str, Any] = {
        "messages": messages,
        "bytes": stream.size,
        "first_seq": first,
        "first_ts": formatTime(oldest or ZERO_TIME),
        "last_seq": last,
        "last_ts": formatTime(stream.lastTime or ZERO_TIME),
    }
    details = {
        "num_subjects": await stream.countSubjects(),
        "subjects": subjects,
        "num_deleted": last - first + 1 - messages if messages else 0,
        "deleted": await _deleted(stream) if showsDeleted and messages else None,
    }
    state.update((key, value) for key, value in details.items() if value)
    state["consumer_count"] = stream.consumers.shown
    return state


async def _deleted(stream: Stream) -> EncodedNumbers:
    """The sequences between the first and the last that have no message, up to L{DELETED}."""
    shown = EncodedNumbers()

    def add(gap: range) -> bool:
        shown.add(gap[: DELETED - len(shown)])
        return len(shown) < DELETED

    await stream.eachGap(add)
    return shown


async def shownStream(
    account: JetStreamAccount,
    stream: Stream,
    isInfo: bool = False,
    isListed: bool = False,
    **details: Any,
) -> dict[str, Any]:
    """
    A stream with its state, as answers show it.

    @param isInfo: whether the answer names the leader and the domain.
    @param isListed: whether it is one of a list.
    @param details: see L{shownState}.
    """
    state = await shownState(stream, **details)
    members, intake = account.members, stream.intake
    shown: dict[str, Any] = {
        "config": (stream.listedConfig if isListed else stream.shownConfig).of(stream.config),
        "created": formatTime(stream.created),
        "state": state,
    }
    if account.domain and (isInfo or isListed):
        shown["domain"] = account.domain
    if members is not None:
        shown["cluster"] = members.shownStream(stream.config, stream.ledSince)
    elif isInfo and account.server:
        shown["cluster"] = {"leader": account.server}
    origins = {
        "mirror": intake.mirrorInfo(True),
        "sources": await account.inSteps(intake.showing()),
        "alternates": await _alternates(account, stream.name) if isInfo else (),
    }
    shown.update((key, value) for key, value in origins.items() if value)
    shown["ts"] = formatTime(account.now())
    return shown


async def _alternates(account: JetStreamAccount, name: str) -> list[dict[str, str]]:
    """A stream and its mirrors on all brokers of a cluster; empty for one without mirrors."""
    if account.cluster is None or account.members is None:
        return []
    try:
        configs = await account.cluster.configs()
    except StoreError:
        # The leader knows the rest of the answer, even while the database is unavailable.
        return []
    mirrors = [
        config.name for config in configs.values() if config.mirror and config.mirror.name == name
    ]
    where = {"domain": account.domain} if account.domain else {}
    where["cluster"] = account.members.cluster
    return [{"name": stream, **where} for stream in (name, *sorted(mirrors))] if mirrors else []


async def shownConsumer(consumer: Consumer, isListed: bool = False) -> dict[str, Any]:
    """
    A consumer, as answers show it.

    @param isListed: whether it is one of a list.
    """
    await consumer.core.cursor.recount()
    shown = consumer.info()
    groups = shown.pop("priority_groups", None)
    config = consumer.config
    shown["config"] = toJSON(config) if isListed else consumer.shownConfig.of(config)
    stream: Any = consumer.stream
    account = stream.account
    if account.members is not None:
        bound = shown.pop("push_bound", None)
        shown["cluster"] = account.members.shownConsumer(
            stream.config, consumer.name, consumer.config, stream.ledSince
        )
        if bound:
            shown["push_bound"] = bound
    shown["ts"] = formatTime(consumer.stream.account.now())
    if groups:
        shown["priority_groups"] = groups
    return shown
