"""
The documents of brokers about themselves.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.connect import infoLine
from natsbroker.wire.serverinfo import (
    LinkConnect,
    ServerDocument,
    connectLine,
    parseConnect,
    parseDocument,
)

REAL = (
    b'{"server_id":"NCC5","server_name":"real1","version":"2.15.1","proto":3,"go":"go1.27.2",'
    b'"host":"127.0.0.1","port":14201,"headers":true,"max_payload":1048576,"nonce":"B3jh",'
    b'"cluster":"C1","connect_urls":["127.0.0.1:14200"],"compression":"accept","lnoc":true,'
    b'"lnocu":true,"ln":true,"route_pool_size":3,"import":{"allow":["a.>"]},"export":{"deny":["b"]}}'
)


def test_realDocument() -> None:
    """The INFO of nats-server 2.15.1 is read."""
    document = parseDocument(REAL)
    assert document == ServerDocument(
        server_id="NCC5",
        server_name="real1",
        version="2.15.1",
        proto=3,
        host="127.0.0.1",
        port=14201,
        headers=True,
        max_payload=1048576,
        nonce="B3jh",
        cluster="C1",
        connect_urls=("127.0.0.1:14200",),
        compression="accept",
        lnoc=True,
        lnocu=True,
        route_pool_size=3,
        permitImport={"allow": ("a.>",)},
        permitExport={"deny": ("b",)},
    )
    assert document.raw["ln"] is True


def test_names() -> None:
    """Names match in any case, and null counts as absent."""
    document = parseDocument(b'{"SERVER_ID":"a","Port":null,"LDM":true}')
    assert (document.server_id, document.port, document.ldm) == ("a", 0, True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'{"port":"x"}',
        b'{"port":true}',
        b'{"port":99999999999999999999}',
        b'{"headers":1}',
        b'{"connect_urls":"x"}',
        b'{"connect_urls":[1]}',
        b'{"import":[]}',
        b'{"import":{"allow":"a"}}',
        b'{"port":NaN}',
        b"[" * 100_000,
    ],
)
def test_malformedDocument(text: bytes) -> None:
    """Input that is no JSON object, or has a field of a wrong type, is refused as a whole."""
    with pytest.raises(ValueError):
        parseDocument(text)


@given(st.binary(max_size=60) | st.from_regex(rb'\{"[a-z_]{1,12}":.{0,20}\}', fullmatch=True))
def test_nothingButValueErrors(text: bytes) -> None:
    """Any bytes give a document, or raise ValueError."""
    for parse in (parseDocument, parseConnect):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)


def test_connect() -> None:
    """The credentials of a peer are read from its CONNECT."""
    line = connectLine({"echo": True, "user": "u", "pass": "p", "name": "ID", "cluster": "C1"})
    assert line.startswith(b"CONNECT {") and line.endswith(b"}\r\n")
    assert parseConnect(line[8:]) == LinkConnect(name="ID", user="u", password="p", cluster="C1")


def test_line() -> None:
    """Fields without a value are left out, except those that are always present."""
    line = infoLine({"server_id": "", "port": 0, "ip": "", "ldm": False, "cluster": "C1"})
    assert line == b'INFO {"server_id":"","port":0,"cluster":"C1"} \r\n'


def test_passedOn() -> None:
    """A document is passed on with its unknown fields."""
    document = parseDocument(REAL).changed(ip="nats-route://h:1/", nonce="", gossip_mode=2)
    told = json.loads(infoLine(document.raw)[5:])
    assert told["ln"] is True and told["ip"] == "nats-route://h:1/" and told["gossip_mode"] == 2
    assert "nonce" not in told
    assert (document.ip, document.nonce, document.gossip_mode) == ("nats-route://h:1/", "", 2)
    assert parseDocument(json.dumps(told).encode()) == document
