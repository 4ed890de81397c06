"""
The API requests that copy a stream to a client and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import SystemRandom
from typing import Any

from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.api.answering import findStream, shownState, shownStream
from natsbroker.jetstream.api.dispatcher import ApiRoute, Request
from natsbroker.jetstream.api.streams import checker
from natsbroker.jetstream.consumers.core import randomToken
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import SnapshotRequest
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.requests import parseRestore, parseSnapshot, requireBody
from natsbroker.jetstream.requesters import clientOf
from natsbroker.jetstream.snapshots.consumerdocuments import consumerDocument
from natsbroker.jetstream.snapshots.receiving import RestoreReceiver
from natsbroker.jetstream.snapshots.restoring import StreamRestore
from natsbroker.jetstream.snapshots.sending import SnapshotSender, StreamArchive
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.timestamps import formatTime

_RANDOM = SystemRandom()


def _token() -> str:
    return randomToken(_RANDOM, 22)


async def _snapshot(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    requireBody(request.body)
    stream = findStream(account, request.names[0])
    parsed = parseSnapshot(request.body)
    start = account.now()
    state = await shownState(stream)
    last = state["last_seq"]
    consumers = [consumer for consumer in stream.consumers.values() if not consumer.config.direct]
    if parsed.no_consumers:
        consumers = []
    archived = {**state, "consumer_count": len(consumers)}
    documents = [(b"state.json", encode(archived))]
    documents += [
        (f"consumers/{consumer.name}".encode(), consumerDocument(consumer, last))
        for consumer in consumers
    ]
    archive = StreamArchive(stream, documents, last)

    def begin() -> None:
        sending = _send(stream, request, parsed, archive, state, start)
        account.run(account.turns.begin(sending, request.message.origin))

    account.deadlines.after(0, begin)  # The answer precedes the first chunk.
    return {"config": encodable(stream.config), "state": state}


async def _send(
    stream: Stream,
    request: Request,
    parsed: SnapshotRequest,
    archive: StreamArchive,
    state: Mapping[str, Any],
    start: int,
) -> None:
    account: Any = stream.account
    client = clientOf(request.message, account.name)
    stream.advise("SNAPSHOT_CREATE", "snapshot_create", state=state, client=client)
    reason = await SnapshotSender(stream, parsed, archive, _token()).send()
    times = {"start": formatTime(start), "end": formatTime(account.now())}
    failure = {"error": reason} if reason else {}
    stream.advise("SNAPSHOT_COMPLETE", "snapshot_complete", **times, client=client, **failure)


async def _restore(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    parsed = await account.inSteps(parseRestore(request.body))
    (name,) = request.names
    config = parsed.config
    if not config.name:
        config = replace(config, name=name)
    if config.name != name:
        raise errors.STREAM_MISMATCH()
    if "/" in name or "\\" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    checks = await checker(account, config.num_replicas)
    config = await account.inSteps(checks.complete(config))
    if 0 < account.limits.max_streams <= len(account.ownStreams):
        raise errors.MAXIMUM_STREAMS_LIMIT()
    if name in account.streams:
        raise errors.STREAM_NAME_EXIST_RESTORE_FAILED()
    start, client = account.now(), clientOf(request.message, account.name)
    created = f"ADVISORY.STREAM.RESTORE_CREATE.{name}"
    who = {"stream": name, "client": client}
    account.advise(created, "advisory.v1.restore_create", lambda: who)

    async def ended(reply: bytes, failure: JetStreamError | None) -> None:
        account.advise(
            f"ADVISORY.STREAM.RESTORE_COMPLETE.{name}",
            "advisory.v1.restore_complete",
            lambda: {
                "stream": name,
                "start": formatTime(start),
                "end": formatTime(account.now()),
                "bytes": receiver.bytes,
                "client": client,
            },
        )
        if reply:
            account.send(reply, encode(await _result(account, restore, failure)))

    subject = f"$JS.SNAPSHOT.RESTORE.{name}.{_token()}"
    restore = StreamRestore(
        account, config, lambda stream: stream.advise("CREATED", "stream_action", action="create")
    )
    receiver = RestoreReceiver(account, name, subject, restore, ended)
    return {"deliver_subject": subject}


async def _result(
    account: JetStreamAccount, restore: StreamRestore, failure: JetStreamError | None
) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"type": "io.nats.jetstream.api.v1.stream_create_response"}
    if failure is not None:
        return {**answer, "error": failure.toJSON()}
    if restore.stream is None:
        raise RuntimeError("a finished restore has a stream")
    return {**answer, **await shownStream(account, restore.stream)}


SNAPSHOT_ROUTES = (
    ApiRoute("STREAM.SNAPSHOT.*", "stream_snapshot", _snapshot),
    ApiRoute("STREAM.RESTORE.*", "stream_restore", _restore, {"deliver_subject": ""}, isLong=True),
)
