"""The pages of all workers, over a question that a table answers."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from natsbroker.config.model import Monitoring
from natsbroker.monitoring.answers import JSON, PLAIN
from natsbroker.workers.pages import Answers, WorkerAnswer, WorkerPages


def inJSON(document: Any, status: int = 200) -> WorkerAnswer:
    """A worker's answer in JSON."""
    return WorkerAnswer(status, JSON, json.dumps(document).encode())


class Workers:
    """
    Workers that answer.

    @ivar asked: paths and parameters.
    """

    def __init__(self, *answers: WorkerAnswer, count: int = 2) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answers: Answers = dict(enumerate(answers, 1))
        block = Monitoring(http_host="0.0.0.0", http_port=8222, http_base_path="/nats/")
        self.pages = WorkerPages(lambda: block, Clock(), "1.0", self._ask, count)

    def _ask(self, path: str, query: Any) -> Deferred[Answers]:
        self.asked.append((path, query))
        asking: Deferred[Answers] = Deferred()
        asking.callback(self.answers)
        return asking

    def get(self, path: str, **query: str) -> tuple[int, Any]:
        """A page's status and document."""
        answer: Any = self.pages.answer(f"/nats{path}", query)
        body = b"".join(piece for piece in answer.body if isinstance(piece, bytes))
        isJSON = answer.contentType == JSON
        return answer.status, json.loads(body) if isJSON else body.decode()


def test_varz() -> None:
    """The page has the numbers of all workers, and the requests that the parent received."""
    workers = Workers(
        inJSON({"server_id": "S", "connections": 1, "http_req_stats": {}}),
        inJSON({"server_id": "S", "connections": 2, "http_req_stats": {}}),
    )
    workers.get("/varz")
    assert workers.get("/varz") == (
        200,
        {
            "server_id": "S",
            "connections": 3,
            "http_host": "0.0.0.0",
            "http_port": 8222,
            "http_base_path": "/nats",
            "https_port": 0,
            "http_req_stats": {"/varz": 2},
        },
    )


def test_refusedByWorkers() -> None:
    """A parameter that workers refuse is refused, in their words."""
    refusal = WorkerAnswer(400, PLAIN, b"error decoding boolean")
    assert Workers(refusal, refusal).get("/accountz", unused="x") == (400, refusal.body.decode())


def test_refusedHere() -> None:
    """A parameter that the parent reads is refused by it."""
    workers = Workers()
    status, text = workers.get("/connz", limit="x")
    assert status == 400
    assert "limit" in text
    assert workers.asked == []


def test_connz() -> None:
    """Workers are asked from their first connection on, for as many as the page may need."""
    empty = {"num_connections": 0, "total": 0, "offset": 0, "limit": 5, "connections": []}
    workers = Workers(inJSON(empty), inJSON(empty))
    status, document = workers.get("/connz", offset="3", limit="2", auth="1")
    assert (status, document["offset"], document["limit"]) == (200, 3, 2)
    assert workers.asked == [("/connz", {"offset": "0", "limit": "5", "auth": "1"})]


def test_subsz() -> None:
    """The list is cut to the page over all workers."""
    one = {"num_subscriptions": 2, "total": 2, "subscriptions_list": [{"sid": "1"}, {"sid": "2"}]}
    other = {"num_subscriptions": 1, "total": 1, "subscriptions_list": [{"sid": "3"}]}
    status, document = Workers(inJSON(one), inJSON(other)).get("/subsz", subs="1", offset="1")
    assert (status, document["num_subscriptions"], document["total"]) == (200, 3, 3)
    assert [row["sid"] for row in document["subscriptions_list"]] == ["2", "3"]
    bare = {"num_subscriptions": 1, "total": 0}
    assert "subscriptions_list" not in Workers(inJSON(bare), inJSON(bare)).get("/subscriptionsz")[1]


def test_jsz() -> None:
    """Accounts are those of all workers, and count once."""
    page = {"streams": 1, "total": 2, "api": {"total": 5}}
    assert Workers(inJSON(page), inJSON(page)).get("/jsz") == (
        200,
        {"streams": 2, "total": 2, "api": {"total": 10}},
    )


def test_health() -> None:
    """The server is as well as its worst worker, and not well without one of them."""
    well, ill = inJSON({"status": "ok"}), inJSON({"status": "error", "error": "full"}, 503)
    assert Workers(well, well).get("/healthz") == (200, {"status": "ok"})
    assert Workers(well, ill).get("/healthz") == (503, {"status": "error", "error": "full"})
    status, document = Workers(well).get("/healthz")
    assert (status, document["error"]) == (503, "1 of 2 workers do not answer")


def test_nobody() -> None:
    """Without any worker each page says so."""
    assert Workers().get("/varz")[0] == 503


def test_metrics() -> None:
    """Metrics are added up; without the library that makes them the refusal is shown."""
    text = WorkerAnswer(200, PLAIN, b"a 1.0\n")
    assert Workers(text, text).get("/metrics") == (200, "a 2.0\n")
    missing = WorkerAnswer(501, PLAIN, b"missing")
    assert Workers(missing, missing).get("/metrics") == (501, "missing")


def test_ofOneWorker() -> None:
    """A page that is not merged, as a plugin's, is the first worker's, with its status."""
    workers = Workers(inJSON({"a": 1}), inJSON({"a": 2}))
    assert workers.get("/streaming/serverz") == (200, {"a": 1})
    unknown = WorkerAnswer(404, PLAIN, b"404 page not found\n")
    assert Workers(unknown, unknown).get("/nothing") == (404, "404 page not found\n")
