"""
The dialect of gateways, on bytes that real servers sent (nats-server 2.15.1).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.testing.strategies import patterns
from natsbroker.wire import ops
from natsbroker.wire.dialects.gateway import (
    FROM_GATEWAY,
    accountLine,
    accountOf,
    commandLine,
    splitAccount,
)
from natsbroker.wire.dialects.route import (
    LinkInterest,
    interestLine,
    lostLine,
    messageFrame,
    splitInterest,
    splitLost,
)
from natsbroker.wire.serverinfo import GatewayCommand, parseConnect, parseDocument
from natsbroker.wire.values import Message
from tests.support import Names, onEach
from tests.wire.dialects.frames import framesOf

INFO = (
    b'{"server_id":"NBVJR4V6NQ7R5LYY64LMXG7LUMFBTHFB3O6T6STIAIJP7GPPZRLH2WLH","server_name":"realg"'
    b',"version":"2.15.1","proto":3,"go":"","host":"127.0.0.1","port":14301,"headers":true,'
    b'"max_payload":1048576,"gateway":"GA","gateway_urls":["127.0.0.1:14301"],'
    b'"gateway_url":"127.0.0.1:14301","gateway_nrp":true,"gateway_iom":true}'
)
CONNECT = (
    b'{"echo":false,"verbose":false,"pedantic":false,"tls_required":false,"headers":false,'
    b'"name":"NBVJR4V6NQ7R5LYY64LMXG7LUMFBTHFB3O6T6STIAIJP7GPPZRLH2WLH","cluster":"",'
    b'"gateway":"GA"}'
)
BARE = (
    b'{"server_id":"","server_name":"","version":"","proto":0,"go":"","host":"","port":0,'
    b'"headers":false,"max_payload":0,"gateway":"GA","gateway_cmd":%d,"gateway_cmd_payload":"%b"}'
)


def decoded(names: Names, data: bytes, *cuts: int) -> list[tuple[Any, ...]]:
    """The frames of some input in pieces."""
    return framesOf(names, FROM_GATEWAY, data, cuts)


def message(
    subject: bytes,
    body: bytes,
    reply: bytes = b"",
    header: int = 0,
    queues: tuple[bytes, ...] | None = None,
) -> tuple[Any, ...]:
    """The frame of a message in account A."""
    size, head = b"%d" % len(body), b"%d" % header if header else b""
    op = ops.HMSG if header else ops.RMSG
    return op, subject, reply, header, body, size, head, b"A", queues, b""


ROWS: dict[str, tuple[bytes, list[tuple[Any, ...]]]] = {
    "dialled": (
        b"CONNECT " + CONNECT + b"\r\nINFO " + INFO + b"\r\n",
        [(ops.CONNECT, CONNECT), (ops.INFO, INFO)],
    ),
    "all interest": (
        b"RS+ A foo q 1\r\nINFO " + BARE % (2, b"QQ==") + b"\r\n"
        b"RS+ A foo\r\nRS+ A _INBOX.x\r\nINFO " + BARE % (3, b"QQ==") + b"\r\n",
        [
            (ops.RS_PLUS, b"A foo q 1"),
            (ops.INFO, BARE % (2, b"QQ==")),
            (ops.RS_PLUS, b"A foo"),
            (ops.RS_PLUS, b"A _INBOX.x"),
            (ops.INFO, BARE % (3, b"QQ==")),
        ],
    ),
    "messages": (
        b"RMSG A bar | workers 2\r\nhi\r\nRMSG A bar + _INBOX.x workers 2\r\nhi\r\n"
        b"HMSG A bar + rep workers 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\nPING\r\n",
        [
            message(b"bar", b"hi", queues=(b"workers",)),
            message(b"bar", b"hi", b"_INBOX.x", queues=(b"workers",)),
            message(b"bar", b"NATS/1.0\r\nBar: Baz\r\n\r\nhi", b"rep", 22, (b"workers",)),
            (ops.PING,),
        ],
    ),
    "a mapped reply": (
        b"RMSG A bar _GR_.F2cAWZ.lwpwmG._INBOX.fresh 2\r\nhi\r\n",
        [message(b"bar", b"hi", b"_GR_.F2cAWZ.lwpwmG._INBOX.fresh")],
    ),
    "refusals": (
        b"RS- A x.1\r\nA- ZZ\r\nA+ ZZ\r\nRS+ A x.1\r\n",
        [
            (ops.RS_MINUS, b"A x.1"),
            (ops.A_MINUS, b"ZZ"),
            (ops.A_PLUS, b"ZZ"),
            (ops.RS_PLUS, b"A x.1"),
        ],
    ),
    "any case, tabs": (
        b"a+\tA\r\na- A\r\npong\r\n",
        [(ops.A_PLUS, b"A"), (ops.A_MINUS, b"A"), (ops.PONG,)],
    ),
    "refused": (
        b"-ERR 'attempted to connect to gateway port'\r\n",
        [(ops.ERR, b"'attempted to connect to gateway port'")],
    ),
    "for leafnodes": (b"LS+ LC A foo\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "from leafnodes": (b"LMSG LC A up 0 2\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "no account": (b"A+\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "a client's": (b"SUB foo 1\r\n", [(ops.FAULT, errors.UNKNOWN_OPERATION)]),
    "too few": (b"RMSG A 2\r\n", [(ops.FAULT, errors.BAD_ARGUMENTS)]),
}


@onEach
@pytest.mark.parametrize(("data", "frames"), ROWS.values(), ids=ROWS)
def test_everySplit(names: Names, data: bytes, frames: list[tuple[Any, ...]]) -> None:
    """Each line gives the same frames, cut in two anywhere, and byte by byte."""
    for cut in range(len(data)):
        assert decoded(names, data, cut) == frames
    assert decoded(names, data, *range(len(data))) == frames


def test_document() -> None:
    """The INFO of a real gateway is read, including the fields of gateways."""
    document = parseDocument(INFO)
    assert (document.gateway, document.gateway_url) == ("GA", "127.0.0.1:14301")
    assert document.gateway_urls == ("127.0.0.1:14301",)
    assert (document.gateway_nrp, document.gateway_iom, document.gateway_cmd) == (True, True, 0)
    assert parseConnect(CONNECT).gateway == "GA"


@pytest.mark.parametrize(
    "command", [GatewayCommand.ALL_SUBS_START, GatewayCommand.ALL_SUBS_COMPLETE]
)
def test_command(command: GatewayCommand) -> None:
    """A command is written with the bytes of a real gateway, and read again."""
    line = commandLine("GA", command, b"A")
    assert line == b"INFO " + BARE % (int(command), b"QQ==") + b"\r\n"
    document = parseDocument(line[5:-2])
    assert (document.gateway_cmd, accountOf(document)) == (command, b"A")


@pytest.mark.parametrize("payload", ["", "?", "QQ", "\u00e4", "QQ==="])
def test_commandAboutNothing(payload: str) -> None:
    """A command that names no account has the account C{None}."""
    document = parseDocument(INFO).changed(gateway_cmd=2, gateway_cmd_payload=payload)
    assert accountOf(document) is None


@pytest.mark.parametrize(
    ("line", "account"),
    [
        (b"A", b"A"),
        (b" $G\t", b"$G"),
        (b"A\r", b"A"),
        ("\u00e4".encode(), "\u00e4".encode()),
        (b"", None),
        (b"A B", None),
    ],
)
def test_splitAccount(line: bytes, account: bytes | None) -> None:
    """A line with a single word names an account."""
    assert splitAccount(line) == account


def test_accountLine() -> None:
    """
    The lines for an unknown account, and for one that is known again, are written as by
    nats-server.
    """
    assert accountLine(b"ZZ", False) == b"A- ZZ\r\n"
    assert accountLine(b"ZZ", True) == b"A+ ZZ\r\n"


@given(pattern=patterns(), queue=st.sampled_from([b"", b"q", b"workers"]))
def test_interestReadsWhatItWrites(pattern: bytes, queue: bytes) -> None:
    """Interest is read as it was written, without a leafnode."""
    gained, lost = interestLine(b"A", pattern, queue, 1), lostLine(b"A", pattern, queue)
    expected = LinkInterest(b"A", b"", pattern, queue, 1 if queue else 0)
    assert splitInterest(gained[4:-2]) == expected
    assert splitLost(lost[4:-2]) == expected._replace(weight=0)
    assert splitInterest(b"A foo q") is None
    assert splitLost(b"A") is None


def test_messageFrame() -> None:
    """Messages are written with the bytes of real gateways."""
    sent = Message(b"bar", b"NATS/1.0\r\nBar: Baz\r\n\r\nhi", b"rep", 22)
    frame = b"HMSG A bar + rep workers 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n"
    assert messageFrame(b"A", sent, (b"workers",), True) == frame
    plain = Message(b"bar", b"hi")
    assert messageFrame(b"A", plain, (b"workers",), True) == b"RMSG A bar | workers 2\r\nhi\r\n"
