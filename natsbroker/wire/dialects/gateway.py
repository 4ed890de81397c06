"""
The dialect of gateways, between brokers of different clusters::

    INFO {json}  CONNECT {json}  PING  PONG  +OK  -ERR '<text>'
    A+ <account>                                        A- <account>
    RS+ <account> <subject> [<queue> <weight>]          RS- <account> <subject> [queue]
    RMSG, HMSG                                          as on routes

Each of two clusters dials the other. Over a connection, the dialling side sends messages, and the
other side sends interest in them. So two connections make a pair. The C{gateway_cmd} of an INFO is
C{1} to name a third gateway, C{2} before all interest of an account, and C{3} after it. (PROTOCOL
1.4.)

Lines that are the same on routes are those of L{natsbroker.wire.dialects.route}.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from natsbroker.wire import ops
from natsbroker.wire.connect import infoLine
from natsbroker.wire.dialects import route
from natsbroker.wire.dialects.client import splitBlanks
from natsbroker.wire.lines import CONNECTING
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument

_WITHOUT_LEAFS = {
    name: rule
    for name, rule in route.OPERATIONS.items()
    if rule[0] not in (ops.LMSG, ops.LS_PLUS, ops.LS_MINUS)
}

#: Reads the lines between gateways. Messages have the same frames as on routes. A peer that dialled
#: the wrong cluster sends an error without a CONNECT.
FROM_GATEWAY = route.RouteLines(
    operations={**_WITHOUT_LEAFS, b"A+": (ops.A_PLUS, True), b"A-": (ops.A_MINUS, True)},
    first=(*CONNECTING, b"-"),
)


def splitAccount(line: bytes) -> bytes | None:
    arguments = splitBlanks(line.replace(b"\r", b" "))
    return arguments[0] if len(arguments) == 1 else None


def accountLine(account: bytes, isWanted: bool) -> bytes:
    return b"A%b %b\r\n" % (b"+" if isWanted else b"-", account)


def commandLine(gateway: str, command: GatewayCommand, account: bytes) -> bytes:
    """The INFO before all interest of an account, or after it."""
    document = dict(_NOBODY)
    document["gateway"] = gateway
    document["gateway_cmd"] = int(command)
    document["gateway_cmd_payload"] = b64encode(account).decode("ascii")
    return infoLine(document, b"\r\n")


def accountOf(document: ServerDocument) -> bytes | None:
    try:
        return b64decode(document.gateway_cmd_payload, validate=True) or None
    except (binascii.Error, ValueError):
        return None


#: A command does not describe its sender; nats-server writes these members all the same.
_NOBODY: dict[str, object] = {
    "server_id": "",
    "server_name": "",
    "version": "",
    "proto": 0,
    "go": "",
    "host": "",
    "port": 0,
    "headers": False,
    "max_payload": 0,
}
