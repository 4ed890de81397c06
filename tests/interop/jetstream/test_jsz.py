"""
Monitoring of JetStream, compared with nats-server's for the same clients: the same keys in the same
order with values of the same types, and the same figures and refusals. Each difference has a
reason.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from natsbroker.jetstream.totals import machineMemory
from tests.interop.conftest import StartServer
from tests.interop.monitored import (
    ABSENT,
    AskingClient,
    Monitored,
    assertSamePlaces,
    assertSameShape,
    fetched,
    readBy,
)
from tests.interop.monitored import (
    EXTRA as ALWAYS,
)
from tests.interop.readers import JETSTREAM, ExpectedAnswer
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

CONFIG = """
server_name: mon
jetstream { store_dir: "$DIR/js", max_mem: 64MB, max_file: 256MB
            limits { max_ack_pending: 500, duplicate_window: "10m" } }
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ] }
  B { jetstream: { max_mem: 1MB, max_file: 2MB }, users: [ { user: b, password: b } ] }
  C { users: [ { user: c, password: c } ] }
  $SYS { users: [ { user: s, password: s } ] }
}
"""

#: What natsbroker shows and nats-server does not.
EXTRA = {"config.sync_always": "an acknowledged message is on disk, which nats-server must be told"}

PAGES = [
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?streams=1",
    "/jsz?consumers=1",
    "/jsz?consumers=1&config=1",
    "/jsz?acc=A",
    "/jsz?acc=A&streams=1&config=true",
    "/jsz?acc=A&consumers=1&raft=1&config=1",
    "/jsz?acc=C",
    "/jsz?acc=NO",
    "/jsz?accounts=1&limit=1",
    "/jsz?accounts=1&offset=1&limit=1",
    "/jsz?limit=0&accounts=1",
    "/jsz?offset=9&accounts=1",
    "/jsz?accounts=1&limit=-1&offset=-1",
    "/jsz?leader-only=1",
    "/jsz?stream-leader-only=1&consumers=1&acc=A",
    "/jsz?direct-consumers=1&acc=A",
    "/jsz?direct-consumers=true&streams=1&acc=A",
    "/jsz?direct-consumers=true&consumers=1&acc=A",
    "/jsz?config=1",
    "/jsz?raft=1",
]

#: Answers without identifiers and times.
SAME = [
    *(
        f"/jsz?{name}=x"
        for name in (
            "accounts",
            "streams",
            "consumers",
            "direct-consumers",
            "config",
            "leader-only",
            "stream-leader-only",
            "raft",
            "limit",
            "offset",
        )
    ),
    "/healthz",
    "/healthz?js-enabled-only=1",
    "/healthz?js-enabled=1",
    "/healthz?js-server-only=1&account=NO",
    "/healthz?js-meta-only=1",
    "/healthz?js-meta-only=1&account=NO",
    "/healthz?account=A",
    "/healthz?account=A&details=1",
    "/healthz?account=A&stream=ONE",
    "/healthz?account=A&stream=NO",
    "/healthz?account=A&stream=NO&details=1",
    "/healthz?account=A&stream=ONE&consumer=dur",
    "/healthz?account=A&stream=ONE&consumer=no",
    "/healthz?account=A&stream=ONE&consumer=no&details=true",
    "/healthz?account=NO",
    "/healthz?account=NO&details=1",
    "/healthz?account=C&stream=X",
    "/healthz?consumer=x&account=A",
]


#: Requests behind C{$SYS.REQ.}.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("SERVER.PING", {}),
    ("SERVER.PING.VARZ", {}),
    ("SERVER.PING.JSZ", {}),
    ("SERVER.PING.JSZ", {"accounts": True, "streams": True, "consumer": True, "config": True}),
    ("SERVER.PING.JSZ", {"account": "A", "streams": True, "raft": True}),
    ("SERVER.PING.JSZ", {"accounts": True, "offset": 1, "limit": 1}),
    ("SERVER.PING.HEALTHZ", {"js-enabled-only": True}),
    ("SERVER.PING.HEALTHZ", {"account": "A", "stream": "NO", "details": True}),
    ("SERVER.PING.ACCOUNTZ", {"account": "A"}),
    ("SERVER.PING.RAFTZ", {}),
    ("SERVER.PING.IPQUEUESZ", {"all": True, "filter": "none"}),
    ("ACCOUNT.A.JSZ", {"consumer": True, "config": True}),
    ("ACCOUNT.A.JSZ", {"streams": True, "consumer": True, "config": True}),
    ("SERVER.PING.JSZ", {"consumer": True, "config": True}),
    ("SERVER.PING.JSZ", {"account": "A", "consumer": True, "direct_consumer": True}),
    ("ACCOUNT.B.JSZ", {}),
    ("ACCOUNT.A.INFO", {}),
    ("ACCOUNT.PING.STATZ", {}),
]


def populate(side: Monitored) -> None:
    """Create streams of every kind, consumers and messages, and send a request that fails."""
    a, b = side.client("a"), side.client("b")
    a.api("STREAM.CREATE.ONE", name="ONE", subjects=["one.>"], metadata={"k": "v"})
    a.api("STREAM.CREATE.MEM", name="MEM", subjects=["mem.>"], storage="memory", max_bytes=9000)
    a.api("STREAM.CREATE.MIR", name="MIR", mirror={"name": "ONE"})
    a.api("STREAM.CREATE.SRC", name="SRC", sources=[{"name": "ONE", "filter_subject": "one.a"}])
    for number in range(5):
        a.ask("one.a", b"x" * number)
    a.ask("mem.x", b"hello")
    config: dict[str, Any] = {"durable_name": "dur", "ack_policy": "explicit"}
    a.api("CONSUMER.CREATE.ONE.dur", stream_name="ONE", config=config)
    # Without a subscriber it would be deleted after five seconds.
    config = {"name": "push", "ack_policy": "none", "deliver_subject": "zz"}
    config["inactive_threshold"] = 3600 * 10**9
    a.api("CONSUMER.CREATE.ONE.push", stream_name="ONE", config=config)
    a.api("STREAM.INFO.NONE")
    b.api("STREAM.CREATE.BEE", name="BEE", subjects=["bee.>"], max_bytes=1000)
    a.until("STREAM.INFO.MIR", lambda info: info["state"]["messages"] == 5)
    a.until("STREAM.INFO.SRC", lambda info: info["state"]["messages"] == 5)


def _started(flavour: Flavour, directory: Path) -> Iterator[Monitored]:
    server = Server(flavour, directory, CONFIG, ["-m", "-1"]).start()
    side = Monitored(server)
    populate(side)
    yield side
    side.close()
    server.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """nats-server, populated."""
    yield from _started(REAL, tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """natsbroker, populated."""
    yield from _started(OURS_FAST, tmp_path_factory.mktemp("ours"))


@pytest.mark.parametrize("path", PAGES)
def test_pages(path: str, real: Monitored, ours: Monitored) -> None:
    """C{/jsz} has nats-server's keys, types and order, except for differences in the tables."""
    assertSameShape(fetched(real, path), fetched(ours, path), extra=EXTRA)


@pytest.mark.parametrize(("subject", "options"), REQUESTS, ids=str)
def test_requests(subject: str, options: dict[str, Any], real: Monitored, ours: Monitored) -> None:
    """Answers of the system account about JetStream have nats-server's keys and types too."""
    body = json.dumps(options).encode() if options else b""
    answers = []
    for side in (real, ours):
        asker = AskingClient(side.server, "s")
        answers.append(asker.answers(f"$SYS.REQ.{subject}", body))
        asker.close()
    there, here = answers
    allowed = {f"{head}.{key}" for key in EXTRA for head in ("data", "data.jetstream")}
    more = {*allowed, *ALWAYS, "statsz.jetstream.config.sync_always"}
    assertSamePlaces(there, here, ABSENT, more)


@pytest.mark.parametrize("expected", JETSTREAM, ids=str)
def test_readers(expected: ExpectedAnswer, real: Monitored, ours: Monitored) -> None:
    """The keys that monitoring tools read of JetStream exist, with the types that they expect."""
    for side in (real, ours):
        assert expected.problems(readBy(side.server, expected)) == []


@pytest.mark.parametrize("path", SAME)
def test_answers(path: str, real: Monitored, ours: Monitored) -> None:
    """Health and refusals are the same byte for byte."""
    assert ours.get(path) == real.get(path)


def test_figures(real: Monitored, ours: Monitored) -> None:
    """The same clients produce the same figures."""
    there, here = (fetched(side, "/jsz?raft=1&accounts=1") for side in (real, ours))
    for page in (there, here):
        # The bytes of a stream with sources: see test_states.
        for key in ("bytes", "storage", "server_id", "now", "config", "limits", "api"):
            del page[key]
    keys = ["name", "memory", "reserved_memory", "reserved_storage"]
    rows = zip(here.pop("account_details"), there.pop("account_details"), strict=True)
    assert here == there
    for one, two in rows:
        assert [one[key] for key in keys] == [two[key] for key in keys]


def test_states(real: Monitored, ours: Monitored) -> None:
    """Streams and consumers are shown with the same state and configuration."""
    there, here = (_states(fetched(side, "/jsz?consumers=1&config=1")) for side in (real, ours))
    assert here == there


def _states(page: Any) -> Any:
    results = {}
    for account in page["account_details"]:
        for stream in account["stream_detail"]:
            state = {key: stream["state"][key] for key in ("messages", "consumer_count")}
            if "sources" not in stream:
                # nats-server notes a hash of the source in each message.
                state["bytes"] = stream["state"]["bytes"]
            consumers = [
                (consumer["name"], consumer["config"], consumer["num_pending"])
                for consumer in sorted(
                    stream.get("consumer_detail", ()), key=lambda consumer: consumer["name"]
                )
            ]
            results[stream["name"]] = (stream["config"], state, consumers)
    return results


def test_varz(real: Monitored, ours: Monitored) -> None:
    """The JetStream part of C{/varz} has the same keys, and so has that of C{/accountz}."""
    there, here = (fetched(side, "/varz")["jetstream"] for side in (real, ours))
    difference = assertSameShape(there, here, extra=EXTRA)
    assert {place.strip() for place in difference.extra} == EXTRA.keys()
    for name in "ABC":
        shown = [fetched(side, f"/accountz?acc={name}")["account_detail"] for side in (real, ours)]
        assert shown[0]["jetstream_enabled"] == shown[1]["jetstream_enabled"] == (name != "C")


def test_info(real: Monitored, ours: Monitored) -> None:
    """INFO announces JetStream to clients."""
    for side in (real, ours):
        info = json.loads(side.client("a").info.partition(b" ")[2])
        assert info["jetstream"] is True


@pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("said", ["", ", max_mem: -1, max_file: -1", ", max_mem: 0, max_file: 0"])
def test_totals(flavour: Flavour, said: str, startServer: StartServer, tmp_path: Path) -> None:
    """
    Without configured totals, three quarters of memory and disk are shown. A total of 0 is shown as
    0.
    """
    server = startServer(flavour, f'jetstream {{ store_dir: "$DIR/js"{said} }}', ["-m", "-1"])
    varz: Any = server.monitor("/varz")
    config = varz["jetstream"]["config"]
    if said.endswith("0"):
        assert (config["max_memory"], config["max_storage"]) == (0, 0)
    else:
        assert config["max_memory"] == machineMemory() // 4 * 3
        free = shutil.disk_usage(tmp_path).free
        assert 0.5 * free < config["max_storage"] < free
    assert "compress_ok" not in config or said.endswith("0")
