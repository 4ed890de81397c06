"""
Exports and imports of accounts, compared with nats-server. The same configuration and script have
the same output, except for random reply subjects and times.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.neighbours import Scenario, Step, answer, ask, hpub, play, pub, scenario, sub
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

#: Somebody in B waits for answers; somebody in A serves; somebody in B asks.
INBOX = "b", sub(b"inbox.>")
SERVES = "a", sub(b"req.*")
ASKS = "b", ask(b"local.req")

#: Somebody in A hears everything; somebody in B hears what comes from A with a prefix.
HEARS_A = "a", sub(b">")
HEARS_B = "b", sub(b"fromA.>")


def mapping(name: str, *subjects: bytes) -> Scenario:
    """
    @return: a scenario that publishes to subjects of an account with mappings.
    """
    published = b"".join(pub(subject, b"hi", b"reply") for subject in subjects)
    return scenario(f"mapping {name}", HEARS_A, ("a/2", published))


def stream(name: str, pattern: bytes, *subjects: bytes) -> Scenario:
    """
    @return: a scenario with a subscriber in account B and a publisher in A.
    """
    published = b"".join(pub(subject, b"hi", b"reply") for subject in subjects)
    return scenario(f"stream {name}", ("b", sub(pattern)), ("a", published))


def service(name: str, pattern: bytes, request: bytes, *answers: bytes) -> Scenario:
    """
    @return: a scenario with a service in account A, and a requestor in B that gets answers.
    """
    said = [("a", answer(reply)) for reply in answers]
    return scenario(f"service {name}", INBOX, ("a", sub(pattern)), ("b", request), *said)


def latency(name: str, request: bytes, *, serves: bytes = b"lat", isTold: bool = True) -> Scenario:
    """
    @return: a scenario in which a client in A serves and receives the latency, and a client in B
        sends a request and gets an answer.
    """
    return scenario(
        f"latency {name}",
        INBOX,
        ("a", sub(serves, b"lat.results")),
        ("b", request),
        Step("a", answer(b"yes"), awaits=("a", 1) if isTold else None),
    )


MAPPINGS = [
    mapping("of a subject", b"foo", b"bar", b"foo.x", b"fo"),
    mapping("with wildcards", b"w.x", b"w.x.y", b"two.a.b", b"w.*"),
    mapping("to partitions", b"part.abc", b"part.xyz", b"part.x"),
    mapping("that cuts", b"cut.abcdef", b"cut.a", b"dash.a-b-c", b"dash.a--b", b"dash.a"),
    mapping("that loses", b"lost", b"rest"),
    scenario("mapping and headers", HEARS_A, ("a/2", hpub(b"foo", b"A: b\r\n", b"hi", b"r"))),
    scenario(
        "mapping and permissions",
        HEARS_A,
        *(("narrow", pub(subject)) for subject in (b"pub.in", b"pub.out", b"w.x", b"w2.x", b"foo")),
    ),
    scenario(
        "mapping and nobody there",
        ("a", sub(b"in.*") + pub(b"foo", b"x", b"in.1") + pub(b"lost", b"x", b"in.2")),
    ),
    scenario(
        "mapping, verbose and pedantic",
        HEARS_A,
        ("a/2", pub(b"foo") + pub(b"lost") + pub(b"foo.") + pub(b"w.*")),
        options={"a/2": {"verbose": True, "pedantic": True}},
    ),
    scenario("mapping to an import", INBOX, SERVES, ("b", ask(b"m.in"))),
    scenario(
        "mapping does not map what is imported",
        ("b", sub(b">")),
        ("a", pub(b"pub.in")),
        ("b/2", pub(b"m.from")),
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
    scenario(
        "stream to several subscriptions",
        ("b", sub(b"fromA.pub.x", b"fromA.>", b"fromA.pub.x", b">")),
        ("b/2", sub(b"fromA.pub.*")),
        ("a", b"SUB pub.x 9\r\n" + pub(b"pub.x")),
    ),
    scenario(
        "stream to queue groups",
        ("b", sub(b"fromA.pub.z q", b"fromA.> q", b"fromA.pub.z r")),
        ("a", pub(b"pub.z") * 3),
        anyMember=True,
    ),
    scenario(
        "stream with headers and without",
        HEARS_B,
        ("b/2", b"SUB fromA.> 2\r\n"),
        ("a", hpub(b"pub.x", b"A: b\r\n", b"hi", b"r") + pub(b"pub.x", b"", b"r")),
        options={"b/2": {"headers": False, "no_responders": False}},
    ),
    scenario(
        "stream that is not passed on",
        ("c", sub(b"fromA.>")),
        ("a", pub(b"pub.x")),
        ("b", pub(b"fromA.pub.x")),
    ),
    scenario(
        "stream, both ways closed",
        HEARS_A,
        ("c", sub(b">")),
        ("b", pub(b"pub.x") + pub(b"fromA.pub.x") + pub(b"priv.x")),
    ),
    scenario(
        "stream, unsubscribed",
        ("b", sub(b"fromA.>", b"fromA.pub.x")),
        ("b", b"UNSUB 1\r\n"),
        ("a", pub(b"pub.x") + pub(b"pub.y")),
        ("b", b"UNSUB 2\r\n"),
        ("a", pub(b"pub.x")),
        HEARS_B,
        ("a", pub(b"pub.x")),
    ),
    scenario(
        "stream, subscriber gone",
        HEARS_B,
        ("a", sub(b"in.>") + pub(b"pub.x", b"hi", b"in.1")),
        Step("b", ends=True),
        Step("a", quiet=0.1),
        ("a", pub(b"pub.x", b"hi", b"in.2")),
    ),
    scenario(
        "stream and denied subjects",
        ("picky", sub(b"fromA.pub.*", b"fromA.pub.secret")),
        ("a", pub(b"pub.secret") + pub(b"pub.open")),
        ("picky", b"UNSUB 1\r\nSUB fromA.pub.* q1 3\r\n"),
        ("a", pub(b"pub.secret") + pub(b"pub.shared") + pub(b"pub.open")),
    ),
    scenario(
        "stream and responders",
        ("b", sub(b"fromA.pub.x")),
        ("a", sub(b"in.>") + pub(b"pub.x", b"", b"in.1") + pub(b"pub.y", b"", b"in.2")),
    ),
    scenario(
        "stream without echo",
        ("b", sub(b"fromA.>") + pub(b"fromA.pub.x") + pub(b"pub.x")),
        ("a", pub(b"pub.x")),
        options={"b": {"echo": False}},
    ),
]

SERVICES = [
    service("that answers", b"req.*", ask(b"local.req"), b"yes", b"again"),
    service("without an answer", b"req.*", pub(b"local.req", b"?")),
    service("that is not there", b"other", ask(b"local.req")),
    service("that is not there and not asked", b"other", pub(b"local.req", b"?")),
    service("that learns the requester", b"req.*", ask(b"w.z"), b"yes"),
    service(
        "that is not lied to",
        b"req.*",
        ask(b"w.z", headers=b"A: b\r\nNats-Request-Info: {}\r\nB: c\r\nNats-Request-Info:{}\r\n"),
        b"yes",
    ),
    service("with many subjects here", b"req.*", ask(b"any.a.b.c"), b"yes"),
    service("that streams", b"str.>", ask(b"str.a"), b"1", b"2", b"", b"3"),
    service("in chunks", b"ch.>", ask(b"ch.a"), b"1", b"2", b"", b"3"),
    service("that is mapped there", b"maps2", ask(b"maps"), b"yes"),
    service("by name", b"acc.>", ask(b"acc.B.req"), b"yes"),
    service("by another name", b"acc.>", ask(b"acc.C.req")),
    service("of two accounts", b"req.*", ask(b"same"), b"yes"),
    scenario(
        "service that answers with headers",
        INBOX,
        SERVES,
        ASKS,
        ("a", hpub(b"{reply}", b"A: b\r\n", b"")),
    ),
    scenario(
        "service in chunks with headers only",
        INBOX,
        ("a", sub(b"ch.>")),
        ("b", ask(b"ch.a")),
        ("a", hpub(b"{reply}", b"A: b\r\n", b"")),
        ("a", answer(b"more")),
    ),
    scenario(
        "service that asks back",
        INBOX,
        ("a", sub(b"req.*", b"back.*")),
        ASKS,
        ("a", answer(b"who?", b"back.1")),
        ("b", answer(b"me")),
        ("b", answer(b"me again")),
    ),
    scenario(
        "service with a queue group",
        INBOX,
        ("a", sub(b"req.* q")),
        ("a/2", sub(b"req.* q", b"other")),
        ("a", b"UNSUB 1\r\n"),
        ("b", pub(b"local.req", b"1", b"inbox.1") + pub(b"local.req", b"2", b"inbox.2")),
        ("a/2", answer(b"to the second")),
    ),
    scenario(
        "service and a subscriber here",
        ("b", sub(b"inbox.>", b"local.req")),
        ("a", sub(b"req.x")),
        ("b/2", ask(b"local.req")),
    ),
    scenario(
        "service and permissions of the requester",
        ("asks", sub(b"inbox.>")),
        SERVES,
        ("asks", ask(b"local.req")),
        ("asks", ask(b"w.z")),
        ("asks", ask(b"req.x")),
        ("a", answer(b"yes")),
    ),
    scenario(
        "service that may only answer",
        INBOX,
        ("answers", sub(b"req.*")),
        ASKS,
        ("answers", answer(b"yes")),
        ("answers", answer(b"again")),
        ("answers", pub(b"inbox.1", b"directly")),
    ),
    scenario(
        "service through two accounts",
        ("c", sub(b"inbox.>")),
        SERVES,
        ("b", b"SUB > 9\r\n"),
        ("c", ask(b"my.chain")),
        ("a", answer(b"yes")),
        ("a", answer(b"again")),
    ),
    scenario(
        "service through two accounts that is not there",
        ("c", sub(b"inbox.>") + ask(b"my.chain")),
    ),
    scenario(
        "service through two accounts, asked in a mapping's name",
        ("c", sub(b"inbox.>")),
        SERVES,
        ("c", ask(b"my.chain", headers=b"Nats-Request-Info: {}\r\nA: b\r\n")),
    ),
    scenario(
        "service of its own account",
        ("a", sub(b"inbox.>", b"req.*")),
        ("a/2", ask(b"own")),
        ("a", answer(b"yes")),
    ),
    scenario(
        "service that is a stream too",
        ("b", sub(b"both.*")),
        ("a", sub(b"both.*")),
        ("c", pub(b"both.x", b"request")),
        ("a", pub(b"both.x", b"message")),
    ),
    scenario(
        "service, nobody waits any more",
        ("b", sub(b"inbox.1")),
        SERVES,
        ASKS,
        ("b", b"UNSUB 1\r\nSUB inbox.2 2\r\nSUB inbox.1 3\r\n"),
        ("a", answer(b"late")),
    ),
    scenario(
        "service, one answer wanted",
        ("b", sub(b"inbox.1") + b"UNSUB 1 1\r\n"),
        ("a", sub(b"str.>")),
        ("b", ask(b"str.x")),
        ("a", answer(b"1") + answer(b"2")),
    ),
    scenario(
        "service that takes too long",
        INBOX,
        ("a", sub(b"quick")),
        ("b", ask(b"quick")),
        Step("a", quiet=0.6),
        ("a", answer(b"late")),
        ("b", ask(b"quick", b"inbox.2")),
        ("a", answer(b"in time")),
    ),
    scenario(
        "service, verbose",
        INBOX,
        SERVES,
        ("b/2", sub(b"in.>") + ask(b"local.req", b"in.1")),
        ("a", answer(b"yes")),
        options={"b/2": {"verbose": True}},
    ),
    scenario(
        "service, reserved subjects",
        INBOX,
        ("a", sub(b"req.*", b"inbox.>")),
        ("b", ask(b"local.req", b"_R_.a.b")),
        ("a", pub(b"_R_.aaaaaa.bbbbbb", b"forged", b"inbox.1")),
        ASKS,
        ("b", answer(b"mine")),
    ),
]

LATENCY = [
    latency("of an answer", ask(b"my.lat")),
    scenario(
        "latency of a request without a reply",
        ("a", sub(b"lat", b"lat.results")),
        Step("b", pub(b"my.lat", b"?"), awaits=("a", 2)),
    ),
    scenario(
        "latency of nobody",
        INBOX,
        ("a", b"SUB lat.results 2\r\n"),
        Step("b", ask(b"my.lat"), awaits=("a", 1)),
    ),
    scenario(
        "latency of what is not wanted any more",
        ("b", sub(b"inbox.1")),
        ("a", sub(b"lat", b"lat.results")),
        ("b", ask(b"my.lat")),
        Step("b", b"UNSUB 1\r\n", awaits=("a", 1)),
    ),
    *(
        latency(
            f"by headers: {headers}",
            ask(b"traced", headers=headers.encode() + b"\r\n"),
            serves=b"traced",
            isTold=isTraced,
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
    ),
]

SCENARIOS = [*MAPPINGS, *STREAMS, *SERVICES, *LATENCY]

#: Each of ours with its lanes, and the readable path alone.
VARIANTS = [(flavour, True) for flavour in OURS] + [(OURS_FAST, False)]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """nats-server."""
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
    """One of our servers."""
    flavour, hasLane = request.param
    config = CONFIG if hasLane else CONFIG + "fast_lane: false\n"
    server = Server(flavour, tmp_path_factory.mktemp("ours"), config).start()
    yield server
    server.stop()


def test_enoughScenarios() -> None:
    """There are enough scenarios, each with a unique name."""
    assert len(SCENARIOS) > 60
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_sameBytes(scenario: Scenario, ours: Server, oracle: Server) -> None:
    """Every client receives the same bytes from both servers."""
    assert play(ours, scenario) == play(oracle, scenario)


class TestDeviations:
    """Intended differences of natsbroker."""

    def test_autoUnsubscribe(self, ours: Server, oracle: Server) -> None:
        """The maximum of a subscription counts imported messages too."""
        played = scenario("", ("b", sub(b"priv.z") + b"UNSUB 1 2\r\n"), ("a", pub(b"priv.z") * 4))
        assert [len(play(server, played)[1]["b"]) for server in (ours, oracle)] == [2, 4]

    def test_forged(self, ours: Server, oracle: Server) -> None:
        """Headers that describe the requestor are dropped in any spelling."""
        headers = b"nats-request-info: x\r\nNATS-REQUEST-INFO: x\r\nNats-Request-Info : x\r\n"
        played = service("", b"req.*", ask(b"w.z", headers=headers))
        counts = [
            play(server, played)[2]["a"][0].lower().count(b"nats-request-info")
            for server in (ours, oracle)
        ]
        assert counts == [1, 4]

    def test_noBlock(self, ours: Server, oracle: Server) -> None:
        """Malformed headers are not passed on."""
        request = b"HPUB w.z inbox.1 4 5\r\nabcd?\r\n"
        played = service("", b"req.*", request)
        heads = [
            play(server, played)[2]["a"][0].partition(b"\r\n")[2][:10] for server in (ours, oracle)
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
LIVE = scenario(
    "",
    ("b", sub(b">")),
    ("a", sub(b"req", b"req2")),
    ("a", pub(b"pub.1") + pub(b"other.1")),
    ("b", pub(b"in")),
    ("b", pub(b"ask")),
)


@pytest.mark.parametrize("flavour", [REAL, *OURS], ids=lambda flavour: flavour.name)
def test_reload(flavour: Flavour, startServer: StartServer) -> None:
    """A reload may change imports and mappings while clients are connected, and clients stay."""
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
    """A configuration with a cycle of imports does not start."""
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
