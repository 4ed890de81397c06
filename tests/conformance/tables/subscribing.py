"""
Cases 30, 31, 36, 37 and 41 to 48: SUB, UNSUB, sids, overlapping patterns and queue groups.
"""

from __future__ import annotations

from tests.conformance.rows import CON, UNKNOWN, Deviation, Row, ends, stays
from tests.conformance.transcripts import Alive, AnyOrder, Expect, OneOf, Send

INVALID_SUBJECT = b"-ERR 'Invalid Subject'\r\n"
INVALID = (b"foo.", b".foo", b"foo..bar", b"foo.>.bar", b">.foo", b".", b">.>")
VALID = (
    b"foo.*",
    b"foo.>",
    b"*",
    b">",
    b"*.*",
    b"*.>",
    b"$SYS.foo",
    b"$JS.API.X",
    b"_INBOX.x",
    b"_R_.x",
    b"_GR_.x.y.z",
    b"$GR.x",
    b"$NRG.x",
)
LITERAL = {
    "star at the end of a token": b"foo*",
    "star inside a token": b"f*o",
    "two stars": b"**",
    "greater-than at the end of a token": b"foo>",
    "greater-than inside a subject": b"foo>.bar",
    "UTF-8": "foö".encode(),
    "invalid UTF-8": b"fo\xff\xfe",
    "quotes and backslash": b"f'o\"o\\",
    "comma and colon": b"f,o:o",
}
CONTROL = {"NUL": b"foo\x00bar", "BEL": b"foo\x07bar", "DEL": b"foo\x7f"}
REFUSES_CONTROL = (
    "control bytes in subjects are refused as an invalid subject: they have served to attack "
    "what stands behind a broker"
)

A, B, C = b"MSG foo 1 1\r\na\r\n", b"MSG foo 1 1\r\nb\r\n", b"MSG foo 1 1\r\nc\r\n"
TWO = b"PUB foo 1\r\na\r\nPUB foo 1\r\nb\r\n"
FIVE = TWO + b"PUB foo 1\r\nc\r\nPUB foo 1\r\nd\r\nPUB foo 1\r\ne\r\n"


def publish(subject: bytes) -> bytes:
    """
    @return: a client's subscription to a subject and publish to it.
    """
    return b"SUB %s 1\r\nPUB %s 2\r\nhi\r\n" % (subject, subject)


def delivery(subject: bytes) -> bytes:
    """
    @return: the output for L{publish}.
    """
    return b"MSG %s 1 2\r\nhi\r\n" % subject


SUBJECTS = [
    *(
        Row(30, f"SUB {s.decode()}", stays(CON + b"SUB %s 1\r\n" % s, INVALID_SUBJECT))
        for s in INVALID
    ),
    Row(
        30,
        "no OK for an invalid subject",
        stays(
            b"CONNECT {}\r\nSUB foo. 1\r\nSUB foo 2\r\n", b"+OK\r\n" + INVALID_SUBJECT + b"+OK\r\n"
        ),
    ),
    Row(
        30,
        "sid of an invalid subject stays free",
        stays(
            CON + b"SUB foo. 1\r\nSUB foo 1\r\nPUB foo 1\r\na\r\n",
            INVALID_SUBJECT + A,
        ),
    ),
    *(Row(31, f"SUB {s.decode()}", stays(CON + b"SUB %s 1\r\n" % s)) for s in VALID),
    *(Row(31, name, stays(CON + publish(s), delivery(s))) for name, s in LITERAL.items()),
    *(
        Row(
            31,
            name,
            stays(CON + publish(s), delivery(s)),
            deviation=Deviation(REFUSES_CONTROL, stays(CON + publish(s), INVALID_SUBJECT)),
        )
        for name, s in CONTROL.items()
    ),
    Row(
        31,
        "literal stars match themselves only",
        stays(
            CON + b"SUB f*o 1\r\nSUB foo> 2\r\n"
            b"PUB foo 1\r\na\r\nPUB foo.bar 1\r\na\r\nPUB f*o 1\r\nb\r\n",
            b"MSG f*o 1 1\r\nb\r\n",
        ),
    ),
    Row(
        31,
        "a thousand tokens",
        stays(
            CON + b"SUB a%s 1\r\nPUB a%s 1\r\na\r\n" % (b".b" * 1000, b".b" * 1000),
            b"MSG a%s 1 1\r\na\r\n" % (b".b" * 1000),
        ),
    ),
    *(
        Row(36, f"queue {q.decode()}", stays(CON + b"SUB foo %s 1\r\nPUB foo 1\r\na\r\n" % q, A))
        for q in (b"q.", b"q..1", b"*", b">", b"q.>", b".q", b"q")
    ),
    Row(
        36,
        "queue _sys_",
        stays(
            CON + b"SUB foo _sys_ 1\r\nPUB foo 1\r\na\r\n",
            b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n',
        ),
    ),
    Row(37, "SUB with one argument", ends(CON + b"SUB foo\r\n")),
    Row(37, "SUB with four arguments", ends(CON + b"SUB a b c d\r\n")),
    Row(37, "SUB with blanks only", ends(CON + b"SUB  \r\n")),
    Row(37, "SUB alone", ends(CON + b"SUB\r\n", UNKNOWN)),
]

UNSUBSCRIBING = [
    Row(
        41,
        "one more than delivered",
        stays(
            CON + b"SUB foo 1\r\n" + TWO + b"UNSUB 1 3\r\nPUB foo 1\r\nc\r\nPUB foo 1\r\nd\r\n",
            A + B + C,
        ),
    ),
    Row(41, "UNSUB with a maximum first", stays(CON + b"SUB foo 1\r\nUNSUB 1 2\r\n" + FIVE, A + B)),
    Row(
        41,
        "sid is free after the last",
        stays(
            CON + b"SUB foo 1\r\nUNSUB 1 1\r\n" + TWO + b"SUB bar 1\r\nPUB bar 1\r\nx\r\n",
            A + b"MSG bar 1 1\r\nx\r\n",
        ),
    ),
    *(
        Row(
            42,
            f"maximum {maximum} after two",
            stays(
                CON + b"SUB foo 1\r\n" + TWO + b"UNSUB 1 %d\r\nPUB foo 1\r\nc\r\n" % maximum, A + B
            ),
        )
        for maximum in (2, 1)
    ),
    *(
        Row(
            43,
            f"UNSUB {maximum.decode()}",
            stays(CON + b"SUB foo 1\r\nUNSUB 1 %s\r\nPUB foo 1\r\na\r\n" % maximum),
        )
        for maximum in (
            b"0",
            b"-1",
            b"garbage",
            b"1x",
            b"+1",
            b"99999999999999999999",
            b"1234567890",
        )
    ),
    Row(44, "UNSUB of an unknown sid", stays(CON + b"UNSUB 9\r\nUNSUB 9 3\r\n")),
    Row(
        44,
        "verbose UNSUB of an unknown sid",
        stays(b"CONNECT {}\r\nUNSUB 9\r\nPING\r\n", b"+OK\r\n+OK\r\nPONG\r\n"),
    ),
    Row(44, "UNSUB alone", ends(CON + b"UNSUB\r\n", UNKNOWN)),
    Row(44, "UNSUB with blanks only", ends(CON + b"UNSUB  \r\n")),
    Row(44, "UNSUB with three arguments", ends(CON + b"SUB foo 1\r\nUNSUB 1 2 3\r\n")),
    Row(
        44,
        "a later UNSUB without maximum",
        stays(CON + b"SUB foo 1\r\nUNSUB 1 5\r\nUNSUB 1\r\nPUB foo 1\r\na\r\n"),
    ),
    Row(
        44,
        "a later maximum lowers",
        stays(CON + b"SUB foo 1\r\nUNSUB 1 5\r\nUNSUB 1 3\r\n" + FIVE, A + B + C),
    ),
    Row(
        44,
        "a later maximum raises",
        stays(CON + b"SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n" + FIVE, A + B + C),
    ),
    Row(
        45,
        "a sid in use keeps its subject",
        stays(CON + b"SUB foo 1\r\nSUB bar 1\r\nPUB foo 1\r\na\r\nPUB bar 1\r\nb\r\n", A),
    ),
    Row(
        45,
        "the same subscription twice",
        stays(CON + b"SUB foo 1\r\nSUB foo 1\r\nPUB foo 1\r\na\r\n", A),
    ),
    Row(
        45,
        "verbose answer to a sid in use",
        stays(
            b"CONNECT {}\r\nSUB foo 1\r\nSUB bar 1\r\nPING\r\n", b"+OK\r\n+OK\r\n+OK\r\nPONG\r\n"
        ),
    ),
    Row(
        45,
        "a sid is free after UNSUB",
        stays(
            CON + b"SUB foo 1\r\nUNSUB 1\r\nSUB bar 1\r\nPUB foo 1\r\na\r\nPUB bar 1\r\nb\r\n",
            b"MSG bar 1 1\r\nb\r\n",
        ),
    ),
    Row(
        45,
        "a sid of odd bytes",
        stays(
            CON + b"SUB foo abc-DEF_!.*>\r\nSUB foo queue 1\r\nPUB foo 1\r\na\r\n",
            AnyOrder(A, b"MSG foo abc-DEF_!.*> 1\r\na\r\n"),
        ),
    ),
]

MATCHING = [
    Row(
        46,
        "plain and queue subscriptions of one client",
        stays(
            CON + b"SUB foo 1\r\nSUB foo 2\r\nSUB foo q 3\r\nSUB foo q 4\r\nPUB foo 1\r\na\r\n",
            AnyOrder(
                A,
                b"MSG foo 2 1\r\na\r\n",
                OneOf(b"MSG foo 3 1\r\na\r\n", b"MSG foo 4 1\r\na\r\n"),
            ),
        ),
    ),
    Row(
        46,
        "two queue groups",
        stays(
            CON + b"SUB foo p 1\r\nSUB foo p 2\r\nSUB foo q 3\r\nSUB foo q 4\r\nPUB foo 1\r\na\r\n",
            AnyOrder(
                OneOf(A, b"MSG foo 2 1\r\na\r\n"),
                OneOf(b"MSG foo 3 1\r\na\r\n", b"MSG foo 4 1\r\na\r\n"),
            ),
        ),
    ),
    Row(
        47,
        "overlapping patterns",
        stays(
            CON
            + b"SUB foo.bar 1\r\nSUB foo.* 2\r\nSUB foo.> 3\r\nSUB > 4\r\nPUB foo.bar 1\r\na\r\n",
            AnyOrder(*(b"MSG foo.bar %d 1\r\na\r\n" % sid for sid in (1, 2, 3, 4))),
        ),
    ),
    Row(
        47,
        "patterns that do not match",
        stays(
            CON
            + b"SUB foo 1\r\nSUB foo.*.* 2\r\nSUB foo.bar.> 3\r\nSUB *.baz 4\r\nSUB FOO.bar 5\r\n"
            b"SUB *.* 6\r\nPUB foo.bar 1\r\na\r\n",
            b"MSG foo.bar 6 1\r\na\r\n",
        ),
    ),
    Row(
        48,
        "one queue on two patterns gets one",
        stays(
            CON
            + b"SUB foo.* q 1\r\nSUB foo.> q 2\r\n"
            + b"PUB foo.bar 1\r\na\r\n" * 4
            + b"PING\r\n",
            *[OneOf(b"MSG foo.bar 1 1\r\na\r\n", b"MSG foo.bar 2 1\r\na\r\n")] * 4,
            b"PONG\r\n",
        ),
    ),
    Row(
        48,
        "a queue over two clients gets one",
        (
            Send(CON + b"SUB foo q 1\r\n"),
            Alive(),
            Send(CON + b"SUB foo q 2\r\nUNSUB 2\r\n", "b"),
            Alive("b"),
            Send(CON + FIVE, "c"),
            Alive("c"),
            Alive("b"),
            Expect(A + B + C + b"MSG foo 1 1\r\nd\r\nMSG foo 1 1\r\ne\r\n"),
            Alive(),
        ),
    ),
]

ROWS = [*SUBJECTS, *UNSUBSCRIBING, *MATCHING]
