"""
The monitoring pages of several workers, which show one server.

The parent serves them. Each page is asked of all workers that are there, and their documents are
merged; a page that is unknown here, as a plugin's, is that of the first worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from natsbroker.config.model import Monitoring
from natsbroker.monitoring.answers import JSON, indented
from natsbroker.monitoring.livepage import livePage
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.queries import Query, integer, limitFrom, text, unsigned
from natsbroker.workers.merging import (
    Document,
    merged,
    mergedConnections,
    mergedSeries,
    paged,
)

MERGED = ("/accountz", "/accstatz", "/leafz", "/routez")
"""The pages whose documents are merged by their keys alone."""


class WorkerAnswer(NamedTuple):
    """A worker's answer to a request for a page."""

    status: int
    contentType: str
    body: bytes


Answers = Mapping[int, WorkerAnswer]

Ask = Callable[[str, Query], Deferred[Answers]]
"""Asks all workers for a page, and gives the answers of those that are there by their numbers."""

Merge = Callable[[Mapping[int, Document]], Document]

_GONE = {"status": "error", "error": "no worker answers"}


class MergedAnswer:
    """An L{Answer} whose status is known when its body is."""

    isLong = True
    policy = "default-src 'none'"

    def __init__(self, asking: Deferred[Answers], merge: Callable[[Answers], WorkerAnswer]) -> None:
        self.status = 503
        self.contentType = JSON
        self.body = self._made(asking, merge)

    def _made(
        self, asking: Deferred[Answers], merge: Callable[[Answers], WorkerAnswer]
    ) -> Iterator[Any]:
        answers: list[Answers] = []
        yield asking.addCallback(answers.append)
        if not answers[0]:
            yield json.dumps(_GONE).encode()
            return
        answer = merge(answers[0])
        self.status, self.contentType = answer.status, answer.contentType
        yield answer.body


class WorkerPages(MonitoringModel):
    """
    The pages of all workers.

    @ivar count: the number of workers that should be there.
    """

    def __init__(
        self, settings: Callable[[], Monitoring], clock: Any, version: str, ask: Ask, count: int
    ) -> None:
        super().__init__(settings, clock, version)
        self.count = count
        self._ask = ask
        self.pages |= {
            "/live": livePage,
            "/varz": partial(self._page, "/varz", self._withRequests),
            **{path: partial(self._page, path, _together) for path in MERGED},
            "/connz": self._connz,
            "/subsz": self._subsz,
            "/jsz": partial(self._page, "/jsz", _oneTotal),
            "/healthz": self._healthz,
            "/metrics": self._metrics,
        }
        self.aliases["/subscriptionsz"] = "/subsz"

    def answer(self, path: str, query: Query) -> Any:
        """The answer of a page, or that of the first worker for a page that is its own."""
        answer = super().answer(path, query)
        if answer is not None or not path.startswith(self.basePath):
            return answer
        return MergedAnswer(self._ask(path[len(self.basePath) :], query), _firstOf)

    def _page(self, path: str, merge: Merge, query: Query) -> Any:
        return MergedAnswer(self._ask(path, query), partial(_mergedJSON, merge))

    def _withRequests(self, documents: Mapping[int, Document]) -> Document:
        """The page C{/varz}, with what only the parent knows."""
        pages = self._settings()
        return {
            **_together(documents),
            "http_host": pages.http_host,
            "http_port": pages.http_port,
            "http_base_path": self.basePath,
            "https_port": pages.https_port,
            "http_req_stats": dict(sorted(self.requests.items())),
        }

    def _connz(self, query: Query) -> Any:
        offset, limit = max(integer(query, "offset"), 0), limitFrom(query)
        sort = text(query, "sort") or "cid"
        if unsigned(query, "cid"):
            offset, limit = 0, 1
        asking = self._ask("/connz", {**query, "offset": "0", "limit": str(offset + limit)})
        merge = partial(mergedConnections, sort=sort, offset=offset, limit=limit)
        return MergedAnswer(asking, partial(_mergedJSON, merge))

    def _subsz(self, query: Query) -> Any:
        offset, limit = max(integer(query, "offset"), 0), limitFrom(query)
        key = "subscriptions_list"

        def merge(documents: Mapping[int, Document]) -> Document:
            together = _together(documents)
            rows = together.get(key)
            if rows is None:
                return {**together, "offset": offset, "limit": limit}
            return paged(together, key, rows, offset, limit)

        asking = self._ask("/subsz", {**query, "offset": "0", "limit": str(offset + limit)})
        return MergedAnswer(asking, partial(_mergedJSON, merge))

    def _healthz(self, query: Query) -> Any:
        return MergedAnswer(self._ask("/healthz", query), self._worst)

    def _worst(self, answers: Answers) -> WorkerAnswer:
        """The answer of the worker that is worst, or that a worker is missing."""
        worst = max(answers.values(), key=lambda answer: answer.status)
        missing = self.count - len(answers)
        if missing and worst.status == 200:
            problem = f"{missing} of {self.count} workers do not answer"
            document = {"status": "unavailable", "error": problem}
            return WorkerAnswer(503, JSON, json.dumps(document).encode())
        return worst

    def _metrics(self, query: Query) -> Any:
        return MergedAnswer(self._ask("/metrics", query), _added)


def _firstOf(answers: Answers) -> WorkerAnswer:
    return answers[min(answers)]


def _together(documents: Mapping[int, Document]) -> Document:
    return merged(list(documents.values()))


def _oneTotal(documents: Mapping[int, Document]) -> Document:
    """The page C{/jsz}, whose C{total} counts accounts, which all workers have."""
    total = max(document.get("total", 0) for document in documents.values())
    return {**_together(documents), "total": total}


def _mergedJSON(merge: Merge, answers: Answers) -> WorkerAnswer:
    refusal = next((answer for answer in answers.values() if answer.status >= 400), None)
    if refusal is not None:
        return refusal
    documents = {number: json.loads(answer.body) for number, answer in answers.items()}
    return WorkerAnswer(200, JSON, "".join(indented(merge(documents))).encode())


def _added(answers: Answers) -> WorkerAnswer:
    first = _firstOf(answers)
    if first.status != 200:
        return first
    text = mergedSeries([answer.body.decode() for answer in answers.values()])
    return first._replace(body=text.encode())
