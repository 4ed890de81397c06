"""
One direct-get request: a run of stored messages, and how the run ended.

A batch is answered by any replica of the stream, message after message; the metadata stand as the
last six headers of each, behind whatever its publisher put there, so a publisher cannot forge them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.logs.columns import MessageRows
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.wire.headers import Headers

__all__ = ["DirectGet", "DirectGetAnswer", "fetch"]

_NOT_FOUND = 404
_END = 204

_LINES = (
    rb"\r\nNats-Stream: [^\r\n]*\r\nNats-Subject: (?P<subject>[^\r\n]*)\r\n"
    rb"Nats-Sequence: (?P<seq>\d+)\r\nNats-Time-Stamp: (?P<time>[^\r\n]+)\r\n"
    rb"Nats-Num-Pending: \d+\r\nNats-Last-Sequence: \d+\r\n\r\n"
)
_METADATA = re.compile(rb"NATS/1\.0(?P<own>.*)%b" % _LINES, re.S)

#: The same where its publisher put nothing there: most messages, and found at once.
_BARE = re.compile(rb"NATS/1\.0(?P<own>)%b" % _LINES)


@dataclass(frozen=True)
class DirectGet:
    """
    What is asked for.

    @ivar seq: where to begin.
    @ivar count: how many messages at most.
    @ivar size: how many bytes, roughly: the message that goes beyond it is the last.
    @ivar pattern: which subjects; all if empty.
    """

    seq: int
    count: int
    size: int
    pattern: str = ""

    def payload(self) -> bytes:
        """
        The request.
        """
        fields = {"seq": self.seq, "batch": self.count, "max_bytes": self.size}
        return json.dumps(
            fields | ({"next_by_subj": self.pattern} if self.pattern else {})
        ).encode()


@dataclass(frozen=True)
class DirectGetAnswer:
    """
    What came.

    @ivar rows: the messages.
    @ivar isEnd: whether the replica that answered has no more such messages.
    """

    rows: MessageRows
    isEnd: bool


def fetch(connection: BlockingConnection, subject: str, request: DirectGet) -> DirectGetAnswer:
    """
    Ask, and take the whole answer.

    @param subject: where direct gets of the stream are answered.
    @raise ApiError: if the request is refused.
    """
    rows = MessageRows()
    reply = connection.ask(subject, request.payload())
    last = request.seq - 1
    while True:
        headerLength, body = connection.answer(reply, subject)
        head = body[:headerLength]
        found = _BARE.fullmatch(head) or _METADATA.fullmatch(head)
        if found is None:
            return DirectGetAnswer(rows, _isEnd(head, subject))
        own, name, digits, time = found.groups()
        seq = int(digits)
        if seq <= last:
            raise DataSourceError(f"{subject} gave sequence {seq} after {last}")
        last = seq
        rows.add(seq, name, time, own, body[headerLength:])


def _isEnd(head: bytes, subject: str) -> bool:
    try:
        headers = Headers.fromBlock(head)
        status, pending = headers.status, headers.get("Nats-Num-Pending", "0")
        left = int(pending or "0")
    except ValueError:
        raise ApiError(f"{subject}: an answer makes no sense") from None
    if status == _END:
        return left == 0
    if status == _NOT_FOUND:
        return True
    raise ApiError(f"{subject}: {status} {headers.description}", status)
