"""
The monitoring pages of members about their cluster, compared with nats-server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.cluster.members import CONFIG, Mesh, formed
from tests.interop.monitored import ABSENT, EXTRA, AskingClient, assertSamePlaces, readBy
from tests.interop.pages import Difference
from tests.interop.readers import CLUSTER, ExpectedAnswer
from tests.interop.servers import OURS_FAST, REAL

TEMPLATE = CONFIG.replace("$TOP", 'http: "127.0.0.1:-1"').replace(
    "accounts {", "accounts {\n    $SYS { users: [ {user: s, password: s} ] }"
)

#: What passes; our own inboxes and the test's subjects do.
PERMISSIONS = 'permissions { import: ["foo", "sync", "$SYS.>"], export: {deny: "secret.>"} }'


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """
    A natsbroker that a nats-server dialled, each with two subscriptions, and a message in both
    directions.
    """
    made = formed((OURS_FAST, REAL), tmp_path_factory.mktemp("monitored"), PERMISSIONS, TEMPLATE)
    for client in made.clients:
        client.subscribe(b"foo")
        client.subscribe(b"foo", b"q")
    made.sync()
    for client in made.clients:
        client.publish(b"foo", b"12345")
    made.sync()
    yield made
    made.close()


#: Our member was dialled, and its settings name nobody.
HERE = {*ABSENT, "data.cluster.urls"}


def pages(mesh: Mesh, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pages of our member and of nats-server."""
    ours, real = (member.monitor(path) for member in mesh.members)
    return dict(ours), dict(real)


def rows(page: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a page: that of the system account, that with account A, and another."""
    results: dict[str, dict[str, Any]] = {}
    for row in page["routes"]:
        isOurs = row["subscriptions"] and "account" not in row
        results["system" if "account" in row else "A" if isOurs else "idle"] = row
    return results


@pytest.mark.parametrize("path", ["/routez", "/routez?subs=1", "/routez?subs=detail"])
@pytest.mark.parametrize("which", ["A", "idle"])
def test_sameKeys(path: str, which: str, mesh: Mesh) -> None:
    """
    The page and its rows have the same keys, in the same order, with values of the same types.
    """
    ours, real = pages(mesh, path)
    difference = Difference(path, set(), set(), [], [])
    difference.compare(rows(real)[which], rows(ours)[which], which)
    del ours["routes"], real["routes"]
    difference.compare(real, ours)
    assert difference == Difference(path, set(), set(), [], [])


def test_systemAccount(mesh: Mesh) -> None:
    """The system account has a route of its own on both sides, and the page names it."""
    ours, real = (rows(page)["system"] for page in pages(mesh, "/routez"))
    assert list(ours) == list(real)
    assert ours["account"] == real["account"] == "$SYS"


def test_sameValues(mesh: Mesh) -> None:
    """The pages of both ends have the same names and counts of messages."""
    ours, real = pages(mesh, "/routez?subs=detail")
    assert ours["num_routes"] == real["num_routes"] == len(ours["routes"]) == 4
    for page, other in ((ours, real), (real, ours)):
        assert {row["remote_id"] for row in page["routes"]} == {other["server_id"]}
        assert {row["remote_name"] for row in page["routes"]} == {other["server_name"]}
    here, there = rows(ours)["A"], rows(real)["A"]
    assert (here["did_solicit"], there["did_solicit"]) == (False, True)
    assert (here["is_configured"], there["is_configured"]) == (False, True)
    for key in ("import", "export", "compression", "pending_size", "subscriptions"):
        assert here[key] == there[key], key
    for kind in ("msgs", "bytes"):
        assert here[f"in_{kind}"] == there[f"out_{kind}"] > 0
        assert here[f"out_{kind}"] == there[f"in_{kind}"] > 0


def test_subscriptions(mesh: Mesh) -> None:
    """The subscriptions of the peer are shown with nats-server's sids."""
    ours, real = (
        rows(page)["A"]["subscriptions_list_detail"] for page in pages(mesh, "/routez?subs=detail")
    )
    for listed in (ours, real):
        for row in listed:
            del row["cid"], row["msgs"]
        listed.sort(key=lambda row: str(row["sid"]))
    assert ours == real
    plain = [
        sorted(rows(page)["A"]["subscriptions_list"]) for page in pages(mesh, "/routez?subs=1")
    ]
    assert plain[0] == plain[1] == ["foo", "foo", "sync"]


def test_varz(mesh: Mesh) -> None:
    """C{/varz} has the counts of routes and members, and the settings of the block."""
    ours, real = pages(mesh, "/varz")
    assert (ours["routes"], ours["remotes"]) == (real["routes"], real["remotes"]) == (4, 1)
    here, there = ours["cluster"], real["cluster"]
    assert there.pop("urls") == [f"127.0.0.1:{mesh.members[0].routePort}"]
    for page, member in ((here, mesh.members[0]), (there, mesh.members[1])):
        assert page.pop("cluster_port") == member.routePort
    assert list(here.items()) == list(there.items())
    for key in ("slow_consumer_stats", "stale_connection_stats"):
        assert ours[key] == real[key]
    for kind in ("in_msgs", "out_msgs", "in_bytes", "out_bytes"):
        assert ours[kind] > ours[kind.replace("_", "_client_", 1)]


def test_invalidParameters(mesh: Mesh) -> None:
    """An invalid parameter is refused."""
    for member in mesh.members:
        with pytest.raises(OSError, match="400"):
            member.monitor("/routez?subs=maybe")


@pytest.mark.parametrize(
    "page", ["/varz", "/connz?subs=1&auth=1", "/accountz?acc=A", "/accstatz", "/subsz?subs=1"]
)
def test_pages(page: str, mesh: Mesh) -> None:
    """Other pages have nats-server's keys in a cluster too."""
    ours, real = pages(mesh, page)
    assertSamePlaces({"data": real}, {"data": ours}, HERE, EXTRA)


@pytest.mark.parametrize("page", ["STATSZ", "VARZ", "ROUTEZ", "CONNZ", "ACCOUNTZ", "SUBSZ"])
def test_requests(page: str, mesh: Mesh) -> None:
    """The answers to monitoring requests that pass through another member have the same keys."""
    answers = []
    for member in mesh.members:
        asker = AskingClient(member, "s")
        number = member.monitor("/varz")["server_id"]
        answers.append(asker.answers(f"$SYS.REQ.SERVER.{number}.{page}"))
        asker.close()
    ours, real = answers
    assertSamePlaces(real, ours, HERE, EXTRA)


def test_statsz(mesh: Mesh) -> None:
    """The statistics of a server count each route of the pool, as C{/routez} does."""
    (member, _) = mesh.members
    asker = AskingClient(member, "s")
    number = member.monitor("/varz")["server_id"]
    stats = asker.answers(f"$SYS.REQ.SERVER.{number}.STATSZ")["statsz"]
    asker.close()
    routes: Any = member.monitor("/routez")["routes"]
    assert {row["rid"]: row["name"] for row in stats["routes"]} == {
        row["rid"]: row["remote_name"] for row in routes
    }
    assert sum(row["received"]["msgs"] for row in stats["routes"]) > 0


@pytest.mark.parametrize("expected", CLUSTER, ids=str)
def test_readers(expected: ExpectedAnswer, mesh: Mesh) -> None:
    """The keys that monitoring tools read of routes exist, with the types that they expect."""
    for member in mesh.members:
        assert expected.problems(readBy(member, expected)) == []


def test_healthy(mesh: Mesh) -> None:
    """A member of a cluster is healthy."""
    for member in mesh.members:
        assert member.monitor("/healthz") == {"status": "ok"}
