"""
Cases 19 to 29, 32 to 35, 66 and 68: PUB, HPUB, payloads, headers and permitted subjects.
"""

from __future__ import annotations

from tests.conformance.rows import CON, HEADERS, OVERSIZE, PEDANTIC, UNKNOWN, Row, ends, stays
from tests.conformance.steps import Finish
from tests.conformance.transcripts import Alive, AnyOrder, Closed, Expect, Send, Step

HI = b"MSG foo 1 2\r\nhi\r\n"
SUB = CON + b"SUB foo 1\r\n"
HSUB = HEADERS + b"SUB foo 1\r\n"
SMALL = "max_payload: 1024\n"
K = b"x" * 1024
BAD_SUBJECT = b"-ERR 'Invalid Publish Subject'\r\n"


def denied(subject: bytes) -> bytes:
    """
    @return: the answer to a publish on a reserved subject.
    """
    return b"-ERR 'Permissions Violation for Publish to \"%s\"'\r\n" % subject


def deniedReply(subject: bytes) -> bytes:
    """
    @return: the answer to a publish with a reserved reply subject.
    """
    return b"-ERR 'Permissions Violation for Publish with Reply of \"%s\"'\r\n" % subject


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


BAD_ARGUMENTS = {
    "no size": b"PUB foo\r\nhi\r\n",
    "four arguments": b"PUB foo bar baz 2\r\nhi\r\n",
    "negative size": b"PUB foo -1\r\nhi\r\n",
    "size with a sign": b"PUB foo +5\r\nhello\r\n",
    "size in hexadecimal": b"PUB foo 0x5\r\nhello\r\n",
    "size in letters": b"PUB foo abc\r\nhi\r\n",
    "size of ten digits": b"PUB foo 0000000002\r\nhi\r\n",
    "size of twenty digits": b"PUB foo 99999999999999999999\r\nhi\r\n",
    "blank arguments": b"PUB  \r\n",
}

BAD_HEADER_ARGUMENTS = {
    "header longer than all": b"HPUB foo 14 12\r\nNATS/1.0\r\n\r\n\r\n",
    "negative header size": b"HPUB foo -1 12\r\nNATS/1.0\r\n\r\n\r\n",
    "negative size": b"HPUB foo 12 -1\r\nNATS/1.0\r\n\r\n\r\n",
    "two arguments": b"HPUB foo 12\r\nNATS/1.0\r\n\r\n\r\n",
    "one argument": b"HPUB foo\r\nNATS/1.0\r\n\r\n\r\n",
    "five arguments": b"HPUB foo r s 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    "header size in letters": b"HPUB foo x 12\r\nNATS/1.0\r\n\r\n\r\n",
}

ARGUMENTS = [
    *(Row(19, f"PUB {name}", ends(SUB + sent)) for name, sent in BAD_ARGUMENTS.items()),
    Row(19, "PUB alone", ends(SUB + b"PUB\r\n", UNKNOWN)),
    Row(
        20,
        "leading zeros",
        stays(
            SUB + b"PUB foo 002\r\nhi\r\nPUB foo 000\r\n\r\n",
            b"MSG foo 1 002\r\nhi\r\nMSG foo 1 000\r\n\r\n",
        ),
    ),
    Row(
        20,
        "leading zeros with headers",
        stays(
            HSUB + b"HPUB foo 012 0014\r\nNATS/1.0\r\n\r\nhi\r\n",
            b"HMSG foo 1 012 0014\r\nNATS/1.0\r\n\r\nhi\r\n",
        ),
    ),
    Row(
        20,
        "nine digits",
        stays(SUB + b"PUB foo 000000002\r\nhi\r\n", b"MSG foo 1 000000002\r\nhi\r\n"),
    ),
    Row(21, "one byte too many", ends(CON + b"PUB foo 1048577\r\n", OVERSIZE)),
    Row(21, "nine digits too many", ends(CON + b"PUB foo 999999999\r\n", OVERSIZE)),
    Row(
        21,
        "deliveries before it arrive",
        ends(SUB + b"PUB foo 2\r\nhi\r\nPUB foo 1048577\r\n", HI + OVERSIZE),
    ),
    Row(
        21,
        "just the limit",
        stays(SUB + b"PUB foo 1024\r\n" + K + b"\r\n", b"MSG foo 1 1024\r\n" + K + b"\r\n"),
        config=SMALL,
    ),
    Row(21, "just over a set limit", ends(SUB + b"PUB foo 1025\r\n", OVERSIZE), config=SMALL),
    Row(
        21,
        "headers count too",
        ends(HSUB + b"HPUB foo 12 1025\r\nNATS/1.0\r\n\r\n", OVERSIZE),
        config=SMALL,
    ),
    Row(
        21,
        "headers and payload just the limit",
        stays(
            HSUB + b"HPUB foo 12 1024\r\nNATS/1.0\r\n\r\n" + K[12:] + b"\r\n",
            b"HMSG foo 1 12 1024\r\nNATS/1.0\r\n\r\n" + K[12:] + b"\r\n",
        ),
        config=SMALL,
    ),
    Row(
        22,
        "empty payload",
        stays(
            SUB + b"PUB foo 0\r\n\r\nPUB foo bar 0\r\n\r\n",
            b"MSG foo 1 0\r\n\r\nMSG foo 1 bar 0\r\n\r\n",
        ),
    ),
    Row(22, "empty payload without its CRLF", ends(SUB + b"PUB foo 0\r\nPING\r\n", UNKNOWN)),
    Row(23, "size too small", ends(SUB + b"PUB foo 1\r\nhi\r\n", UNKNOWN)),
    Row(23, "size too big", ends(SUB + b"PUB foo 3\r\nhi\r\nPING\r\n", UNKNOWN)),
    Row(
        24,
        "operations in a payload",
        stays(
            SUB + b"PUB foo 14\r\nhi\r\nPUB x 1\r\ny\r\n",
            b"MSG foo 1 14\r\nhi\r\nPUB x 1\r\ny\r\n",
        ),
    ),
    Row(
        24,
        "any bytes in a payload",
        stays(
            SUB + b"PUB foo 256\r\n" + bytes(range(256)) + b"\r\n",
            b"MSG foo 1 256\r\n" + bytes(range(256)) + b"\r\n",
        ),
    ),
]

WITH_HEADERS = [
    Row(
        25,
        "HPUB",
        stays(
            HSUB + b"HPUB foo 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n",
            b"HMSG foo 1 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n",
        ),
    ),
    Row(
        25,
        "HPUB with a reply",
        stays(
            HSUB + b"HPUB foo rep 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n",
            b"HMSG foo 1 rep 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n",
        ),
    ),
    Row(
        25,
        "headers only",
        stays(
            HSUB + b"HPUB foo 22 22\r\nNATS/1.0\r\nBar: Baz\r\n\r\n\r\n",
            b"HMSG foo 1 22 22\r\nNATS/1.0\r\nBar: Baz\r\n\r\n\r\n",
        ),
    ),
    Row(
        25,
        "PUB to a receiver with headers",
        stays(HSUB + b"PUB foo r 2\r\nhi\r\n", b"MSG foo 1 r 2\r\nhi\r\n"),
    ),
    Row(26, "HPUB without headers", ends(SUB + b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")),
    Row(26, "HPUB before CONNECT", ends(b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")),
    *(Row(26, f"HPUB {name}", ends(HSUB + sent)) for name, sent in BAD_HEADER_ARGUMENTS.items()),
    Row(26, "HPUB alone", ends(HSUB + b"HPUB\r\n", UNKNOWN)),
    Row(
        27,
        "header bytes are not looked at",
        stays(HSUB + b"HPUB foo 4 6\r\nabcdhi\r\n", b"HMSG foo 1 4 6\r\nabcdhi\r\n"),
    ),
    Row(27, "empty header", stays(HSUB + b"HPUB foo 0 2\r\nhi\r\n", HI)),
    Row(
        28,
        "receiver without headers",
        (
            Send(CON + b"SUB foo 9\r\n", "old"),
            Alive("old"),
            Send(HSUB + b"HPUB foo rep 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n"),
            Expect(b"HMSG foo 1 rep 22 24\r\nNATS/1.0\r\nBar: Baz\r\n\r\nhi\r\n"),
            Alive(),
            Expect(b"MSG foo 9 rep 2\r\nhi\r\n", on="old"),
            Alive("old"),
        ),
    ),
    Row(
        28,
        "receiver without headers of headers only",
        (
            Send(CON + b"SUB foo 9\r\n", "old"),
            Alive("old"),
            Send(HEADERS + b"HPUB foo 22 22\r\nNATS/1.0\r\nBar: Baz\r\n\r\n\r\n"),
            Alive(),
            Expect(b"MSG foo 9 0\r\n\r\n", on="old"),
            Alive("old"),
        ),
    ),
    Row(
        29,
        "headers keep order, case and doubles",
        stays(
            HSUB + b"HPUB foo 30 30\r\nNATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n\r\n",
            b"HMSG foo 1 30 30\r\nNATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n\r\n",
        ),
    ),
]

INVALID = (b"foo.", b".foo", b"foo..bar", b".", b"..")
WILDCARDS = (b"foo.*", b"foo.>", b"*", b">")
RESERVED = (b"_GR_.x.y.z", b"_GR_.abcdef.ghijkl.x", b"$GR.x", b"$NRG.x")
ALLOWED = (b"$SYS.foo", b"_R_.x", b"$GNR.a", b"$JS.ACK.a", b"foo*", b"f*o", b"foo>", "fö".encode())
RESERVED_REPLIES = (b"_R_.abc", b"_R_.", b"$JS.ACK.a.b", b"_GR_.x.y.z", b"$GR.x", b"$GR.abcd.x")
ALLOWED_REPLIES = (
    *(b"rep.*", b">", b"foo..", b".foo", b"$SYS.x", b"$NRG.x"),
    *(b"$JS.ACK.", b"_GR_.", b"$GR."),
)

SUBJECTS = [
    *(
        Row(32, f"PUB {subject.decode()}", stays(CON + b"SUB > 1\r\nPUB %s 2\r\nhi\r\n" % subject))
        for subject in INVALID
    ),
    *(
        Row(
            32,
            f"pedantic PUB {subject.decode()}",
            stays(PEDANTIC + b"SUB > 1\r\nPUB %s 2\r\nhi\r\n" % subject, BAD_SUBJECT),
        )
        for subject in INVALID
    ),
    Row(
        33,
        "a wildcard reaches its own pattern only",
        stays(
            CON + b"SUB foo.* 1\r\nSUB foo.bar 2\r\nPUB foo.* 2\r\nhi\r\n",
            b"MSG foo.* 1 2\r\nhi\r\n",
        ),
    ),
    *(
        Row(33, f"PUB {subject.decode()}", stays(CON + publish(subject), delivery(subject)))
        for subject in WILDCARDS
    ),
    *(
        Row(
            33,
            f"pedantic PUB {subject.decode()}",
            stays(PEDANTIC + publish(subject), BAD_SUBJECT + delivery(subject)),
        )
        for subject in WILDCARDS
    ),
    *(
        Row(34, f"reserved {subject.decode()}", stays(CON + publish(subject), denied(subject)))
        for subject in RESERVED
    ),
    *(
        Row(34, f"allowed {subject.decode()}", stays(CON + publish(subject), delivery(subject)))
        for subject in ALLOWED
    ),
    *(
        Row(
            34,
            f"pedantic allowed {subject.decode()}",
            stays(PEDANTIC + publish(subject), delivery(subject)),
        )
        for subject in ALLOWED
    ),
    *(
        Row(
            35,
            f"reserved reply {reply.decode()}",
            stays(SUB + b"PUB foo %s 2\r\nhi\r\n" % reply, deniedReply(reply)),
        )
        for reply in RESERVED_REPLIES
    ),
    *(
        Row(
            35,
            f"allowed reply {reply.decode()}",
            stays(SUB + b"PUB foo %s 2\r\nhi\r\n" % reply, b"MSG foo 1 %s 2\r\nhi\r\n" % reply),
        )
        for reply in ALLOWED_REPLIES
    ),
]

SPELT = [
    Row(
        34,
        "reserved subject with quotes",
        stays(CON + b'PUB $GR."x\\ 0\r\n\r\n', denied(b'$GR.\\"x\\\\')),
    ),
    Row(
        35,
        "reserved reply with quotes",
        stays(CON + b'PUB foo _R_."x\\ 0\r\n\r\n', deniedReply(b'_R_.\\"x\\\\')),
    ),
]

MANY = 50

ORDER = [
    Row(
        66,
        "a subscriber gets one publisher's messages in order",
        stays(
            CON
            + b"SUB n.> 1\r\n"
            + b"".join(b"PUB n.%d 0\r\n\r\n" % i for i in range(MANY))
            + b"PING\r\n",
            b"".join(b"MSG n.%d 1 0\r\n\r\n" % i for i in range(MANY)) + b"PONG\r\n",
        ),
    ),
    Row(
        66,
        "order at another subscriber",
        (
            Send(CON + b"SUB n.> 1\r\n", "other"),
            Alive("other"),
            Send(CON + b"".join(b"PUB n.%d 0\r\n\r\n" % i for i in range(MANY))),
            Alive(),
            Expect(b"".join(b"MSG n.%d 1 0\r\n\r\n" % i for i in range(MANY)), on="other"),
            Alive("other"),
        ),
    ),
    Row(
        66,
        "order over SUB and UNSUB in one packet",
        stays(
            CON + b"SUB a 1\r\nPUB a 1\r\n0\r\nSUB a 2\r\nPUB a 1\r\n1\r\n"
            b"UNSUB 1\r\nPUB a 1\r\n2\r\nUNSUB 2\r\nPUB a 1\r\n3\r\nPING\r\n",
            b"MSG a 1 1\r\n0\r\n",
            AnyOrder(b"MSG a 1 1\r\n1\r\n", b"MSG a 2 1\r\n1\r\n"),
            b"MSG a 2 1\r\n2\r\nPONG\r\n",
        ),
    ),
    Row(
        68,
        "verbose PUB to an invalid subject",
        stays(
            b'CONNECT {"pedantic":false}\r\nPUB foo. 2\r\nhi\r\nPING\r\n',
            b"+OK\r\n+OK\r\nPONG\r\n",
        ),
    ),
    Row(
        68,
        "verbose and pedantic PUB to an invalid subject",
        stays(
            b"CONNECT {}\r\nPUB foo. 2\r\nhi\r\nPING\r\n",
            b"+OK\r\n" + BAD_SUBJECT + b"+OK\r\nPONG\r\n",
        ),
    ),
]

LAST_WORDS = CON + b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n"


def finishing(times: int) -> tuple[Step, ...]:
    """
    @return: steps in which clients send bytes and close their sending side at once, as a shell's
        pipe into a socket does. The close may arrive with the last bytes or after them.
    """
    steps: list[Step] = []
    for number in range(times):
        on = f"{number}"
        steps += [Send(LAST_WORDS, on), Finish(on), Expect(HI + b"PONG\r\n", on=on), Closed(on)]
    return tuple(steps)


FINISHING = [Row(66, "a client that sends no more gets its answers", finishing(200))]

ROWS = [*ARGUMENTS, *WITH_HEADERS, *SUBJECTS, *SPELT, *ORDER, *FINISHING]
