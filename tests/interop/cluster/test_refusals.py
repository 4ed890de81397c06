"""
Peers that are not members, or that are faulty: natsbroker answers them byte for byte as
nats-server.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.cluster.members import Member
from tests.interop.servers import OURS_FAST, PATIENCE, REAL
from tests.routes.clusters import CONNECT, INFO

LOGIN = {"user": "u", "pass": "p"}


def connect(**changes: Any) -> bytes:
    """
    @return: a CONNECT line with the right password.
    """
    return b"CONNECT %b\r\n" % json.dumps({**CONNECT, **LOGIN, **changes}).encode()


def info(**changes: Any) -> bytes:
    """
    @return: an INFO line.
    """
    return b"INFO %b\r\n" % json.dumps({**INFO, "port": 1, **changes}).encode()


HELLO = connect() + info()
POOLED = connect() + info(route_pool_size=3)

#: What peers send; the last PING shows whether they are still listened to.
SENT = {
    "wrong password": connect(**{"pass": "x"}) + info(),
    "wrong user": connect(user="x") + info(),
    "no password": connect(user="", **{"pass": ""}) + info(),
    "interest first": b"RS+ A foo\r\n",
    "ping first": b"PING\r\n",
    "info first": info(),
    "another cluster": connect(cluster="ZZ"),
    "no cluster": connect(cluster=""),
    "another cluster later": connect() + info(cluster="ZZ"),
    "a client": connect(lang="go", name="", cluster=""),
    "a gateway": connect(gateway="G"),
    "no JSON": b"CONNECT {\r\n",
    "no JSON later": connect() + b"INFO {\r\n",
    "same name": connect() + info(server_name="judge"),
    "member": HELLO,
    "pool": POOLED,
    "index too large": connect() + info(route_pool_size=3, route_pool_idx=7),
    "larger pool": connect() + info(route_pool_size=9, route_pool_idx=7),
    "dedicated without pool": connect() + info(route_account="A"),
    "unknown dedicated": connect() + info(route_pool_size=3, route_account="NOPE"),
    "undedicated": connect() + info(route_pool_size=3, route_account="B"),
    "dedicated": connect() + info(route_pool_size=3, route_account="A"),
    "unknown operation": HELLO + b"FOO\r\n",
    "client's operation": HELLO + b"PUB foo 2\r\nhi\r\n",
    "classic interest": HELLO + b"SUB foo RSID:1:1\r\n",
    "bad interest": HELLO + b"RS+ A\r\n",
    "bad weight": HELLO + b"RS+ A foo q\r\n",
    "bad loss": HELLO + b"RS-\r\n",
    "bad message": HELLO + b"RMSG A foo\r\n",
    "bad size": HELLO + b"RMSG A foo x\r\n",
    "bad queues": HELLO + b"RMSG A foo ! q 2\r\nhi\r\n",
    "bad headers": HELLO + b"HMSG A foo 9 2\r\nhi\r\n",
    "bad end": HELLO + b"RMSG A foo 2\r\nhiXX",
    "unknown account": HELLO + b"RS+ NOPE foo\r\nRMSG NOPE foo 2\r\nhi\r\n",
    "unknown loss": HELLO + b"RS- A foo\r\n",
    "twice": HELLO + b"RS+ A foo\r\nRS+ A foo\r\nRS- A foo\r\n",
    "leaf": HELLO
    + b"LS+ LC A foo\r\nLS+ LC A foo q 2\r\nLS- LC A foo\r\nLMSG LC A foo 0 2\r\nhi\r\n",
    "bad leaf": HELLO + b"LS+ LC A\r\n",
    "connect again": HELLO + connect(),
    "an error": HELLO + b"-ERR 'Slow Consumer'\r\n",
}

_IGNORED = (
    "nats-server ignores it; no peer of this dialect sends it, and a peer without one is answered"
)

#: Where we say another thing, with the reason.
OTHER = {"client's operation": _IGNORED, "classic interest": _IGNORED}


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    """A nats-server and a natsbroker, each in a cluster of its own."""
    made: list[Member] = []
    try:
        for flavour in (REAL, OURS_FAST):
            home = tmp_path_factory.mktemp("refusing")
            more = "accounts: [A], pool_size: 3"
            made.append(Member(flavour, home, "judge", [], more).start())
        yield made
    finally:
        for member in made:
            member.stop()


def heard(member: Member, data: bytes) -> list[bytes]:
    """
    @return: the lines with which a member answers, without those that it always sends.
    """
    with socket.create_connection(("127.0.0.1", member.routePort), PATIENCE) as peer:
        peer.settimeout(PATIENCE)
        answer = peer.recv(1 << 16)
        peer.sendall(data)
        try:
            peer.sendall(b"PING\r\n")
            while b"\r\nPONG\r\n" not in answer:
                more = peer.recv(1 << 16)
                if not more:
                    break
                answer += more
        except (BrokenPipeError, ConnectionResetError):
            pass
    lines = answer.split(b"\r\n")
    said = [line for line in lines if line and not re.match(rb"INFO |RS\+ |PING$", line)]
    return [re.sub(rb"^PONG$", b"still there", line) for line in said]


@pytest.mark.parametrize("name", SENT)
def test_same(name: str, judges: list[Member]) -> None:
    """
    Each answer is nats-server's. Each peer has another name, because a server may still know the
    previous peer, and would close one with the same name.
    """
    number = b"%d" % list(SENT).index(name)
    data = re.sub(rb'"(PEER|peer)"', rb'"\g<1>' + number + b'"', SENT[name])
    there, here = (heard(member, data) for member in judges)
    if name in OTHER:
        assert here != there, "it is the same by now"
    else:
        assert here == there
