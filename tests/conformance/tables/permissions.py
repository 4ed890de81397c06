"""
Cases 38 to 40: permissions to publish and to subscribe.
"""

from __future__ import annotations

from tests.conformance.rows import Deviation, Row, stays
from tests.conformance.transcripts import (
    Alive,
    Expect,
    Send,
    Sleep,
    Step,
)

USERS = """
authorization {
    users: [
        { user: r, password: r, permissions: {
            publish: { allow: ["req.>", "in.*"], deny: "req.secret" }
            subscribe: { allow: ["bar.>", "_INBOX.>", "baz q1", "jobs v*", "res.*"]
                         deny: ["bar.secret"] } } }
        { user: s, password: s, permissions: {
            subscribe: "svc"
            publish: { allow: ["out"] }
            allow_responses: { max: 2, expires: "1m" } } }
        { user: hasty, password: hasty, permissions: {
            subscribe: "svc"
            allow_responses: { max: 2, expires: "100ms" } } }
        { user: t, password: t, permissions: { subscribe: "svc", allow_responses: true } }
        { user: w, password: w, permissions: {
            publish: { deny: "a.x" }
            subscribe: { deny: "a.b" } } }
        { user: free, password: free }
        { user: hashed, password: "$2a$04$xG5NcvNwPr35i9TXLZglau7djxyogaOEcXzBBN0sHiXCR0zjsyE4K" }
    ]
}
"""
DEFAULTS = """
authorization {
    default_permissions: { publish: "d.>", subscribe: "d.>" }
    users: [ { user: u, password: p }, { user: v, password: v, permissions: { publish: "v" } } ]
}
"""


def login(user: str, verbose: bool = False, more: str = "") -> bytes:
    """
    @return: the CONNECT of a user whose password equals the name.
    """
    options = f'"verbose":{str(verbose).lower()},"pedantic":false'
    return f'CONNECT {{{options},"user":"{user}","pass":"{user}"{more}}}\r\n'.encode()


def cannotPublish(subject: bytes) -> bytes:
    """
    @return: the answer to a publish that is not permitted.
    """
    return b"-ERR 'Permissions Violation for Publish to \"%s\"'\r\n" % subject


def cannotSubscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """
    @return: the answer to a subscription that is not permitted.
    """
    using = b' using queue "%s"' % queue if queue else b""
    return b"-ERR 'Permissions Violation for Subscription to \"%s\"%s'\r\n" % (subject, using)


R, S, FREE = login("r"), login("s"), login("free")

DENIALS = [
    Row(38, "PUB", stays(R + b"PUB nope 2\r\nhi\r\n", cannotPublish(b"nope")), USERS),
    Row(
        38,
        "PUB denied in allowed",
        stays(R + b"PUB req.secret 0\r\n\r\n", cannotPublish(b"req.secret")),
        USERS,
    ),
    Row(
        38,
        "HPUB",
        stays(
            login("r", more=',"headers":true') + b"HPUB nope 12 12\r\nNATS/1.0\r\n\r\n\r\n",
            cannotPublish(b"nope"),
        ),
        USERS,
    ),
    Row(
        38,
        "verbose PUB has no OK",
        stays(
            login("r", verbose=True) + b"PUB nope 2\r\nhi\r\nPING\r\n",
            b"+OK\r\n" + cannotPublish(b"nope") + b"PONG\r\n",
        ),
        USERS,
    ),
    Row(38, "SUB", stays(R + b"SUB nope 1\r\n", cannotSubscribe(b"nope")), USERS),
    Row(
        38,
        "verbose SUB has no OK",
        stays(
            login("r", verbose=True) + b"SUB nope 1\r\nPING\r\n",
            b"+OK\r\n" + cannotSubscribe(b"nope") + b"PONG\r\n",
        ),
        USERS,
    ),
    Row(38, "queue SUB", stays(R + b"SUB nope q 1\r\n", cannotSubscribe(b"nope", b"q")), USERS),
    Row(
        38,
        "no 503 for a denied request",
        stays(
            login("r", more=',"headers":true,"no_responders":true')
            + b"SUB _INBOX.x 1\r\nPUB nope _INBOX.x 0\r\n\r\n",
            cannotPublish(b"nope"),
        ),
        USERS,
    ),
    Row(38, "allowed PUB and SUB", stays(R + b"SUB bar.x 1\r\nPUB req.x 0\r\n\r\n"), USERS),
    Row(
        38,
        "SUB denied exactly",
        stays(R + b"SUB bar.secret 1\r\n", cannotSubscribe(b"bar.secret")),
        USERS,
    ),
]

#: Names, and how an error message spells them: as Go does.
SPELLINGS = {
    "quotes and backslashes": (b'no"p\\e', b'no\\"p\\\\e'),
    "UTF-8": ("nöpe→😀".encode(), "nöpe→😀".encode()),
    "invalid UTF-8": (b"no\xffpe\xc3", b"no\\xffpe\\xc3"),
    "invisible characters": (
        "no\u00ad\u2028\U000e0001pe".encode(),
        b"no\\u00ad\\u2028\\U000e0001pe",
    ),
}

SPELT = [
    *(
        Row(
            38,
            f"PUB spells {name}",
            stays(R + b"PUB %s 0\r\n\r\n" % raw, cannotPublish(spelt)),
            USERS,
        )
        for name, (raw, spelt) in SPELLINGS.items()
    ),
    *(
        Row(
            38,
            f"SUB spells {name}",
            stays(R + b"SUB %s %s 1\r\n" % (raw, raw), cannotSubscribe(spelt, spelt)),
            USERS,
        )
        for name, (raw, spelt) in SPELLINGS.items()
    ),
]

CORNERS = [
    Row(
        39,
        "wider than allowed",
        stays(
            R + b"SUB > 1\r\nSUB * 2\r\nSUB *.x 3\r\nSUB res.* 4\r\n",
            cannotSubscribe(b">") + cannotSubscribe(b"*") + cannotSubscribe(b"*.x"),
        ),
        USERS,
    ),
    Row(
        39,
        "a full wildcard where a star is allowed",
        stays(R + b"SUB res.> 1\r\n"),
        USERS,
        deviation=Deviation(
            "the pattern is wider than what is allowed, so it is refused like every other such",
            stays(R + b"SUB res.> 1\r\n", cannotSubscribe(b"res.>")),
        ),
    ),
    *(
        Row(
            39,
            f"{pattern.decode()} over a denied subject is filtered",
            (
                Send(R + b"SUB %s 1\r\n" % pattern),
                Alive(),
                Send(FREE + b"PUB bar.secret 1\r\na\r\nPUB bar.x 1\r\nb\r\n", "free"),
                Alive("free"),
                Expect(b"MSG bar.x 1 1\r\nb\r\n"),
                Alive(),
            ),
            USERS,
        )
        for pattern in (b"bar.*", b"bar.>")
    ),
    Row(
        39,
        "UNSUB of a denied sid",
        stays(R + b"SUB nope 1\r\nUNSUB 1\r\nUNSUB 1 2\r\n", cannotSubscribe(b"nope")),
        USERS,
    ),
    Row(39, "reply subjects are not checked", stays(R + b"PUB req.x nope.x 0\r\n\r\n"), USERS),
    Row(
        39,
        "a wildcard in PUB is a literal",
        stays(R + b"PUB req.* 0\r\n\r\nPUB req.> 0\r\n\r\n"),
        USERS,
    ),
    Row(
        39, "queue allowed, plain not", stays(R + b"SUB baz 1\r\n", cannotSubscribe(b"baz")), USERS
    ),
    Row(39, "queue allowed", stays(R + b"SUB baz q1 1\r\n"), USERS),
    Row(39, "other queue", stays(R + b"SUB baz q2 1\r\n", cannotSubscribe(b"baz", b"q2")), USERS),
    Row(
        39,
        "queue names with a wildcard inside are literals",
        stays(R + b"SUB jobs v* 1\r\nSUB jobs v1 2\r\n", cannotSubscribe(b"jobs", b"v1")),
        USERS,
    ),
    Row(
        39,
        "deny only",
        stays(
            login("w")
            + b"PUB a.x 0\r\n\r\nSUB a.b 1\r\nSUB a.* 2\r\nPUB a.b 0\r\n\r\nPUB a.c 0\r\n\r\n",
            cannotPublish(b"a.x") + cannotSubscribe(b"a.b") + b"MSG a.c 2 0\r\n\r\n",
        ),
        USERS,
    ),
    Row(
        39,
        "a denied subject does not reach a queue member",
        (
            Send(R + b"SUB bar.* q 1\r\n"),
            Alive(),
            Send(FREE + b"SUB bar.* q 7\r\n" + b"PUB bar.secret 1\r\na\r\n" * 10, "free"),
            Expect(b"MSG bar.secret 7 1\r\na\r\n" * 10, on="free"),
            Alive("free"),
            Alive(),
        ),
        USERS,
    ),
    Row(
        39,
        "default permissions",
        stays(
            b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n'
            b"SUB d.x 1\r\nSUB e 2\r\nPUB e 0\r\n\r\n",
            cannotSubscribe(b"e") + cannotPublish(b"e"),
        ),
        DEFAULTS,
    ),
    Row(
        39,
        "own permissions in place of the default",
        stays(login("v") + b"SUB e 1\r\nPUB d.x 0\r\n\r\nPUB v 0\r\n\r\n", cannotPublish(b"d.x")),
        DEFAULTS,
    ),
]


def request(inbox: bytes) -> tuple[Step, ...]:
    """
    @return: steps in which a client sends a request, and the service receives it.
    """
    return (
        Send(b"PUB svc %s 1\r\nq\r\n" % inbox, "free"),
        Alive("free"),
        Expect(b"MSG svc 1 %s 1\r\nq\r\n" % inbox),
    )


def service(hello: bytes) -> tuple[Step, ...]:
    """
    @param hello: the service's CONNECT.
    @return: steps that connect a service and a client with all permissions.
    """
    return (
        Send(hello + b"SUB svc 1\r\n"),
        Alive(),
        Send(FREE + b"SUB _INBOX.> 1\r\n", "free"),
        Alive("free"),
    )


RESPONSES = [
    Row(
        40,
        "two responses",
        (
            *service(S),
            *request(b"_INBOX.a"),
            Send(b"PUB _INBOX.a 1\r\n1\r\nPUB _INBOX.a 1\r\n2\r\nPUB _INBOX.a 1\r\n3\r\n"),
            Expect(cannotPublish(b"_INBOX.a")),
            Alive(),
            Expect(b"MSG _INBOX.a 1 1\r\n1\r\nMSG _INBOX.a 1 1\r\n2\r\n", on="free"),
            Alive("free"),
        ),
        USERS,
    ),
    Row(
        40,
        "response too late",
        (
            *service(login("hasty")),
            *request(b"_INBOX.b"),
            Sleep(0.2),
            Send(b"PUB _INBOX.b 1\r\n1\r\n"),
            Expect(cannotPublish(b"_INBOX.b")),
            Alive(),
        ),
        USERS,
    ),
    Row(
        40,
        "response without a request",
        stays(
            S + b"SUB svc 1\r\nPUB _INBOX.z 0\r\n\r\nPUB out 0\r\n\r\n", cannotPublish(b"_INBOX.z")
        ),
        USERS,
    ),
    Row(
        40,
        "responses only",
        (
            Send(login("t") + b"SUB svc 1\r\nPUB any 0\r\n\r\n"),
            Expect(cannotPublish(b"any")),
            Alive(),
            Send(FREE + b"SUB _INBOX.> 1\r\n", "free"),
            Alive("free"),
            *request(b"_INBOX.c"),
            Send(b"PUB _INBOX.c 1\r\n1\r\nPUB _INBOX.c 1\r\n2\r\n"),
            Expect(cannotPublish(b"_INBOX.c")),
            Alive(),
            Expect(b"MSG _INBOX.c 1 1\r\n1\r\n", on="free"),
            Alive("free"),
        ),
        USERS,
    ),
]

ROWS = [
    *DENIALS,
    *SPELT,
    *CORNERS,
    *RESPONSES,
]
