"""
What accounts exchange, on nats-server and on natsbroker: the same configuration, the same script,
the same bytes, save for random reply subjects and times.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.neighbours import Scenario, Step, hpub, play, pub
from tests.interop.servers import OURS, OURS_FAST, REAL, Flavour, Server, requireRealServer

CONFIG = """
accounts {
    A {
        users: [
            {user: a, password: x}
            {user: narrow, password: x, permissions {publish: [pub.out, "w.*"], subscribe: ">"}}
            {user: answers, password: x, permissions {
                publish: [nothing], subscribe: "req.>", allow_responses: true
            }}
        ]
        exports: [
            {stream: "pub.>"}, {stream: lit}, {stream: "q.*.*"}, {stream: "priv.>", accounts: [B]}
            {stream: "three.*.*.*"}
            {service: "req.*"}, {service: "str.>", response_type: stream}
            {service: "ch.>", response_type: chunked}, {service: "quick", threshold: "200ms"}
            {service: "acc.*.req", account_token_position: 2}
            {service: lat, latency: {sampling: 100, subject: lat.results}}
            {service: traced, latency: {sampling: headers, subject: lat.results}}
            {service: maps}, {service: "both.*"}, {stream: "both.*"}
        ]
        imports: [ {service: {account: A, subject: "req.own"}, to: own} ]
        mappings {
            pub.in: pub.out
            maps: maps2
            foo: bar
            "w.*": "w2.$1"
            "two.*.*": "owt.$2.$1"
            "part.*": "part.{{partition(3,1)}}.{{wildcard(1)}}"
            "cut.*": "cut2.{{splitFromLeft(1,2)}}.{{sliceFromRight(1,2)}}"
            "dash.*": "dashed.{{split(1,-)}}"
            lost: [ {dest: lost, weight: 0} ]
            rest: [ {dest: rest2, weight: 0} ]
        }
    }
    B {
        users: [
            {user: b, password: x}
            {user: picky, password: x, permissions {
                subscribe: {deny: ["fromA.pub.secret", "fromA.pub.shared q1"]}
            }}
            {user: asks, password: x, permissions {publish: [local.req]}}
        ]
        exports: [ {stream: "fromA.>"}, {service: chain}, {service: "r.same"} ]
        imports: [
            {stream: {account: A, subject: "pub.>"}, prefix: fromA}
            {stream: {account: A, subject: lit}, to: here.lit}
            {stream: {account: A, subject: "q.*.*"}, to: "t.$2.$1"}
            {stream: {account: A, subject: "priv.>"}}
            {stream: {account: A, subject: "both.*"}}
            {service: {account: A, subject: "req.x"}, to: local.req}
            {service: {account: A, subject: "req.*"}, to: "w.*", share: true}
            {service: {account: A, subject: "str.>"}}, {service: {account: A, subject: "ch.>"}}
            {service: {account: A, subject: "quick"}}
            {service: {account: A, subject: "acc.B.req"}}
            {service: {account: A, subject: lat}, to: my.lat}
            {service: {account: A, subject: traced}}
            {service: {account: A, subject: maps}}
            {service: {account: A, subject: "req.c"}, to: chain}
            {service: {account: A, subject: "req.any"}, to: "any.>"}
            {service: {account: A, subject: "req.two"}, to: same}
            {service: {account: D, subject: "two"}, to: same}
        ]
        mappings { m.in: local.req, m.from: fromA.pub.y }
    }
    C {
        users: [ {user: c, password: x} ]
        imports: [
            {stream: {account: B, subject: "fromA.>"}}
            {service: {account: B, subject: chain}, to: my.chain, share: true}
            {service: {account: A, subject: "both.*"}}
        ]
    }
    D { users: [ {user: d, password: x} ], exports: [ {service: two} ] }
}
"""

INBOX = Step("b", b"SUB inbox.> 1\r\n")


def mapping(name: str, *subjects: bytes) -> Scenario:
    """
    @return: somebody publishes to some subjects of an account with mappings.
    """
    published = b"".join(pub(subject, b"hi", b"reply") for subject in subjects)
    return Scenario(f"mapping {name}", [Step("a", b"SUB > 1\r\n"), Step("a/2", published)])


def stream(name: str, pattern: bytes, *subjects: bytes) -> Scenario:
    """
    @return: somebody in B subscribes, somebody in A publishes.
    """
    published = b"".join(pub(subject, b"hi", b"reply") for subject in subjects)
    steps = [Step("b", b"SUB %b 1\r\n" % pattern), Step("a", published)]
    return Scenario(f"stream {name}", steps)


def service(name: str, pattern: bytes, request: bytes, *answers: bytes) -> Scenario:
    """
    @return: somebody in A serves, somebody in B asks, and gets some answers.
    """
    steps = [INBOX, Step("a", b"SUB %b 1\r\n" % pattern), Step("b", request)]
    steps += [Step("a", pub(b"{reply}", answer)) for answer in answers]
    return Scenario(f"service {name}", steps)


MAPPINGS = [
    mapping("of a subject", b"foo", b"bar", b"foo.x", b"fo"),
    mapping("with wildcards", b"w.x", b"w.x.y", b"two.a.b", b"w.*"),
    mapping("to partitions", b"part.abc", b"part.xyz", b"part.x"),
    mapping("that cuts", b"cut.abcdef", b"cut.a", b"dash.a-b-c", b"dash.a--b", b"dash.a"),
    mapping("that loses", b"lost", b"rest"),
    Scenario(
        "mapping and headers",
        [Step("a", b"SUB > 1\r\n"), Step("a/2", hpub(b"foo", b"A: b\r\n", b"hi", b"r"))],
    ),
    Scenario(
        "mapping and permissions",
        [
            Step("a", b"SUB > 1\r\n"),
            *[Step("narrow", pub(s)) for s in (b"pub.in", b"pub.out", b"w.x", b"w2.x", b"foo")],
        ],
    ),
    Scenario(
        "mapping and nobody there",
        [Step("a", b"SUB in.* 1\r\n" + pub(b"foo", b"x", b"in.1") + pub(b"lost", b"x", b"in.2"))],
    ),
    Scenario(
        "mapping, verbose and pedantic",
        [
            Step("a", b"SUB > 1\r\n"),
            Step("a/2", pub(b"foo") + pub(b"lost") + pub(b"foo.") + pub(b"w.*")),
        ],
        {"a/2": {"verbose": True, "pedantic": True}},
    ),
    Scenario(
        "mapping to an import",
        [INBOX, Step("a", b"SUB req.* 1\r\n"), Step("b", pub(b"m.in", b"?", b"inbox.1"))],
    ),
    Scenario(
        "mapping does not map what is imported",
        [Step("b", b"SUB > 1\r\n"), Step("a", pub(b"pub.in")), Step("b/2", pub(b"m.from"))],
    ),
]

STREAMS = [
    stream("with a prefix", b"fromA.pub.x", b"pub.x", b"pub.y"),
    stream("of everything", b"fromA.>", b"pub.x", b"pub.x.y", b"lit"),
    stream("that is one subject", b"here.lit", b"lit", b"lit.x"),
    stream("without another name", b"priv.z", b"priv.z", b"priv.y"),
    stream("renamed", b"t.b.a", b"q.a.b", b"q.b.a"),
    stream("renamed, first wildcard", b"t.*.a", b"q.a.b", b"q.b.a"),
    stream("renamed, second wildcard", b"t.b.*", b"q.a.b", b"q.b.a"),
    stream("renamed, all", b"t.>", b"q.a.b", b"q.b.a"),
    stream("overlapping from the left", b"*.b.a", b"q.a.b", b"pub.b.a"),
    stream("overlapping in the middle", b"*.pub.*", b"pub.z", b"pub.z.z", b"lit"),
    stream("overlapping at the end", b"*.*.z", b"pub.z", b"pub.z.z", b"q.z.x"),
    stream("and everything else", b">", b"pub.x.y", b"lit", b"q.a.b", b"priv.z", b"other"),
    Scenario(
        "stream to several subscriptions",
        [
            Step("b", b"SUB fromA.pub.x 1\r\nSUB fromA.> 2\r\nSUB fromA.pub.x 3\r\nSUB > 4\r\n"),
            Step("b/2", b"SUB fromA.pub.* 1\r\n"),
            Step("a", b"SUB pub.x 9\r\n" + pub(b"pub.x")),
        ],
    ),
    Scenario(
        "stream to queue groups",
        [
            Step("b", b"SUB fromA.pub.z q 1\r\nSUB fromA.> q 2\r\nSUB fromA.pub.z r 3\r\n"),
            Step("a", pub(b"pub.z") + pub(b"pub.z") + pub(b"pub.z")),
        ],
        anyMember=True,
    ),
    Scenario(
        "stream with headers and without",
        [
            Step("b", b"SUB fromA.> 1\r\n"),
            Step("b/2", b"SUB fromA.> 2\r\n"),
            Step("a", hpub(b"pub.x", b"A: b\r\n", b"hi", b"r") + pub(b"pub.x", b"", b"r")),
        ],
        {"b/2": {"headers": False, "no_responders": False}},
    ),
    Scenario(
        "stream that is not passed on",
        [
            Step("c", b"SUB fromA.> 1\r\n"),
            Step("a", pub(b"pub.x")),
            Step("b", pub(b"fromA.pub.x")),
        ],
    ),
    Scenario(
        "stream, both ways closed",
        [
            Step("a", b"SUB > 1\r\n"),
            Step("c", b"SUB > 1\r\n"),
            Step("b", pub(b"pub.x") + pub(b"fromA.pub.x") + pub(b"priv.x")),
        ],
    ),
    Scenario(
        "stream, unsubscribed",
        [
            Step("b", b"SUB fromA.> 1\r\nSUB fromA.pub.x 2\r\n"),
            Step("b", b"UNSUB 1\r\n"),
            Step("a", pub(b"pub.x") + pub(b"pub.y")),
            Step("b", b"UNSUB 2\r\n"),
            Step("a", pub(b"pub.x")),
            Step("b", b"SUB fromA.> 1\r\n"),
            Step("a", pub(b"pub.x")),
        ],
    ),
    Scenario(
        "stream, subscriber gone",
        [
            Step("b", b"SUB fromA.> 1\r\n"),
            Step("a", b"SUB in.> 1\r\n" + pub(b"pub.x", b"hi", b"in.1")),
            Step("b", ends=True),
            Step("a", quiet=0.1),
            Step("a", pub(b"pub.x", b"hi", b"in.2")),
        ],
    ),
    Scenario(
        "stream and denied subjects",
        [
            Step("picky", b"SUB fromA.pub.* 1\r\nSUB fromA.pub.secret 2\r\n"),
            Step("a", pub(b"pub.secret") + pub(b"pub.open")),
            Step("picky", b"UNSUB 1\r\nSUB fromA.pub.* q1 3\r\n"),
            Step("a", pub(b"pub.secret") + pub(b"pub.shared") + pub(b"pub.open")),
        ],
    ),
    Scenario(
        "stream and responders",
        [
            Step("b", b"SUB fromA.pub.x 1\r\n"),
            Step(
                "a", b"SUB in.> 1\r\n" + pub(b"pub.x", b"", b"in.1") + pub(b"pub.y", b"", b"in.2")
            ),
        ],
    ),
    Scenario(
        "stream without echo",
        [
            Step("b", b"SUB fromA.> 1\r\n" + pub(b"fromA.pub.x") + pub(b"pub.x")),
            Step("a", pub(b"pub.x")),
        ],
        {"b": {"echo": False}},
    ),
]

SERVICES = [
    service("that answers", b"req.*", pub(b"local.req", b"?", b"inbox.1"), b"yes", b"again"),
    service("without an answer", b"req.*", pub(b"local.req", b"?")),
    service("that is not there", b"other", pub(b"local.req", b"?", b"inbox.1")),
    service("that is not there and not asked", b"other", pub(b"local.req", b"?")),
    service("that is told who asks", b"req.*", pub(b"w.z", b"?", b"inbox.1"), b"yes"),
    service(
        "that is not lied to",
        b"req.*",
        hpub(
            b"w.z",
            b"A: b\r\nNats-Request-Info: {}\r\nB: c\r\nNats-Request-Info:{}\r\n",
            b"?",
            b"inbox.1",
        ),
        b"yes",
    ),
    service("with many subjects here", b"req.*", pub(b"any.a.b.c", b"?", b"inbox.1"), b"yes"),
    service("that streams", b"str.>", pub(b"str.a", b"?", b"inbox.1"), b"1", b"2", b"", b"3"),
    service("in chunks", b"ch.>", pub(b"ch.a", b"?", b"inbox.1"), b"1", b"2", b"", b"3"),
    service("that is mapped there", b"maps2", pub(b"maps", b"?", b"inbox.1"), b"yes"),
    service("by name", b"acc.>", pub(b"acc.B.req", b"?", b"inbox.1"), b"yes"),
    service("by another name", b"acc.>", pub(b"acc.C.req", b"?", b"inbox.1")),
    service("of two accounts", b"req.*", pub(b"same", b"?", b"inbox.1"), b"yes"),
    Scenario(
        "service that answers with headers",
        [
            INBOX,
            Step("a", b"SUB req.* 1\r\n"),
            Step("b", pub(b"local.req", b"?", b"inbox.1")),
            Step("a", hpub(b"{reply}", b"A: b\r\n", b"")),
        ],
    ),
    Scenario(
        "service in chunks with headers only",
        [
            INBOX,
            Step("a", b"SUB ch.> 1\r\n"),
            Step("b", pub(b"ch.a", b"?", b"inbox.1")),
            Step("a", hpub(b"{reply}", b"A: b\r\n", b"")),
            Step("a", pub(b"{reply}", b"more")),
        ],
    ),
    Scenario(
        "service that asks back",
        [
            INBOX,
            Step("a", b"SUB req.* 1\r\nSUB back.* 2\r\n"),
            Step("b", pub(b"local.req", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"who?", b"back.1")),
            Step("b", pub(b"{reply}", b"me")),
            Step("b", pub(b"{reply}", b"me again")),
        ],
    ),
    Scenario(
        "service with a queue group",
        [
            INBOX,
            Step("a", b"SUB req.* q 1\r\n"),
            Step("a/2", b"SUB req.* q 1\r\nSUB other 2\r\n"),
            Step("a", b"UNSUB 1\r\n"),
            Step("b", pub(b"local.req", b"1", b"inbox.1") + pub(b"local.req", b"2", b"inbox.2")),
            Step("a/2", pub(b"{reply}", b"to the second")),
        ],
    ),
    Scenario(
        "service and a subscriber here",
        [
            Step("b", b"SUB inbox.> 1\r\nSUB local.req 2\r\n"),
            Step("a", b"SUB req.x 1\r\n"),
            Step("b/2", pub(b"local.req", b"?", b"inbox.1")),
        ],
    ),
    Scenario(
        "service and permissions of whoever asks",
        [
            Step("asks", b"SUB inbox.> 1\r\n"),
            Step("a", b"SUB req.* 1\r\n"),
            Step("asks", pub(b"local.req", b"?", b"inbox.1")),
            Step("asks", pub(b"w.z", b"?", b"inbox.1")),
            Step("asks", pub(b"req.x", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"yes")),
        ],
    ),
    Scenario(
        "service that may only answer",
        [
            INBOX,
            Step("answers", b"SUB req.* 1\r\n"),
            Step("b", pub(b"local.req", b"?", b"inbox.1")),
            Step("answers", pub(b"{reply}", b"yes")),
            Step("answers", pub(b"{reply}", b"again")),
            Step("answers", pub(b"inbox.1", b"directly")),
        ],
    ),
    Scenario(
        "service through two accounts",
        [
            Step("c", b"SUB inbox.> 1\r\n"),
            Step("a", b"SUB req.* 1\r\n"),
            Step("b", b"SUB > 9\r\n"),
            Step("c", pub(b"my.chain", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"yes")),
            Step("a", pub(b"{reply}", b"again")),
        ],
    ),
    Scenario(
        "service through two accounts that is not there",
        [Step("c", b"SUB inbox.> 1\r\n" + pub(b"my.chain", b"?", b"inbox.1"))],
    ),
    Scenario(
        "service through two accounts, asked in a mapping's name",
        [
            Step("c", b"SUB inbox.> 1\r\n"),
            Step("a", b"SUB req.* 1\r\n"),
            Step("c", hpub(b"my.chain", b"Nats-Request-Info: {}\r\nA: b\r\n", b"?", b"inbox.1")),
        ],
    ),
    Scenario(
        "service of its own account",
        [
            Step("a", b"SUB inbox.> 1\r\nSUB req.* 2\r\n"),
            Step("a/2", pub(b"own", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"yes")),
        ],
    ),
    Scenario(
        "service that is a stream too",
        [
            Step("b", b"SUB both.* 1\r\n"),
            Step("a", b"SUB both.* 1\r\n"),
            Step("c", pub(b"both.x", b"request")),
            Step("a", pub(b"both.x", b"message")),
        ],
    ),
    Scenario(
        "service, nobody waits any more",
        [
            Step("b", b"SUB inbox.1 1\r\n"),
            Step("a", b"SUB req.* 1\r\n"),
            Step("b", pub(b"local.req", b"?", b"inbox.1")),
            Step("b", b"UNSUB 1\r\nSUB inbox.2 2\r\nSUB inbox.1 3\r\n"),
            Step("a", pub(b"{reply}", b"late")),
        ],
    ),
    Scenario(
        "service, one answer wanted",
        [
            Step("b", b"SUB inbox.1 1\r\nUNSUB 1 1\r\n"),
            Step("a", b"SUB str.> 1\r\n"),
            Step("b", pub(b"str.x", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"1") + pub(b"{reply}", b"2")),
        ],
    ),
    Scenario(
        "service that takes too long",
        [
            INBOX,
            Step("a", b"SUB quick 1\r\n"),
            Step("b", pub(b"quick", b"?", b"inbox.1")),
            Step("a", quiet=0.6),
            Step("a", pub(b"{reply}", b"late")),
            Step("b", pub(b"quick", b"?", b"inbox.2")),
            Step("a", pub(b"{reply}", b"in time")),
        ],
    ),
    Scenario(
        "service, verbose",
        [
            INBOX,
            Step("a", b"SUB req.* 1\r\n"),
            Step("b/2", b"SUB in.> 1\r\n" + pub(b"local.req", b"?", b"in.1")),
            Step("a", pub(b"{reply}", b"yes")),
        ],
        {"b/2": {"verbose": True}},
    ),
    Scenario(
        "service, reserved subjects",
        [
            INBOX,
            Step("a", b"SUB req.* 1\r\nSUB inbox.> 2\r\n"),
            Step("b", pub(b"local.req", b"?", b"_R_.a.b")),
            Step("a", pub(b"_R_.aaaaaa.bbbbbb", b"forged", b"inbox.1")),
            Step("b", pub(b"local.req", b"?", b"inbox.1")),
            Step("b", pub(b"{reply}", b"mine")),
        ],
    ),
]

LATENCY = [
    Scenario(
        "latency of an answer",
        [
            INBOX,
            Step("a", b"SUB lat 1\r\nSUB lat.results 2\r\n"),
            Step("b", pub(b"my.lat", b"?", b"inbox.1")),
            Step("a", pub(b"{reply}", b"yes"), awaits=("a", 1)),
        ],
    ),
    Scenario(
        "latency of a request without a reply",
        [
            Step("a", b"SUB lat 1\r\nSUB lat.results 2\r\n"),
            Step("b", pub(b"my.lat", b"?"), awaits=("a", 2)),
        ],
    ),
    Scenario(
        "latency of nobody",
        [
            INBOX,
            Step("a", b"SUB lat.results 2\r\n"),
            Step("b", pub(b"my.lat", b"?", b"inbox.1"), awaits=("a", 1)),
        ],
    ),
    Scenario(
        "latency of what is not wanted any more",
        [
            Step("b", b"SUB inbox.1 1\r\n"),
            Step("a", b"SUB lat 1\r\nSUB lat.results 2\r\n"),
            Step("b", pub(b"my.lat", b"?", b"inbox.1")),
            Step("b", b"UNSUB 1\r\n", awaits=("a", 1)),
        ],
    ),
    *[
        Scenario(
            f"latency by headers: {headers}",
            [
                INBOX,
                Step("a", b"SUB traced 1\r\nSUB lat.results 2\r\n"),
                Step("b", hpub(b"traced", headers.encode() + b"\r\n", b"?", b"inbox.1")),
                Step("a", pub(b"{reply}", b"yes"), awaits=("a", 1) if isTraced else None),
            ],
        )
        for headers, isTraced in (
            ("X-B3-Sampled: 1\r\nX-B3-TraceId: a", True),
            ("X-B3-Sampled: 0", False),
            ("Uber-Trace-Id: a:b:c:1\r\nUberctx-x: y", True),
            ("B3: a-b-1", True),
            ("traceparent: 00-a-b-01\r\ntracestate: c=d", True),
            ("traceparent: 00-a-b-00", False),
            ("A: b", False),
        )
    ],
]

SCENARIOS = [*MAPPINGS, *STREAMS, *SERVICES, *LATENCY]

#: Each of ours with its lanes, and the readable path alone.
VARIANTS = [(flavour, True) for flavour in OURS] + [(OURS_FAST, False)]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The real server."""
    requireRealServer()
    server = Server(REAL, tmp_path_factory.mktemp("real"), CONFIG).start()
    yield server
    server.stop()


@pytest.fixture(
    scope="module",
    params=VARIANTS,
    ids=[f"{flavour.name}-{'lane' if lane else 'readable'}" for flavour, lane in VARIANTS],
)
def ours(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One of ours."""
    flavour, hasLane = request.param
    config = CONFIG if hasLane else CONFIG + "fast_lane: false\n"
    server = Server(flavour, tmp_path_factory.mktemp("ours"), config).start()
    yield server
    server.stop()


def test_enough() -> None:
    """There are enough scenarios to mean something, each with a name of its own."""
    assert len(SCENARIOS) > 60
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_sameBytes(scenario: Scenario, ours: Server, oracle: Server) -> None:
    """Every client sees the same."""
    assert play(ours, scenario) == play(oracle, scenario)


class TestDeviations:
    """Where natsbroker means to do otherwise."""

    def test_autoUnsubscribe(self, ours: Server, oracle: Server) -> None:
        """A subscription that ends after some messages counts imported ones, too."""
        scenario = Scenario(
            "",
            [
                Step("b", b"SUB priv.z 1\r\nUNSUB 1 2\r\n"),
                Step("a", pub(b"priv.z") * 4),
            ],
        )
        assert [len(play(server, scenario)[1]["b"]) for server in (ours, oracle)] == [2, 4]

    def test_forged(self, ours: Server, oracle: Server) -> None:
        """Nobody says who asks in another spelling, either."""
        headers = b"nats-request-info: x\r\nNATS-REQUEST-INFO: x\r\nNats-Request-Info : x\r\n"
        scenario = service("", b"req.*", hpub(b"w.z", headers, b"?", b"inbox.1"))
        counts = [
            play(server, scenario)[2]["a"][0].lower().count(b"nats-request-info")
            for server in (ours, oracle)
        ]
        assert counts == [1, 4]

    def test_noBlock(self, ours: Server, oracle: Server) -> None:
        """Headers that are none do not go along."""
        request = b"HPUB w.z inbox.1 4 5\r\nabcd?\r\n"
        scenario = service("", b"req.*", request)
        heads = [
            play(server, scenario)[2]["a"][0].partition(b"\r\n")[2][:10]
            for server in (ours, oracle)
        ]
        assert heads == [b"NATS/1.0\r\n", b"abNats-Req"]


RELOADED = """
accounts {
    A {
        users: [ {user: a, password: x} ]
        exports: [ {stream: "pub.>"}, {stream: "other.>"}, {service: req}, {service: req2} ]
    }
    B { users: [ {user: b, password: x} ], %s }
}
"""
BEFORE = """
    imports: [
        {stream: {account: A, subject: "pub.>"}, prefix: x}
        {service: {account: A, subject: req}, to: ask}
    ]
    mappings { in: out }
"""
AFTER = """
    imports: [
        {stream: {account: A, subject: "other.>"}, prefix: x}
        {service: {account: A, subject: req2}, to: ask}
    ]
    mappings { in: there }
"""
LIVE = Scenario(
    "",
    [
        Step("b", b"SUB > 1\r\n"),
        Step("a", b"SUB req 1\r\nSUB req2 2\r\n"),
        Step("a", pub(b"pub.1") + pub(b"other.1")),
        Step("b", pub(b"in")),
        Step("b", pub(b"ask")),
    ],
)


@pytest.mark.parametrize("flavour", [REAL, *OURS], ids=lambda flavour: flavour.name)
def test_reload(flavour: Flavour, startServer: StartServer) -> None:
    """Imports and mappings change while clients are connected, and clients stay."""
    server = startServer(flavour, RELOADED % BEFORE)
    before = play(server, LIVE)
    assert [list(seen) for seen in before[2:]] == [["b"], ["b"], ["a", "b"]]
    assert b"x.pub.1" in before[2]["b"][0]
    server.writeConfig(RELOADED % AFTER)
    length = server.logLength()
    server.signal("HUP")
    server.waitForLog("Reloaded server configuration", length)
    after = play(server, LIVE)
    assert b"x.other.1" in after[2]["b"][0]
    assert b"MSG there" in after[3]["b"][0]
    assert b"MSG req2" in after[4]["a"][0]


@pytest.mark.parametrize("flavour", [REAL, *OURS], ids=lambda flavour: flavour.name)
def test_refusedAtStart(flavour: Flavour, tmp_path: Path) -> None:
    """An import that leads back to where it came from does not start."""
    config = """
    accounts {
        A { exports: [ {service: f} ], imports: [ {service: {account: B, subject: g}, to: f} ] }
        B { exports: [ {service: g} ], imports: [ {service: {account: A, subject: f}, to: g} ] }
    }
    """
    if flavour is REAL:
        requireRealServer()
    with pytest.raises(RuntimeError, match="import forms a cycle"):
        Server(flavour, tmp_path, config).start()
