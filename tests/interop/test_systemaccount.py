"""
Requests of the system account, compared with nats-server's for the same clients: the same keys in
the same order with values of the same types, and the same refusals. Each difference has a reason.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import pytest

from tests.interop.monitored import (
    ABSENT,
    EXTRA,
    AskingClient,
    Monitored,
    assertSamePlaces,
    assertSameShape,
    fetched,
    readBy,
)
from tests.interop.plainclients import Leafnode
from tests.interop.readers import PLAIN, ExpectedAnswer
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

CONFIG = """
server_name: mon
server_tags: [eu]
system_account: "$SYS"
leafnodes { listen: "127.0.0.1:-1" }
gateway { name: here, listen: "127.0.0.1:-1" }
accounts {
  A { users: [ { user: a, password: a } ]
      imports: [ { service: { account: "$SYS", subject: "$SYS.DEBUG.SUBSCRIBERS" } } ] }
  C { users: [ { user: c, password: c } ] }
  D { users: [ { user: d, password: d } ]
      imports: [ { service: { account: "$SYS", subject: "$SYS.DEBUG.SUBSCRIBERS" }, to: count
                   share: true } ] }
  $SYS { users: [ { user: s, password: s } ], exports: [ { service: "$SYS.DEBUG.SUBSCRIBERS" } ] }
}
"""

#: Requests behind C{$SYS.REQ.}, where C{ID} is the server's.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("SERVER.PING", {}),
    ("SERVER.PING.STATSZ", {}),
    ("SERVER.PING.STATSZ", {"host": "127", "tags": ["EU"]}),
    ("SERVER.PING.IDZ", {}),
    ("SERVER.PING.VARZ", {"unknown": 1}),
    ("SERVER.PING.CONNZ", {}),
    ("SERVER.PING.CONNZ", {"subscriptions": True}),
    ("SERVER.PING.CONNZ", {"subscriptions_detail": True, "auth": True}),
    ("SERVER.PING.CONNZ", {"state": 1}),
    ("SERVER.PING.CONNZ", {"cid": 99}),
    ("SERVER.PING.CONNZ", {"acc": "A", "limit": -1}),
    ("SERVER.PING.CONNZ", {"user": "a"}),
    ("SERVER.PING.CONNZ", {"filter_subject": "foo.>", "acc": "A"}),
    ("SERVER.PING.CONNZ", {"acc": "A", "subscriptions_detail": True, "auth": True}),
    ("SERVER.PING.CONNZ", {"acc": "A", "state": 1, "subscriptions": True, "auth": True}),
    ("SERVER.PING.SUBSZ", {}),
    ("SERVER.PING.SUBSZ", {"subscriptions": True, "test": "foo.1"}),
    ("SERVER.PING.ROUTEZ", {"subscriptions": True}),
    ("SERVER.PING.GATEWAYZ", {"name": "x", "accounts": True, "account_name": "A"}),
    ("SERVER.PING.LEAFZ", {"subscriptions": True, "account": "A"}),
    ("SERVER.PING.ACCOUNTZ", {}),
    ("SERVER.PING.ACCOUNTZ", {"account": "A"}),
    ("SERVER.PING.JSZ", {"accounts": True}),
    ("SERVER.PING.IPQUEUESZ", {"filter": "none"}),
    ("SERVER.PING.RAFTZ", {}),
    *((f"SERVER.ID.{kind}", {}) for kind in ("STATSZ", "IDZ", "VARZ", "CONNZ", "JSZ", "HEALTHZ")),
    ("ACCOUNT.A.CONNZ", {"subscriptions": True}),
    ("ACCOUNT.C.CONNZ", {}),
    ("ACCOUNT.A.CONNZ", {"state": 2, "subscriptions_detail": True, "auth": True}),
    ("ACCOUNT.A.LEAFZ", {"subscriptions": True}),
    ("ACCOUNT.$SYS.INFO", {}),
    ("ACCOUNT.A.LEAFZ", {}),
    ("ACCOUNT.A.INFO", {}),
    ("ACCOUNT.A.CONNS", {}),
    ("ACCOUNT.A.STATZ", {}),
    ("ACCOUNT.PING.STATZ", {}),
    ("ACCOUNT.PING.STATZ", {"accounts": ["C"], "include_unused": True}),
    ("ACCOUNT.NO.SUBSZ", {}),
]

#: Requests whose answers have rows in any order: of connections with the same figures, for example.
UNSORTED: list[tuple[str, dict[str, Any]]] = [
    ("ACCOUNT.A.SUBSZ", {}),
    *(
        ("SERVER.PING.CONNZ", {"sort": sort, "state": state})
        for sort in (
            *("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from"),
            *("last", "idle", "uptime", "rtt"),
        )
        for state in (0, 1, 2)
    ),
    *(("SERVER.PING.CONNZ", {"sort": sort, "state": 1}) for sort in ("stop", "reason")),
]

#: Pages on which the leafnode or the gateway is.
PAGES = [
    "/varz",
    "/connz",
    "/connz?acc=A&subs=1&auth=1",
    "/connz?acc=A&subs=detail&auth=1&sort=start",
    "/connz?state=closed&subs=1&auth=1",
    "/connz?state=closed&acc=A&subs=detail",
    "/connz?state=all",
    "/connz?user=a",
    "/connz?mqtt_client=x",
    "/leafz",
    "/leafz?subs=1",
    "/leafz?acc=A&subs=true",
    "/leafz?acc=C",
    "/gatewayz?accs=1",
    "/gatewayz?gw_name=here",
    "/accountz?acc=A",
    "/accountz?acc=$SYS",
    "/accstatz",
    "/accstatz?unused=1",
    "/subsz?acc=A&subs=1",
    "/routez?subs=detail",
]

#: Requests some of whose answers can be compressed.
COMPRESSED = [
    *("SERVER.PING", "SERVER.PING.STATSZ", "SERVER.PING.VARZ", "SERVER.PING.IDZ"),
    *("ACCOUNT.A.CONNZ", "ACCOUNT.A.CONNS", "ACCOUNT.PING.STATZ"),
]

#: What nats-server answers and natsbroker does not.
UNANSWERED = {"SERVER.PING.EXPVARZ": "the memory of the Go runtime, and the command line"}

#: Requests whose answers are the same but for the server's own part.
SAME: list[tuple[str, bytes]] = [
    ("SERVER.PING.CONNZ", b'{"sort":"bogus"}'),
    ("SERVER.PING.CONNZ", b'{"sort":"stop"}'),
    ("SERVER.PING.CONNZ", b'{"cid":-1}'),
    ("SERVER.PING.CONNZ", b'{"filter_subject":"foo"}'),
    ("SERVER.PING.SUBSZ", b'{"test":"foo.*"}'),
    ("SERVER.PING.ROUTEZ", b'{"subscriptions":"x"}'),
    ("SERVER.PING.ROUTEZ", b"[]"),
    ("SERVER.PING.GATEWAYZ", b'{"subscriptions":"x"}'),
    ("SERVER.PING.GATEWAYZ", b'{"subscriptions_detail":1}'),
    ("SERVER.PING.IPQUEUESZ", b'{"all":"x"}'),
    ("SERVER.PING.RAFTZ", b'{"group":1}'),
    ("SERVER.PING.CONNZ", b'{"tags":"x"}'),
    ("SERVER.PING.VARZ", b'{"exact_match":"x"}'),
    ("ACCOUNT.PING.STATZ", b'{"accounts":"A"}'),
    ("SERVER.PING.ROUTEZ", b" "),
    ("SERVER.PING.VARZ", b'{"acc'),
    ("SERVER.PING.ACCOUNTZ", b'{"account":"NO"}'),
    ("SERVER.PING.HEALTHZ", b""),
    ("SERVER.PING.HEALTHZ", b'{"stream":"S"}'),
    ("SERVER.PING.HEALTHZ", b'{"consumer":"S","details":true}'),
    ("SERVER.PING.HEALTHZ", b'{"js-enabled-only":"x"}'),
    ("SERVER.PING.PROFILEZ", b""),
    ("SERVER.ID.KICK", b'{"cid":999}'),
    ("SERVER.ID.KICK", b"{}"),
    ("SERVER.ID.LDM", b'{"cid":999}'),
    ("SERVER.ID.RELOAD", b""),
    ("ACCOUNT.NO.INFO", b""),
    ("SERVER.PING.NOPE", b""),
    ("SERVER.PING.KICK", b""),
    ("SERVER.ID.INFO", b""),
    ("ACCOUNT.A.NOPE", b""),
]


class Side(Monitored):
    """
    A populated server.

    @ivar system: a client in the system account.
    @ivar plain: a client in account C{A} with two subscriptions and a message.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.system = self.client("s")
        self.plain = self.client("a")
        self.plain.send(b"SUB foo.* 11\r\nSUB bar q 12\r\nPUB nobody 2\r\nhi\r\n")
        self.plain.flush()
        gone = AskingClient(server, "c")
        gone.close()
        server.waitForLog("Client connection closed")
        self.edge = Leafnode(server)
        self.edge.send(b"LS+ edge.*\r\nLS+ edge.q q 1\r\nLMSG nobody 2\r\nhi\r\n")
        self.edge.flush()
        other = Leafnode(server, name="other")
        other.send(b"LS+ other\r\n")
        other.flush()
        other.close()
        server.waitForLog("Leafnode connection closed")
        self.id = self.answer("SERVER.PING.IDZ")["id"]

    def answer(self, subject: str, body: bytes = b"", by: AskingClient | None = None) -> Any:
        """The answer to a request below C{$SYS.REQ.}; C{None} if it has no responders."""
        subject = subject.replace("ID.", f"{self.id}.") if "ID." in subject else subject
        return (by or self.system).answers(f"$SYS.REQ.{subject}", body)

    def close(self) -> None:
        self.edge.close()
        super().close()


def _started(flavour: Flavour, directory: Path) -> Iterator[Side]:
    server = Server(flavour, directory, CONFIG, ["-m", "-1", "-D"]).start()
    side = Side(server)
    yield side
    side.close()
    server.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """nats-server, populated."""
    yield from _started(REAL, tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """natsbroker, populated."""
    yield from _started(OURS_FAST, tmp_path_factory.mktemp("ours"))


def bodyOf(options: dict[str, Any]) -> bytes:
    """
    The body of a request.
    """
    return json.dumps(options).encode() if options else b""


@pytest.mark.parametrize(("subject", "options"), REQUESTS, ids=lambda request: str(request))
def test_shapes(subject: str, options: dict[str, Any], real: Side, ours: Side) -> None:
    """Answers have nats-server's keys, types and order, except for differences in the tables."""
    there, here = (side.answer(subject, bodyOf(options)) for side in (real, ours))
    assert (there is None) == (here is None)
    assertSameShape(there, here, ABSENT, EXTRA)


def counted(side: Side, body: bytes) -> int:
    """The answer to a request for the number of subscriptions."""
    return int(side.answer("ACCOUNT.NSUBS", body))


COUNTED = [
    b'{"acc":"A","subject":"foo.x"}',
    b'{"acc":"A","subject":"bar","queue":"cQ=="}',
    b'{"acc":"A","subject":"bar","queue":"bm8="}',
    b'{"acc":"A","subject":">"}',
    b'{"acc":"A","subject":"foo.>"}',
    b'{"acc":"A","subject":"foo..x"}',
    b'{"acc":"A","subject":"edge.x"}',
    b'{"acc":"A","subject":"edge.q","queue":"cQ=="}',
    b'{"acc":"A"}',
]


@pytest.mark.parametrize("body", COUNTED)
def test_subscribers(body: bytes, real: Side, ours: Side) -> None:
    """The two servers count the same subscriptions."""
    assert counted(ours, body) == counted(real, body)


#: Subjects, and groups behind them, whose subscriptions are counted.
DEBUGGED = ["foo.x", "foo.*", ">", "bar", "bar q", "bar no", "bar  q", " foo.x\n", "", "foo..x"]


@pytest.mark.parametrize("body", DEBUGGED)
def test_debugSubscribers(body: str, real: Side, ours: Side) -> None:
    """
    Both servers count the same subscriptions for an account that imports the service, also under
    another name, and for the system account. Other accounts get no answer.
    """
    for user, subject in (("a", "$SYS.DEBUG.SUBSCRIBERS"), ("d", "count"), ("s", "")):
        answers = []
        for side in (real, ours):
            client = side.client(user)
            answers.append(client.answers(subject or "$SYS.DEBUG.SUBSCRIBERS", body.encode()))
            client.close()
        assert answers[0] == answers[1], user
        assert isinstance(answers[1], int)
    for side in (real, ours):
        assert side.client("d").answers("$SYS.DEBUG.SUBSCRIBERS", body.encode()) is None


def test_notCounted(real: Side, ours: Side) -> None:
    """A request about an account without connections, and an unreadable one, get no answer."""
    bodies = [b'{"acc":"NO","subject":"foo"}', b'{"acc":"C","subject":"foo"}']
    bodies += [b'{"acc":"A","queue":"q"}', b'{"acc":1}', b"{", b"[]", b""]
    for side in (real, ours):
        sid = side.system.subscribe(b"_INBOX.counts")
        for body in [*bodies, COUNTED[0]]:
            side.system.publish(b"$SYS.REQ.ACCOUNT.NSUBS", body, b"_INBOX.counts")
        assert len(side.system.take(sid, 1)) == 1
        side.system.flush()
        assert side.system.arrived(sid) == []
        side.system.unsubscribe(sid)


@pytest.mark.parametrize("expected", PLAIN, ids=str)
def test_readers(expected: ExpectedAnswer, real: Side, ours: Side) -> None:
    """The keys that monitoring tools read exist, with the types that they expect."""
    for side in (real, ours):
        assert expected.problems(readBy(side.server, expected)) == []


def test_readersNotice() -> None:
    """A key that is missing, has another type, or is empty is reported."""
    expected = ExpectedAnswer("tool", "/page", {"int": "a rows[].b each{}.c? d?", "uptime": "e"})
    fine = {"a": 1, "rows": [{"b": 2}], "each": {"x": {"c": 3}, "y": [{}]}, "e": "1d2h3m4s"}
    assert expected.problems(fine) == []
    wrong: dict[str, Any]
    for wrong in (
        *({"a": 1.0}, {"a": None}, {"rows": []}, {"rows": [{"b": 2}, {"b": "2"}]}, {"each": {}}),
        *({"each": {"x": [{"c": True}]}}, {"d": "x"}, {"e": "1 day"}),
    ):
        assert len(expected.problems({**fine, **wrong})) == 1


@pytest.mark.parametrize("path", PAGES)
def test_pages(path: str, real: Side, ours: Side) -> None:
    """Pages show leafnodes and gateways as nats-server's do, in the same order of rows."""
    there, here = (fetched(side, path) for side in (real, ours))
    assertSamePlaces({"data": there}, {"data": here}, ABSENT, EXTRA)
    if path.startswith("/connz"):
        kinds = [[row["kind"] for row in page["connections"]] for page in (there, here)]
        assert kinds[1] == kinds[0]


@pytest.mark.parametrize(("subject", "options"), UNSORTED, ids=lambda value: str(value))
def test_unsorted(subject: str, options: dict[str, Any], real: Side, ours: Side) -> None:
    """Answers with unordered rows are compared without their order."""
    there, here = (side.answer(subject, bodyOf(options)) for side in (real, ours))
    assertSamePlaces(there, here, ABSENT, EXTRA)


@pytest.mark.parametrize(("subject", "body"), SAME, ids=lambda value: str(value))
def test_sameAnswers(subject: str, body: bytes, real: Side, ours: Side) -> None:
    """
    Refusals are the same, except for the server's own data and the texts about unreadable options.
    """
    answers = [side.answer(subject, body) for side in (real, ours)]
    for answer in answers:
        if answer is not None:
            answer.pop("server")
            if answer.get("error", {}).get("code") == 400:
                assert answer["error"].pop("description")
    assert answers[1] == answers[0]


@pytest.mark.parametrize("encoding", ["snappy", "s2", "gzip", "br"])
@pytest.mark.parametrize("subject", COMPRESSED)
def test_compressed(subject: str, encoding: str, real: Side, ours: Side) -> None:
    """An answer is compressed if the request accepts an encoding."""
    asked = f"NATS/1.0\r\nAccept-Encoding: {encoding}\r\n\r\n".encode()
    answers = []
    for side in (real, ours):
        inbox = side.system.subscribe(b"_INBOX.compressed")
        topic = f"$SYS.REQ.{subject}".encode()
        side.system.publish(topic, b"", b"_INBOX.compressed", asked)
        ((_, headers, body),) = side.system.messages(inbox, 1)
        side.system.unsubscribe(inbox)
        answers.append((headers, json.loads(plain(headers, body))))
    assert answers[1][0] == answers[0][0]
    assertSamePlaces(answers[0][1], answers[1][1], ABSENT, EXTRA)


def plain(headers: bytes, body: bytes) -> bytes:
    """The decompressed answer."""
    if b"gzip" in headers:
        return gzip.decompress(body)
    return bytes(cramjam.snappy.decompress(body)) if b"snappy" in headers else body


def test_unanswered(real: Side, ours: Side) -> None:
    """A request that only nats-server answers is listed in a table."""
    for subject in UNANSWERED:
        assert list(real.answer(subject)) == ["server", "data"]
        assert ours.answer(subject) is None


@pytest.mark.parametrize("subject", ["SERVER.PING.CONNZ", "ACCOUNT.PING.CONNZ", "USER.INFO"])
def test_ownAccount(subject: str, real: Side, ours: Side) -> None:
    """The answers to users of other accounts have the same keys."""
    there, here = (side.answer(subject, by=side.plain) for side in (real, ours))
    assertSameShape(there, here, ABSENT, EXTRA)


def test_figures(real: Side, ours: Side) -> None:
    """The same clients produce the same figures."""
    keys = ("conns", "leafnodes", "total_conns", "sent", "received", "slow_consumers")
    rows = []
    for side in (real, ours):
        side.plain.flush()
        data = side.answer("ACCOUNT.A.STATZ")["data"]
        rows.append({key: data["account_statz"][0][key] for key in keys})
    assert rows[1]["received"].pop("bytes") == rows[0]["received"].pop("bytes")
    for row in rows:
        del row["sent"]["bytes"]  # The answers of test_ownAccount have other lengths.
    assert rows[1] == rows[0]


def test_kick(real: Side, ours: Side) -> None:
    """A connection that is closed by request has the same reason."""
    for side in (real, ours):
        victim = AskingClient(side.server, "c")
        cid = json.loads(victim.info.partition(b" ")[2])["client_id"]
        assert list(side.answer("SERVER.ID.KICK", b'{"cid":%d}' % cid)) == ["server"]
        with pytest.raises(ConnectionError):
            victim.flush()
        victim.close()
        options = {"cid": cid, "state": 1}
        (row,) = side.answer("SERVER.PING.CONNZ", bodyOf(options))["data"]["connections"]
        assert row["reason"] == "Kicked"


@pytest.mark.parametrize(("signal", "event"), [("USR2", "LAMEDUCK"), ("TERM", "SHUTDOWN")])
def test_ends(signal: str, event: str, tmp_path: Path) -> None:
    """
    The events of lame duck mode and of a shutdown have the keys and types of nats-server's, and the
    id of the server.
    """
    documents = []
    for flavour in (REAL, OURS_FAST):
        directory = tmp_path / flavour.name
        directory.mkdir()
        server = Server(flavour, directory, 'lame_duck_grace_period: "300ms"\n' + CONFIG).start()
        try:
            watching = AskingClient(server, "s")
            number = watching.answers("$SYS.REQ.SERVER.PING.IDZ")["id"]
            sid = watching.subscribe(f"$SYS.SERVER.{number}.{event}".encode())
            server.signal(signal)
            (body,) = watching.take(sid, 1)
            documents.append(json.loads(body))
            assert documents[-1]["id"] == number
            watching.close()
        finally:
            server.stop()
    there, here = documents
    assertSameShape({"server": there}, {"server": here}, ABSENT, EXTRA)
