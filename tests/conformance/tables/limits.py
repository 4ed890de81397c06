"""
Cases 51, 52, 54 to 56, 58 and 59: limits, splits, keep-alive, lame duck, slow consumers, reload.
"""

from __future__ import annotations

from tests.conformance.rows import CON, VIOLATION, Row, ends, stays
from tests.conformance.steps import (
    ClosedReason,
    ClosedWithout,
    Exits,
    Flood,
    Logged,
    Refused,
    Reload,
    Signal,
)
from tests.conformance.transcripts import (
    Alive,
    Closed,
    Drop,
    Expect,
    Info,
    Open,
    Send,
    Step,
    Wait,
)

TOO_LONG = b"-ERR 'maximum control line exceeded'\r\n"
SHORT_LINES = "max_control_line: 1024\n"

CONTROL_LINE = [
    *(
        Row(
            51,
            f"SUB with {length} bytes of subject",
            stays(CON + b"SUB %s 1\r\n" % (b"s" * length)),
            SHORT_LINES,
        )
        for length in (1000, 1021, 1022)
    ),
    *(
        Row(
            51,
            f"SUB with {length} bytes of subject",
            ends(CON + b"SUB %s 1\r\n" % (b"s" * length), TOO_LONG),
            SHORT_LINES,
        )
        for length in (1023, 1024, 1025, 1100, 2000)
    ),
    Row(
        51,
        "PUB with a long subject",
        ends(CON + b"PUB %s 2\r\nhi\r\n" % (b"s" * 1100), TOO_LONG),
        SHORT_LINES,
    ),
    Row(
        51,
        "CONNECT with a long name",
        ends(b'CONNECT {"name":"%s"}\r\n' % (b"n" * 1100), TOO_LONG),
        SHORT_LINES,
    ),
    Row(51, "no line end", ends(CON + b"SUB " + b"s" * 1100, TOO_LONG), SHORT_LINES),
    Row(51, "flood without line end", ends(CON + b"SUB " + b"s" * 100000, TOO_LONG), SHORT_LINES),
    Row(51, "the default", stays(CON + b"SUB %s 1\r\n" % (b"s" * 4094))),
    Row(51, "more than the default", ends(CON + b"SUB %s 1\r\n" % (b"s" * 4096), TOO_LONG)),
    Row(
        51,
        "leading blanks do not count",
        stays(CON + b"SUB \t" + b" " * 100 + b"s" * 1022 + b" 1\r\n"),
        SHORT_LINES,
    ),
    Row(
        51,
        "trailing blanks count",
        ends(CON + b"SUB " + b"s" * 1022 + b" 1 \r\n", TOO_LONG),
        SHORT_LINES,
    ),
    Row(
        51,
        "payload does not count",
        stays(
            CON + b"SUB s 1\r\nPUB s 2000\r\n" + b"p" * 2000 + b"\r\n",
            b"MSG s 1 2000\r\n" + b"p" * 2000 + b"\r\n",
        ),
        SHORT_LINES,
    ),
]

SCRIPT = (
    b'CONNECT {"verbose":false,"headers":true}\r\nSUB foo 1\r\nSUB  foo.* q 2 \r\n'
    b"PUB foo 2\r\nhi\r\nHPUB foo.x r 12 14\r\nNATS/1.0\r\n\r\nyo\r\nPING\r\n"
    b"UNSUB 1\r\nPUB foo 0\r\n\r\npub foo.y 1\r\nz\r\nPING\r\n"
)
ANSWER = (
    b"MSG foo 1 2\r\nhi\r\nHMSG foo.x 2 r 12 14\r\nNATS/1.0\r\n\r\nyo\r\nPONG\r\n"
    b"MSG foo.y 2 1\r\nz\r\nPONG\r\n"
)


def everySplit() -> tuple[Step, ...]:
    """
    @return: L{SCRIPT} in two packets, split at every byte, each on a connection of its own.
    """
    steps: list[Step] = []
    for at in range(1, len(SCRIPT)):
        on = f"split at {at}"
        steps += [Send(SCRIPT[:at], on), Send(SCRIPT[at:], on), Expect(ANSWER, on=on)]
        # Gone, as far as the others can tell, once the broker has answered.
        steps += [Send(b"UNSUB 2\r\n", on), Alive(on), Drop(on)]
    return tuple(steps)


def byteByByte() -> tuple[Step, ...]:
    """
    @return: L{SCRIPT} in packets of one byte.
    """
    return (*(Send(SCRIPT[at : at + 1]) for at in range(len(SCRIPT))), Expect(ANSWER), Alive())


SPLITS = [
    Row(52, "whole", stays(SCRIPT, ANSWER)),
    Row(52, "split at every byte", everySplit()),
    Row(52, "byte by byte", byteByByte()),
]

COUNTS = [
    Row(
        54,
        "connections",
        (
            Open("a"),
            Open("b"),
            Alive("a"),
            Alive("b"),
            Open("c"),
            Expect(b"-ERR 'maximum connections exceeded'\r\n", on="c"),
            Closed("c"),
            Alive("a"),
            Alive("b"),
        ),
        "max_connections: 2\n",
        fresh=True,
    ),
    Row(
        54,
        "subscriptions",
        stays(
            CON + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB c 0\r\n\r\n",
            b"-ERR 'maximum subscriptions exceeded'\r\n",
        ),
        "max_subscriptions: 2\n",
    ),
    Row(
        54,
        "a sid in use at the limit",
        stays(
            CON + b"SUB a 1\r\nSUB b 2\r\nSUB a 1\r\n",
            b"-ERR 'maximum subscriptions exceeded'\r\n",
        ),
        "max_subscriptions: 2\n",
    ),
    Row(
        54,
        "UNSUB makes room",
        stays(
            CON + b"SUB a 1\r\nSUB b 2\r\nUNSUB 1\r\nSUB c 3\r\nPUB c 0\r\n\r\n",
            b"MSG c 3 0\r\n\r\n",
        ),
        "max_subscriptions: 2\n",
    ),
    Row(
        54,
        "tokens of a subscription",
        stays(
            CON + b"SUB a.b.c.d 1\r\nSUB a.b.c 2\r\nPUB a.b.c.d 0\r\n\r\nPUB a.b.c 0\r\n\r\n",
            b"-ERR 'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'\r\n",
            b"MSG a.b.c 2 0\r\n\r\n",
        ),
        "max_sub_tokens: 3\n",
    ),
]

# The subject is spelt as in the other permission violations.
SPELT = [
    Row(
        54,
        "tokens of a subscription with quotes",
        stays(
            CON + b'SUB a.b.c."d 1\r\n',
            b'-ERR \'Permissions Violation for Subscription to "a.b.c.\\"d", too many tokens\'\r\n',
        ),
        "max_sub_tokens: 3\n",
    ),
]

KEEPALIVE = 'ping_interval: "500ms"\nping_max: 2\n'
STALE: tuple[Step, ...] = (
    Wait(0.7),
    Expect(b"PING\r\n"),
    Wait(0.5),
    Expect(b"PING\r\n"),
    Wait(0.5),
    Expect(b"-ERR 'Stale Connection'\r\n"),
    Closed(),
)

LIVENESS = [
    Row(55, "silence before CONNECT", (Open(), *STALE), KEEPALIVE, countPings=True),
    Row(55, "silence after CONNECT", (Send(CON), *STALE), KEEPALIVE, countPings=True),
    Row(
        55,
        "PONG keeps a client",
        (
            Send(CON),
            Wait(0.7),
            *(Expect(b"PING\r\n"), Send(b"PONG\r\n"), Wait(0.5)) * 4,
            Expect(b"PING\r\n"),
            Alive(),
        ),
        KEEPALIVE,
        countPings=True,
    ),
]

LAME_DUCK = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "300ms"\n'

GOING = [
    Row(
        56,
        "protocol 1 learns",
        (
            Send(b'CONNECT {"verbose":false,"protocol":1}\r\n'),
            Send(b"PING\r\n"),
            Expect(b"PONG\r\n", Info({"connect_info": True})),
            Send(b'CONNECT {"verbose":false,"protocol":0}\r\nSUB foo 1\r\n', "old"),
            Alive("old"),
            Signal("USR2"),
            Expect(Info({"ldm": True})),
            Refused(),
            Alive("old"),
            Wait(3),
            Closed(),
            Closed("old"),
            Exits(0),
        ),
        LAME_DUCK,
        fresh=True,
    ),
    Row(
        56,
        "nobody is connected",
        (Signal("USR2"), Wait(3), Exits(0)),
        LAME_DUCK,
        fresh=True,
    ),
]

SLOW = [
    Row(
        58,
        "too much pending",
        (
            Send(CON + b"SUB foo 1\r\n", "slow"),
            Alive("slow"),
            Send(CON),
            Flood(b"PUB foo 32000\r\n" + b"x" * 32000 + b"\r\n", 800),
            Alive(),
            Logged("Slow Consumer Detected: MaxPending of 65536 Exceeded"),
            ClosedReason("Slow Consumer (Pending Bytes)"),
            ClosedWithout(b"-ERR", "slow"),
            Alive(),
        ),
        "max_pending: 65536\nmax_payload: 32768\n",
        fresh=True,
    ),
]

ONE_USER = "authorization { user: u, password: p }\n"


def permitted(subscribe: str) -> str:
    """
    @return: a configuration with one user who may subscribe to that.
    """
    user = f"{{ user: u, password: p, permissions: {{ subscribe: {subscribe} }} }}"
    return f"authorization {{ users: [ {user} ] }}\n"


RELOADS = [
    Row(
        59,
        "credentials become needed",
        (Send(CON), Alive(), Reload(ONE_USER), Expect(VIOLATION), Closed()),
        "max_payload: 2000\n",
        fresh=True,
    ),
    Row(
        59,
        "a subscription is no longer permitted",
        (
            Send(b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\nSUB foo 1\r\nSUB bar 2\r\n'),
            Alive(),
            Reload(permitted("bar")),
            Expect(b'-ERR \'Permissions Violation for Subscription to "foo" (sid "1")\'\r\n'),
            Send(b"PUB foo 0\r\n\r\nPUB bar 0\r\n\r\n"),
            Expect(b"MSG bar 2 0\r\n\r\n"),
            Alive(),
        ),
        permitted('["foo", "bar"]'),
        fresh=True,
    ),
    Row(
        59,
        "a smaller payload is not announced",
        (
            Send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'),
            Expect(b"PONG\r\n", Info({"max_payload": 2000})),
            Reload("max_payload: 1000\n"),
            Logged("Reloaded server configuration"),
            Alive(),
            Open("new", Info({"max_payload": 1000})),
        ),
        "max_payload: 2000\n",
        fresh=True,
    ),
    Row(
        59,
        "a bad file changes nothing",
        (
            Send(CON),
            Alive(),
            Reload("max_payload: 1000\nbogus: 1\n"),
            Logged("Failed to reload server configuration"),
            Alive(),
            Open("new", Info({"max_payload": 2000})),
        ),
        "max_payload: 2000\n",
        fresh=True,
    ),
]

ROWS = [*CONTROL_LINE, *SPLITS, *COUNTS, *SPELT, *LIVENESS, *GOING, *SLOW, *RELOADS]
