"""
A stage on which streams are copied.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.connections.s2stream import S2Decoder, S2Encoder
from tests.jetstream.api.support import ApiStage

#: A consumer that waits for acknowledgements.
CONSUMER = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000}


def compressed(data: bytes) -> bytes:
    """An S2 stream."""
    return S2Encoder("s2_fast").encode(data)


def plain(data: bytes) -> bytes:
    """The content of an S2 stream."""
    decoder = S2Decoder()
    decoder.feed(data)
    pieces = []
    while not decoder.isStarved:
        pieces.append(decoder.read(1 << 20))
    return b"".join(pieces)


class CopyStage(ApiStage):
    """
    A stage with clients that take snapshots and send them back.
    """

    def fill(self, **config: Any) -> None:
        """
        Fill C{S} with messages that have a gap and headers, and a consumer with a pending message.
        """
        self.make(**config)
        for number in range(6):
            self.publish(b"s.%d" % (number % 3), b"x" * number, A="b")
        self.ask("STREAM.MSG.DELETE.S", {"seq": 3})
        self.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {**CONSUMER, "name": "C"}})
        inbox = self.inbox(b"m")
        self.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":2}', b"m")
        self.settle()
        self.send(inbox.got[0].reply, b"+ACK")
        self.settle()

    def copy(self, **options: Any) -> bytes:
        """A snapshot of C{S}, each chunk of which is answered."""
        inbox = self.inbox(b"d")
        answer = self.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d", **options})
        assert "error" not in answer, answer
        data = b""
        while True:
            assert inbox.got, "no chunk came"
            got, inbox.got = inbox.got, []
            for message in got:
                data += message.payload
                if message.reply:
                    self.send(message.reply)
                elif not message.payload:
                    return data
            self.settle()

    def back(self, data: bytes, size: int = 100, **config: Any) -> Any:
        """Restore C{S}; return the answer to the last chunk."""
        body = {"config": {"name": "S", "subjects": ["s.>"], **config}, "state": {}}
        subject = self.ask("STREAM.RESTORE.S", body)["deliver_subject"].encode()
        for start in range(0, len(data), size):
            assert self.chunk(subject, data[start : start + size]) == b""
        return json.loads(self.chunk(subject, b""))

    def chunk(self, subject: bytes, data: bytes) -> bytes:
        """The answer to one chunk."""
        inbox = self.inbox(b"_INBOX.chunk")
        self.send(subject, data, b"_INBOX.chunk")
        for _ in range(50):
            self.settle()
        (answer,) = inbox.payloads
        return answer
