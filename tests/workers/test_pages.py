"""The pages of all workers, over questions that a table answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from natsbroker.clients.selection import Selection
from natsbroker.config.model import Monitoring, Settings
from natsbroker.monitoring.answers import JSON, PLAIN, complete
from natsbroker.monitoring.healthz import HealthProblem, HealthQuery
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.monitoring.queries import Query
from natsbroker.workers.pages import Answers, WorkerAnswer, WorkerPages
from tests.workers.support import INFO


def inJSON(document: Any, status: int = 200) -> WorkerAnswer:
    """A worker's answer in JSON."""
    return WorkerAnswer(status, JSON, json.dumps(document).encode())


class Workers:
    """
    Workers that answer, by their numbers from 1.

    @ivar asked: paths and parameters by worker.
    @ivar partsByName: their parts.
    """

    def __init__(self, *answers: WorkerAnswer, count: int = 2, **parts: list[Any]) -> None:
        self.asked: list[tuple[str, dict[int, Any]]] = []
        self.answers: Answers = dict(enumerate(answers, 1))
        self.partsByName = parts
        block = Monitoring(http_host="0.0.0.0", http_port=8222, http_base_path="/nats/")
        settings = Settings(monitoring=block, server_tags=("t",))
        self.clock = Clock()
        self.clock.advance(1_000)
        questions: Any = SimpleNamespace(pages=self._asked, parts=self.parts)
        self.pages = WorkerPages(lambda: settings, lambda: INFO, self.clock, questions, count)

    def pagesOf(self, worker: int, path: str, query: Query) -> WorkerAnswer:
        """A worker's answer; tests replace it."""
        return self.answers[worker]

    def _asked(self, path: str, queryFor: Callable[[int], Query | None]) -> Deferred[Answers]:
        queries = {number: queryFor(number) for number in self.answers}
        given = {number: query for number, query in queries.items() if query is not None}
        self.asked.append((path, given))
        return succeed(
            {worker: self.pagesOf(worker, path, query) for worker, query in given.items()}
        )

    def parts(self, name: str, *arguments: Any) -> Deferred[dict[int, Any]]:
        return succeed(dict(enumerate(self.partsByName.get(name, ()), 1)))

    def get(self, path: str, **query: str) -> tuple[int, Any]:
        """The status and the document of a page."""
        answer: Any = self.pages.answer(f"/nats{path}", query)
        body = b"".join(piece for piece in answer.body if isinstance(piece, bytes))
        isJSON = answer.contentType == JSON
        return answer.status, json.loads(body) if isJSON else body.decode()


def test_varz() -> None:
    """The page C{/varz} has the sums of all workers, and the fields that only the parent knows."""
    page = {"server_id": "S", "connections": 1, "mem": 5, "start": "x", "http_req_stats": {}}
    workers = Workers(inJSON(page), inJSON(page))
    workers.clock.advance(90)
    workers.get("/varz")
    status, document = workers.get("/varz")
    assert (status, document["connections"]) == (200, 2)
    assert document["mem"] > 10
    assert (document["start"], document["uptime"]) == ("1970-01-01T00:16:40Z", "1m30s")
    assert (document["http_port"], document["http_base_path"]) == (8222, "/nats")
    assert document["http_req_stats"] == {"/varz": 2}


def test_refusedByWorkers() -> None:
    """
    A parameter that all workers refuse is refused in their words; if one accepts it, that worker
    answers.
    """
    refusal = WorkerAnswer(400, PLAIN, b"Account A does not exist")
    assert Workers(refusal, refusal).get("/accountz", acc="A") == (400, refusal.body.decode())
    known = inJSON({"account_detail": {"account_name": "A"}})
    status, document = Workers(refusal, known).get("/accountz", acc="A")
    assert (status, document["account_detail"]) == (200, {"account_name": "A"})


@pytest.mark.parametrize("path", ["/connz", "/subsz", "/jsz"])
def test_refusedHere(path: str) -> None:
    """A parameter that the parent reads is refused by the parent."""
    workers = Workers()
    status, text = workers.get(path, limit="x")
    assert (status, "limit" in text, workers.asked) == (400, True, [])


class Listed(Workers):
    """Workers whose pages list some of their rows."""

    def __init__(self, key: str, *rows: list[dict[str, Any]], **parts: list[Any]) -> None:
        super().__init__(*(inJSON({}) for _ in rows))
        self.partsByName = parts
        self.key = key
        self.rows = dict(enumerate(rows, 1))

    def pagesOf(self, worker: int, path: str, query: Query) -> WorkerAnswer:
        rows, start = self.rows[worker], int(query["offset"])
        end = start + int(query["limit"])
        return inJSON({"total": len(rows), "num_cache": 1, self.key: rows[start:end]})


def connections(*ranks: list[tuple[Any, int]]) -> Listed:
    """Workers whose connections have these ranks and client ids."""
    rows = [[{"cid": cid} for _, cid in one] for one in ranks]
    parts = [{"total": len(one) + 1, "ranks": one} for one in ranks]
    return Listed("connections", *rows, connections=parts)


def test_connz() -> None:
    """
    The rows of C{/connz} are sorted over all workers and name their worker; each worker sends only
    its part.
    """
    workers = connections([(1, 9), (4, 2), (7, 4)], [(2, 8), (4, 1), (5, 3)])
    status, document = workers.get("/connz", offset="1", limit="4", sort="subs", auth="1")
    assert status == 200
    assert [(row["cid"], row["worker"]) for row in document["connections"]] == [
        (8, 2),
        (1, 2),
        (2, 1),
        (3, 2),
    ]
    assert (document["total"], document["num_connections"]) == (8, 4)
    assert (document["offset"], document["limit"]) == (1, 4)
    [(path, queries)] = workers.asked
    assert path == "/connz"
    assert queries[1] == {"offset": "1", "limit": "1", "sort": "subs", "auth": "1"}
    assert queries[2] == {"offset": "0", "limit": "3", "sort": "subs", "auth": "1"}


def test_manyConnections() -> None:
    """Every row can be listed, however few one worker may send at a time."""
    count = 20_000
    workers = connections([(cid, cid) for cid in range(0, count, 2)], [(1, 1)])
    _, document = workers.get("/connz", offset=str(count // 2 - 1), limit="5")
    assert [row["cid"] for row in document["connections"]] == [count - 4, count - 2]


def test_fewerConnections() -> None:
    """A connection that ended meanwhile is left out."""
    workers = connections([(1, 1), (3, 3)], [(2, 2)])
    workers.rows[1] = [{"cid": 3}]
    _, document = workers.get("/connz")
    assert [row["cid"] for row in document["connections"]] == [3, 2]
    assert document["num_connections"] == 2


def test_subsz() -> None:
    """The list of C{/subsz} is cut to the page over all workers."""
    rows = [{"sid": "1"}, {"sid": "2"}], [{"sid": "3"}, {"sid": "4"}, {"sid": "5"}]
    workers = Listed("subscriptions_list", *map(list, rows))
    status, document = workers.get("/subsz", subs="1", offset="1", limit="3")
    assert (status, document["num_cache"], document["total"]) == (200, 2, 5)
    assert [row["sid"] for row in document["subscriptions_list"]] == ["2", "3", "4"]
    assert (document["offset"], document["limit"]) == (1, 3)
    bare = inJSON({"num_subscriptions": 1, "total": 0})
    assert "subscriptions_list" not in Workers(bare, bare).get("/subscriptionsz")[1]


def test_jsz() -> None:
    """An account counts once in C{/jsz}; a worker without JetStream contributes nothing."""
    page = {"streams": 1, "total": 2, "api": {"total": 5}}
    disabled = inJSON({"disabled": True, "streams": 0, "config": {"max_memory": 0}})
    assert Workers(inJSON(page), inJSON(page), disabled).get("/jsz") == (
        200,
        {"streams": 2, "total": 2, "api": {"total": 10}},
    )
    assert Workers(disabled, disabled).get("/jsz")[1]["disabled"]


def test_jszRows() -> None:
    """The accounts of all workers are sorted, and cut to the page."""
    one, two = (
        inJSON({"account_details": [{"id": name, "name": name, "streams": 1} for name in names]})
        for names in ("ABD", "BC")
    )
    workers = Workers(one, two)
    _, document = workers.get("/jsz", accounts="1", offset="1", limit="2")
    assert [(row["id"], row["streams"]) for row in document["account_details"]] == [
        ("B", 2),
        ("C", 1),
    ]
    assert workers.asked[0][1][1] == {"accounts": "1", "offset": "0", "limit": "3"}
    assert "account_details" not in workers.get("/jsz", accounts="1", offset="9")[1]


ILL = HealthProblem("full", "JETSTREAM")
NO_STREAM = HealthProblem("no stream", "STREAM", "A", "S", status=404)
NO_CONSUMER = HealthProblem("no consumer", "CONSUMER", "A", "S", "C", status=404)


@pytest.mark.parametrize(
    ("parts", "status", "error"),
    [
        ([(True, []), (True, [])], 200, None),
        ([(True, []), (True, [ILL])], 503, "full"),
        ([(True, [])], 503, "1 of 2 workers do not answer"),
        ([(True, []), (True, [NO_STREAM])], 200, None),
        ([(True, [NO_STREAM]), (True, [NO_STREAM])], 404, "no stream"),
        ([(True, [NO_STREAM]), (True, [NO_CONSUMER])], 404, "no consumer"),
        ([(True, [NO_STREAM]), (False, [])], 404, "no stream"),
        ([(True, [NO_STREAM]), (True, [ILL])], 503, "full"),
    ],
)
def test_health(parts: list[Any], status: int, error: str | None) -> None:
    """
    The health of the server is that of its worst worker; a missing worker is an error. A stream is
    missing if all workers with streams miss it.
    """
    shown, document = Workers(health=parts).get("/healthz", details="")
    assert (shown, document.get("error")) == (status, error)


def test_healthOnce() -> None:
    """A problem that all workers report is listed once."""
    workers = Workers(health=[(True, [ILL]), (True, [ILL])])
    assert workers.get("/healthz", details="1") == (
        503,
        {"status": "error", "errors": [{"type": "JETSTREAM", "error": "full"}]},
    )


def test_nobody() -> None:
    """Without any worker, each page has the status 503."""
    for path in ("/varz", "/connz", "/subsz", "/other"):
        assert Workers().get(path)[0] == 503


def test_metrics() -> None:
    """Metrics are added up under one name; the server's uptime is that of the parent."""
    metric = MetricSeries("connections", "text", samples=[((), 2.0)])
    started = MetricSeries("start_time_seconds", "text", samples=[((), 2_000.0)])
    status, text = Workers(metrics=[[metric, started], [metric]]).get("/metrics")
    assert status == 200
    assert "\nnatsbroker_connections 4.0\n" in text
    assert "\nnatsbroker_start_time_seconds 1000.0\n" in text


def test_ofOneWorker() -> None:
    """A page that is not merged, such as a plugin's, is that of the first worker."""
    workers = Workers(inJSON({"a": 1}), inJSON({"a": 2}))
    assert workers.get("/streaming/serverz") == (200, {"a": 1})
    unknown = WorkerAnswer(404, PLAIN, b"404 page not found\n")
    assert Workers(unknown, unknown).get("/nothing") == (404, "404 page not found\n")


def test_firstSilent() -> None:
    """No other worker says that there is no such page while the first one does not answer."""
    workers = Workers(inJSON({}), WorkerAnswer(404, PLAIN, b"404 page not found\n"))
    del workers.answers[1]
    status, document = workers.get("/streaming/serverz")
    assert (status, document["error"]) == (503, "no worker answers")


def test_index() -> None:
    """The list of pages has each page of the parent and of the first worker once."""
    workers = Workers(paths=[["/", "/varz", "/streaming/serverz"], ["/", "/varz", "/other"]])
    status, page = workers.get("/")
    assert status == 200
    assert page.count('href="/nats/varz"') == page.count('href="/nats/streaming/serverz"') == 1
    assert "/other" not in page


def test_live() -> None:
    """The live page and its files come from the parent."""
    workers = Workers()
    assert "<title>natsbroker" in workers.get("/live")[1]
    assert "import" in workers.get("/live/main.js")[1]
    assert workers.asked == []


def test_status() -> None:
    """An account that is active at several workers counts once in the status."""
    parts = [{"connections": 1, "active_accounts": ["A", "B"]}, {"active_accounts": ["B"]}]
    status = complete(Workers(statsz=parts).pages.statsz.steps())
    assert (status["connections"], status["active_accounts"]) == (1, 2)
    assert status["start"] == "1970-01-01T00:16:40Z"


def test_subscribers() -> None:
    """Subscriptions to a subject are those at all workers."""
    assert complete(Workers(subscribers=[2, 3]).pages.subsz.count("A", "a", b"")) == 5


def test_accounts() -> None:
    """The accounts' rows are those of all workers; accounts without connections can be left out."""
    rows = [{"acc": "A", "total_conns": 2}, {"acc": "B", "total_conns": 0}]
    pages = Workers(accounts=[{"account_statz": rows}] * 2).pages
    assert complete(pages.accstatz.rows(None, False)) == [{"acc": "A", "total_conns": 4}]
    assert len(complete(pages.accstatz.rows(None, True))) == 2


def test_account() -> None:
    """The details of an account are merged; an unknown account has none."""
    pages = Workers(account=[None, {"client_connections": 2}], jetstream=[None, None]).pages
    assert complete(pages.accountz.ofAccount("A")) == {"client_connections": 2}
    assert complete(pages.jsz.ofAccount("A", {})) is None


def test_settings() -> None:
    """The pages know the server's tags and domain, which requests may select."""
    pages = Workers().pages
    assert (pages.tags, pages.domain) == (("t",), "")


def test_healthSteps() -> None:
    """For requests in the system account, the health document and its status are separate."""
    pages = Workers(health=[(True, [])], count=1).pages
    assert complete(pages.healthz.steps(HealthQuery())) == ({"status": "ok"}, 200)


def test_selection() -> None:
    """Workers are asked for the connections that the request selects."""
    selections: list[Any] = []

    class Noting(Workers):
        def parts(self, name: str, *arguments: Any) -> Deferred[dict[int, Any]]:
            selections.extend(arguments)
            return super().parts(name)

    Noting().get("/connz", acc="A", offset="3")
    assert selections == [Selection(acc="A", offset=3)]
