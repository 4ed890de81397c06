"""
Cases 49 and 50: echo off, and the status for no responders.
"""

from __future__ import annotations

from tests.conformance.rows import CON, Row, stays
from tests.conformance.transcripts import Alive, Expect, Send

NO_ECHO = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
ASKING = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
NOBODY = b"PUB nobody _INBOX.x 0\r\n\r\n"


def nothing(sid: bytes, inbox: bytes = b"_INBOX.x", subject: bytes = b"nobody") -> bytes:
    """
    @return: the status for no responders.
    """
    header = b"NATS/1.0 503\r\nNats-Subject: %s\r\n\r\n" % subject
    return b"HMSG %s %s %d %d\r\n%s\r\n" % (inbox, sid, len(header), len(header), header)


ECHO = [
    Row(49, "own subscription", stays(NO_ECHO + b"SUB foo 1\r\nPUB foo 1\r\na\r\n")),
    Row(
        49,
        "another client's subscription",
        (
            Send(CON + b"SUB foo 7\r\n", "other"),
            Alive("other"),
            Send(NO_ECHO + b"SUB foo 1\r\nPUB foo 1\r\na\r\n"),
            Alive(),
            Expect(b"MSG foo 7 1\r\na\r\n", on="other"),
            Alive("other"),
        ),
    ),
    Row(
        49,
        "another client's messages",
        (
            Send(NO_ECHO + b"SUB foo 1\r\n"),
            Alive(),
            Send(CON + b"PUB foo 1\r\na\r\n", "other"),
            Alive("other"),
            Expect(b"MSG foo 1 1\r\na\r\n"),
            Alive(),
        ),
    ),
    Row(
        49,
        "own queue member is never chosen",
        (
            Send(CON + b"SUB foo q 7\r\n", "other"),
            Alive("other"),
            Send(NO_ECHO + b"SUB foo q 1\r\n" + b"PUB foo 1\r\na\r\n" * 10),
            Alive(),
            Expect(b"MSG foo 7 1\r\na\r\n" * 10, on="other"),
            Alive("other"),
        ),
    ),
    Row(
        49,
        "own subscription does not respond",
        stays(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":false}\r\n'
            b"SUB _INBOX.* 5\r\nSUB svc 6\r\nPUB svc _INBOX.abc 0\r\n\r\n",
            nothing(b"5", b"_INBOX.abc", b"svc"),
        ),
    ),
]

RESPONDERS = [
    Row(50, "nobody", stays(ASKING + b"SUB _INBOX.x 5\r\n" + NOBODY, nothing(b"5"))),
    Row(
        50,
        "nobody for a request with headers",
        stays(
            ASKING + b"SUB _INBOX.x 5\r\nHPUB nobody _INBOX.x 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
            nothing(b"5"),
        ),
    ),
    Row(50, "wildcard inbox", stays(ASKING + b"SUB _INBOX.* 5\r\n" + NOBODY, nothing(b"5"))),
    Row(50, "full wildcard inbox", stays(ASKING + b"SUB _INBOX.> 5\r\n" + NOBODY, nothing(b"5"))),
    Row(50, "no reply subject", stays(ASKING + b"SUB _INBOX.x 5\r\nPUB nobody 0\r\n\r\n")),
    Row(50, "inbox not subscribed", stays(ASKING + b"SUB _INBOX.y 5\r\n" + NOBODY)),
    Row(50, "inbox in a queue group", stays(ASKING + b"SUB _INBOX.x q 5\r\n" + NOBODY)),
    Row(
        50,
        "another client's inbox",
        (
            Send(ASKING + b"SUB _INBOX.x 5\r\n", "other"),
            Alive("other"),
            Send(ASKING + NOBODY),
            Alive(),
            Alive("other"),
        ),
    ),
    Row(50, "not asked for", stays(CON + b"SUB _INBOX.x 5\r\n" + NOBODY)),
    Row(
        50,
        "headers alone do not ask",
        stays(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.x 5\r\n' + NOBODY),
    ),
    Row(
        50,
        "does not count against the maximum",
        stays(
            ASKING
            + b"SUB _INBOX.x 5\r\nUNSUB 5 1\r\n"
            + NOBODY * 2
            + b"PUB _INBOX.x 1\r\na\r\n" * 2,
            nothing(b"5") * 2 + b"MSG _INBOX.x 5 1\r\na\r\n",
        ),
    ),
    Row(
        50,
        "comes after OK",
        stays(
            b'CONNECT {"headers":true,"no_responders":true}\r\nSUB _INBOX.* 5\r\n'
            + NOBODY
            + b"PING\r\n",
            b"+OK\r\n+OK\r\n+OK\r\n" + nothing(b"5") + b"PONG\r\n",
        ),
    ),
    Row(
        50,
        "somebody responds",
        (
            Send(CON + b"SUB svc 1\r\n", "service"),
            Alive("service"),
            Send(ASKING + b"SUB _INBOX.* 5\r\nPUB svc _INBOX.x 1\r\nq\r\n"),
            Alive(),
            Expect(b"MSG svc 1 _INBOX.x 1\r\nq\r\n", on="service"),
            Send(b"PUB _INBOX.x 1\r\nr\r\n", "service"),
            Alive("service"),
            Expect(b"MSG _INBOX.x 5 1\r\nr\r\n"),
            Alive(),
        ),
    ),
    Row(
        50,
        "a queue group responds",
        (
            Send(CON + b"SUB svc q 1\r\n", "service"),
            Alive("service"),
            Send(ASKING + b"SUB _INBOX.* 5\r\nPUB svc _INBOX.x 1\r\nq\r\n"),
            Alive(),
            Expect(b"MSG svc 1 _INBOX.x 1\r\nq\r\n", on="service"),
            Alive("service"),
        ),
    ),
]

ROWS = [*ECHO, *RESPONDERS]
