"""Operation codes: the first member of every decoded frame, shared by every dialect."""

from __future__ import annotations

#: The decoder met a violation; the frame is C{(FAULT, WireError)} and nothing follows it.
FAULT = 0
CONNECT = 1
INFO = 2
PUB = 3
HPUB = 4
SUB = 5
UNSUB = 6
PING = 7
PONG = 8
OK = 9
ERR = 10
#: A publish whose arguments are read but whose payload is not there yet; only decoders that are
#: asked to announce send it (the pedantic subject check answers before the payload arrives).
ANNOUNCED = 11
MSG = 12
HMSG = 13
#: Interest of another member of a cluster, and messages from it.
RS_PLUS = 14
RS_MINUS = 15
RMSG = 16
#: The same on behalf of a leafnode of another cluster.
LS_PLUS = 17
LS_MINUS = 18
LMSG = 19
#: Whether another cluster wants anything at all of an account.
A_PLUS = 20
A_MINUS = 21

NAMES: dict[int, bytes] = {
    CONNECT: b"CONNECT",
    INFO: b"INFO",
    PUB: b"PUB",
    HPUB: b"HPUB",
    SUB: b"SUB",
    UNSUB: b"UNSUB",
    PING: b"PING",
    PONG: b"PONG",
    OK: b"+OK",
    ERR: b"-ERR",
    MSG: b"MSG",
    HMSG: b"HMSG",
    RS_PLUS: b"RS+",
    RS_MINUS: b"RS-",
    RMSG: b"RMSG",
    LS_PLUS: b"LS+",
    LS_MINUS: b"LS-",
    LMSG: b"LMSG",
    A_PLUS: b"A+",
    A_MINUS: b"A-",
}
