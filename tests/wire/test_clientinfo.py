"""
Tests for L{natsbroker.wire.clientinfo}: advisory CVE-2026-33223.
"""

from __future__ import annotations

import email.parser
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.clientinfo import HEADER, compact, described, eventId, readStamp, stamped
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import ClientInfo

INFO = ClientInfo(acc="B", rtt=5)
OURS = b'Nats-Request-Info: {"acc":"B","rtt":5}\r\n\r\n'


def block(*lines: bytes) -> bytes:
    """
    @return: a header block of these lines.
    """
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


class TestInfo:
    """The description of a client."""

    def test_orderOfFields(self) -> None:
        """All fields have nats-server's names and order."""
        info = ClientInfo(
            start=1.5,
            host="h",
            id=3,
            acc="A",
            svc="B",
            user="u",
            name="n",
            lang="l",
            ver="v",
            rtt=9,
            server="s",
            cluster="c",
            kind="Client",
            client_type="nats",
        )
        assert compact(described(info)) == (
            b'{"start":"1970-01-01T00:00:01.5Z","host":"h","id":3,"acc":"A","svc":"B","user":"u",'
            b'"name":"n","lang":"l","ver":"v","rtt":9,"server":"s","cluster":"c","kind":"Client",'
            b'"client_type":"nats"}'
        )

    def test_empty(self) -> None:
        """An empty value is left out."""
        assert described(ClientInfo()) == {}
        assert compact(described(INFO)) == b'{"acc":"B","rtt":5}'

    def test_escapes(self) -> None:
        """Names are escaped as in Go, and cannot end the line."""
        name = 'a"\\<&>\r\nX: y\u2028\ud800\x7f\u00f6'
        text = compact({"name": name, "tags": ["a", 1, None, True]})
        assert b"\r" not in text
        assert b"\n" not in text
        assert b"\\u003c\\u0026\\u003e\\r\\nX: y\\u2028\\ufffd\\u007f\xc3\xb6" in text
        assert json.loads(text)["tags"] == ["a", 1, None, True]


class TestStamped:
    """Messages with the requestor's identity."""

    def test_noHeaders(self) -> None:
        """A message without headers gets a header block with the identity."""
        assert stamped(b"hi", 0, INFO) == (b"NATS/1.0\r\n" + OURS + b"hi", 10 + len(OURS))

    def test_headers(self) -> None:
        """Headers are kept unchanged, in order; the identity comes last."""
        before = block(b"B: 1", b"a:2", b"B: 3")
        body, length = stamped(before + b"hi", len(before), INFO)
        assert body == before[:-2] + OURS + b"hi"
        assert body[length:] == b"hi"

    def test_status(self) -> None:
        """A status line is kept."""
        before = b"NATS/1.0 100 Idle\r\n\r\n"
        assert stamped(before, len(before), INFO)[0] == b"NATS/1.0 100 Idle\r\n" + OURS

    @pytest.mark.parametrize(
        "forged",
        [
            b"Nats-Request-Info: x",
            b"Nats-Request-Info:x",
            b"nats-request-info: x",
            b"NATS-REQUEST-INFO: x",
            b"Nats-Request-Info : x",
            b"Nats-Request-Info\t: x",
            b"Nats-Request-Info: x\r\n continued",
            b"Nats-Request-Info: x\r\n\tcontinued: yes",
            b"Nats-Request-Info",
            b"Nats-Request-Info: x\r\nNats-Request-Info: y\r\nnats-request-info: z",
        ],
    )
    def test_forged(self, forged: bytes) -> None:
        """Every forged identity is removed, in any spelling and number."""
        before = block(b"A: 1", forged, b"B: 2")
        body, length = stamped(before + b"hi", len(before), INFO)
        assert body == block(b"A: 1", b"B: 2")[:-2] + OURS + b"hi"
        assert body[:length].lower().count(HEADER.lower()) == 1

    @pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\r\n"])
    def test_oddLineEnds(self, end: bytes) -> None:
        """
        A forged header is removed after every byte that some parser takes for the end of a line.
        """
        before = block(b"A: 1" + end + b"Nats-Request-Info: x" + end + b"B: 2")
        body, _ = stamped(before, len(before), INFO)
        assert body.count(HEADER) == 1
        assert b"B: 2" in body

    @pytest.mark.parametrize("junk", [b"abcd", b"\r\n", b"Nats-Request-Info: x\r\n\r\n", b"NATS"])
    def test_noBlock(self, junk: bytes) -> None:
        """Bytes that are no header block are left out."""
        assert stamped(junk + b"hi", len(junk), INFO)[0] == b"NATS/1.0\r\n" + OURS + b"hi"

    def test_unfinished(self) -> None:
        """A header block without an end gets one."""
        assert stamped(b"NATS/1.0hi", 8, INFO)[0] == b"NATS/1.0\r\n" + OURS + b"hi"

    @given(
        st.lists(
            st.sampled_from(
                [
                    *(b"A: b", b"Nats-Request-Info: x", b"nats-request-info:y", b" ", b"\t", b":"),
                    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"NATS/1.0", b"Nats-Request-", b"\x00"),
                ]
            ),
            max_size=12,
        )
    )
    def test_anyReader(self, parts: list[bytes]) -> None:
        """Whatever a client sends, every parser of headers finds one identity, and the broker's."""
        before = b"NATS/1.0\r\n" + b"".join(parts) + b"\r\n\r\n"
        body, length = stamped(before + b"hi", len(before), INFO)
        assert body[length:] == b"hi"
        text = body[:length]
        assert text.endswith(OURS)
        lines = text.replace(b"\r", b"\n").split(b"\n")
        said = [line for line in lines if line.split(b":")[0].strip().lower() == HEADER.lower()]
        assert said == [OURS.strip()]
        parsed = email.parser.BytesParser().parsebytes(text.partition(b"\r\n")[2])
        values = parsed.get_all("Nats-Request-Info") or []
        assert values in ([], ['{"acc":"B","rtt":5}'])

    def test_ourReader(self) -> None:
        """natsbroker's own parser finds the broker's identity too."""
        body, length = stamped(b"", 0, INFO)
        assert Headers.fromBlock(body[:length]).getAll("nats-request-info", anyCase=True) == [
            '{"acc":"B","rtt":5}'
        ]


@pytest.mark.parametrize(
    "text", [b"", b"Nats-Request-Info: [1]\r\n", b"Nats-Request-Info: {\r\n", b"A: b\r\n"]
)
def test_unreadable(text: bytes) -> None:
    """A block without a readable identity gives an empty one."""
    assert readStamp(b"NATS/1.0\r\n" + text + b"\r\n") == {}
    assert readStamp(b"") == {}


def test_readStamp() -> None:
    """A written identity is read again."""
    body, length = stamped(b"hi", 0, INFO)
    assert readStamp(body[:length]) == described(INFO)


def test_eventId() -> None:
    """An event id has 22 letters and digits, different each time."""
    random = Random(1)
    one, other = eventId(random), eventId(random)
    assert len(one) == len(other) == 22
    assert (one + other).isalnum()
    assert one != other
