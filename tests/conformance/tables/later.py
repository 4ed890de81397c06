"""
Cases 60 to 64 and 67: effects on clients of features beyond the client protocol.
"""

from __future__ import annotations

from tests.conformance.rows import CON, OVERSIZE, Deviation, Row, ends, stays
from tests.conformance.steps import SendComposed
from tests.conformance.tables.permissions import cannotPublish, login
from tests.conformance.tokens import Identity
from tests.conformance.transcripts import Alive, Closed, Expect, Like, Send, Wait

SYSTEM = """
accounts {
    SYS { users: [ { user: sys, password: sys } ] }
    A { users: [ { user: a, password: a } ] }
}
system_account: SYS
"""

LIMITED = """
accounts {
    A {
        users: [ { user: a, password: a } ]
        limits { max_connections: 1, max_subscriptions: 2, max_payload: 100 }
    }
}
"""

MAPPED = """
mappings { "pub.in": "pub.out" }
authorization { users: [
    { user: u, password: u, permissions: { publish: "pub.in" } }
    { user: v, password: v, permissions: { publish: "pub.out" } }
    { user: free, password: free }
] }
"""

JETSTREAM = 'jetstream { store_dir: "$DIR/jetstream" }\n'

OPERATOR, ACCOUNT, USER = Identity("operator"), Identity("account"), Identity("user")
OPERATOR_MODE = f"""
operator: {OPERATOR.sign(OPERATOR, {})}
resolver: MEMORY
resolver_preload {{
    {ACCOUNT.name}: {
    OPERATOR.sign(
        ACCOUNT,
        {
            "limits": {
                "subs": -1,
                "data": -1,
                "payload": -1,
                "conn": -1,
                "leaf": -1,
                "imports": -1,
                "exports": -1,
                "wildcards": True,
            }
        },
    )
}
}}
"""


def shortLogin() -> bytes:
    """
    @return: the CONNECT of a user whose token expires soon.
    """
    claims = {"bearer_token": True, "subs": -1, "data": -1, "payload": -1}
    token = ACCOUNT.sign(USER, claims, lifetime=2)
    return f'CONNECT {{"verbose":false,"jwt":"{token}"}}\r\n'.encode()


def ask(subject: bytes, body: bytes) -> bytes:
    """
    @return: a request whose answer comes to the first subscription.
    """
    return b"PUB %s _INBOX.1 %d\r\n%s\r\n" % (subject, len(body), body)


EVENTS = [
    Row(
        60,
        "an event has two blanks for no reply",
        (
            Send(login("sys") + b"SUB $SYS.ACCOUNT.A.CONNECT 1\r\n"),
            Alive(),
            Send(login("a"), "client"),
            Alive("client"),
            Expect(Like(rb"MSG \$SYS\.ACCOUNT\.A\.CONNECT 1  \d+\r\n\{.*\}\r\n")),
        ),
        SYSTEM,
        fresh=True,
        deviation=Deviation(
            "a line about the broker looks like any other",
            (
                Send(login("sys") + b"SUB $SYS.ACCOUNT.A.CONNECT 1\r\n"),
                Alive(),
                Send(login("a"), "client"),
                Alive("client"),
                Expect(Like(rb"MSG \$SYS\.ACCOUNT\.A\.CONNECT 1 \d+\r\n\{.*\}\r\n")),
            ),
        ),
    ),
    Row(
        62,
        "a user asks who it is",
        (
            Send(login("a") + b"SUB _INBOX.1 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n\r\n"),
            Expect(Like(rb'MSG _INBOX\.1 1 \d+\r\n\{.*"data":\{"user":"a","account":"A".*\}\r\n')),
            Alive(),
        ),
        SYSTEM,
        fresh=True,
    ),
    Row(
        62,
        "a user without authorization asks who it is",
        (
            Send(CON + b"SUB _INBOX.1 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n\r\n"),
            Expect(Like(rb'MSG _INBOX\.1 1 \d+\r\n\{.*"account":"\$G".*\}\r\n')),
            Alive(),
        ),
        fresh=True,
    ),
]

STREAMS = [
    Row(
        61,
        "a pulled message has the stream's subject and the inbox's sid",
        (
            Send(
                CON
                + b"SUB _INBOX.1 1\r\n"
                + ask(b"$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
            ),
            Expect(Like(rb"MSG _INBOX\.1 1 \d+\r\n\{.*stream_create_response.*\}\r\n")),
            Send(
                ask(
                    b"$JS.API.CONSUMER.DURABLE.CREATE.S.C",
                    b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}',
                )
            ),
            Expect(Like(rb"MSG _INBOX\.1 1 \d+\r\n\{.*consumer_create_response.*\}\r\n")),
            Send(ask(b"s.b", b"hi")),
            Expect(Like(rb'MSG _INBOX\.1 1 \d+\r\n\{"stream":"S", ?"seq":1\}\r\n')),
            Send(ask(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"1")),
            Expect(Like(rb"MSG s\.b 1 \$JS\.ACK\.S\.C\.1\.1\.1\.\d+\.0 2\r\nhi\r\n")),
            Alive(),
        ),
        JETSTREAM,
        needs=("jetstream",),
        fresh=True,
    ),
]

EXPIRY = [
    Row(
        63,
        "a token ends while its user is connected",
        (
            SendComposed(shortLogin),
            Alive(),
            Wait(2),
            Expect(b"-ERR 'User Authentication Expired'\r\n"),
            Closed(),
        ),
        OPERATOR_MODE,
        fresh=True,
    ),
]

ACCOUNT_LIMITS = [
    Row(
        64,
        "connections of an account",
        (
            Send(login("a")),
            Alive(),
            Send(login("a"), "second"),
            Expect(b"-ERR 'maximum account active connections exceeded'\r\n", on="second"),
            Closed("second"),
            Alive(),
        ),
        LIMITED,
        needs=("account-limits",),
    ),
    Row(
        64,
        "subscriptions of an account",
        stays(
            login("a") + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n",
            b"-ERR 'maximum subscriptions exceeded'\r\n",
        ),
        LIMITED,
        needs=("account-limits",),
    ),
    Row(
        64,
        "payload of an account",
        ends(login("a") + b"PUB a 101\r\n", OVERSIZE),
        LIMITED,
        needs=("account-limits",),
    ),
]

MAPPING = [
    Row(
        67,
        "source allowed, destination not",
        (
            Send(login("free") + b"SUB pub.* 1\r\n", "free"),
            Alive("free"),
            *stays(login("u") + b"PUB pub.in 0\r\n\r\n", cannotPublish(b"pub.out")),
            Alive("free"),
        ),
        MAPPED,
        needs=("mapping",),
    ),
    Row(
        67,
        "destination allowed, source not",
        (
            Send(login("free") + b"SUB pub.* 1\r\n", "free"),
            Alive("free"),
            *stays(login("v") + b"PUB pub.in 0\r\n\r\n"),
            Expect(b"MSG pub.out 1 0\r\n\r\n", on="free"),
            Alive("free"),
        ),
        MAPPED,
        needs=("mapping",),
    ),
    Row(
        67,
        "both allowed",
        stays(
            login("free") + b"SUB pub.* 1\r\nPUB pub.in 2\r\nhi\r\n", b"MSG pub.out 1 2\r\nhi\r\n"
        ),
        MAPPED,
        needs=("mapping",),
    ),
]

ROWS = [*EVENTS, *STREAMS, *EXPIRY, *ACCOUNT_LIMITS, *MAPPING]
