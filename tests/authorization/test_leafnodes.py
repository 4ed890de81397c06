"""
Attempts of leafnodes to get more than they may: before the login, about the requestor, and with
invalid input.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from natsbroker.accounts.imports import ImportedService
from natsbroker.config.settings.accounts import ServiceExport
from natsbroker.errors import Unauthorized
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind
from tests.leafnodes.leaves import Broker, Wire, connect, info

#: How many sequences each state is tried with.
SEEDS = 800

FORGED = [
    b'Nats-Request-Info: {"acc":"B","user":"root"}\r\n',
    b"nats-request-info:{}\r\nNATS-REQUEST-INFO: {}\r\n",
    b"A: b\r\n" * 500 + b"Nats-Request-Info: {}\r\n",
]

WORDS = [
    *(b"PING", b"PONG", b"+OK", b"-ERR 'x'", b"LS+ a", b"LS+ a q 1", b"LS- a", b"LS+ > q -1"),
    *(b"LMSG a 1", b"LMSG a r 1", b"LMSG a + r q 1", b"LMSG a | q 1", b"LMSG a 99999999999"),
    *(b"HMSG a 12 13", b"HMSG a 14 13", b"RS+ A a", b"RMSG A a 1", b"SUB a 1", b"PUB a 1", b"x"),
    *(
        b"A+ A",
        b"LS+ $SYS.>",
        b"LS+ _GR_.>",
        b"LS+ $LDS.x",
        b"LMSG $LDS.x 0",
        b"INFO {",
        b"CONNECT {",
    ),
]


def garbage(random: Random) -> bytes:
    """Lines that a leafnode may send, and remains of lines after an error."""
    data = b"".join(
        random.choice([*[word + b"\r\n" for word in WORDS], b"x\r\n", connect(), info()])
        for _ in range(random.randrange(1, 8))
    )
    place = random.randrange(len(data))
    damaged = bytes(random.randrange(256) for _ in range(random.randrange(3)))
    return data[:place] + damaged + data[place + random.randrange(3) :]


def waiting(broker: Broker) -> Wire:
    """A leafnode that connected to us and has sent nothing."""
    return broker.accepted()


def letIn(broker: Broker) -> Wire:
    """A leafnode that connected to us and has few permissions."""
    return broker.spoke()


def dialled(broker: Broker) -> Wire:
    """A peer that we dialled and that has sent nothing."""
    return broker.dialling()


def ourHub(broker: Broker) -> Wire:
    """A peer that we dialled and that accepted us."""
    return broker.hub()


@pytest.mark.slow
@pytest.mark.parametrize("state", [waiting, letIn, dialled, ourHub])
def test_garbage(state: Callable[[Broker], Wire]) -> None:
    """
    Any input of a peer is harmless. Before the login it reaches no client, and later only on
    subjects that the peer may publish to.
    """
    for seed in range(SEEDS):
        random = Random(seed)
        broker = Broker()
        broker.decider.answer = Grant("A", "u", PermissionSet([b"b"]), SubscribePermissions([b"b"]))
        if random.random() < 0.5:
            broker.decider.answer = Unauthorized("no")
        heard = broker.subscribe(b">")
        wire = state(broker)
        data = garbage(random)
        cut = random.randrange(len(data) + 1)
        wire.send(data[:cut])
        wire.send(data[cut:])
        broker.settle(6.0)
        isHub = state in (dialled, ourHub)
        subjects = {message.subject for message, _ in heard.got}
        assert isHub or subjects <= {b"b"}, (seed, data)


@pytest.mark.parametrize("forged", FORGED)
def test_forged(forged: bytes) -> None:
    """
    A leafnode's claims about the requestor are left out, in any number and any spelling. The
    service learns the account of the leafnode (CVE-2026-33246).
    """
    broker = Broker()
    ours, theirs = broker.buses.accounts["A"], broker.buses.accounts["B"]
    service = ImportedService(ours, theirs, ServiceExport("ask"), Renaming(b"ask", b"ask"), True)
    ours.importServices([service.subscription()])
    asked = broker.subscribe(b"ask", account="B")
    wire = broker.spoke()
    headers = b"NATS/1.0\r\nX: y\r\n" + forged + b"\r\n"
    size = len(headers)
    wire.send(b"HMSG ask inbox %d %d\r\n%bhi\r\n" % (size, size + 2, headers))
    ((message, _),) = asked.got
    lines = [line for line in message.headers.split(b"\r\n") if b"request-info" in line.lower()]
    (line,) = lines
    told = json.loads(line.partition(b":")[2])
    assert told["acc"] == "A" and told.get("user") != "root"
    assert b"X: y\r\n" in message.headers and message.payload == b"hi"


@pytest.mark.parametrize("subject", [b"$SYS.REQ.SERVER.PING", b"other", b"_INBOX.b"])
def test_anotherAccount(subject: bytes) -> None:
    """The interest and the messages of a leafnode stay in its account."""
    broker = Broker()
    heard = broker.subscribe(b">", account="B")
    wire = broker.spoke()
    wire.send(b"LS+ >\r\nLMSG %b 1\r\nx\r\n" % subject)
    assert heard.got == []
    wire.take()
    assert broker.publish(subject, account="B") == 1
    assert wire.lines() == []


def test_largest() -> None:
    """A message larger than the maximum ends the connection before its payload arrives."""
    broker = Broker()
    heard = broker.subscribe(b">")
    wire = broker.spoke()
    wire.send(b"LMSG a %d\r\n" % (1 << 30))
    assert wire.closed and heard.got == []


def test_lateConnect() -> None:
    """An endless CONNECT ends the connection after the time for a login."""
    broker = Broker()
    wire = broker.accepted()
    wire.take()
    wire.send(b'CONNECT {"server_id":"' + b"x" * 4000)
    broker.settle(30.0)
    assert wire.closed == "Authentication Timeout"
    assert broker.buses.accounts["A"].busFor(Kind.CLIENT).hasInterest(b"a") is False
