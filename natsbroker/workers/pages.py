"""
The monitoring pages of several workers, which show one server.

The parent serves the pages. It requests each page from all workers, and merges their documents. A
page that the parent does not know, such as a plugin's, is that of the first worker. Requests in the
system account are answered with the same steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred

from natsbroker import __version__
from natsbroker.clients.connz import Detail
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.selection import Selection
from natsbroker.config.model import Settings
from natsbroker.monitoring.answers import HTML, JSON, PAUSE, Listing, Pause, bodyOf, compact
from natsbroker.monitoring.formats import instant, number, uptime
from natsbroker.monitoring.healthz import HealthProblem, HealthQuery, healthReport
from natsbroker.monitoring.livepage import livePage
from natsbroker.monitoring.metrics import Metrics, MetricSeries
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.queries import DEFAULT_LIMIT, Query, integer, text
from natsbroker.runtime.process import ProcessUsage
from natsbroker.system.subsz import SubscriptionQuery
from natsbroker.workers.merging import Document, merged, mergedSeries
from natsbroker.workers.messages import FIRST

_STEP = 4096
"""The connections that one step puts in order."""

_FINE = 200
_MISSING = 404
_GONE = 503


class WorkerAnswer(NamedTuple):
    """A worker's answer to a request for a page."""

    status: int
    contentType: str
    body: bytes


Answers = dict[int, WorkerAnswer]

Windows = Mapping[int, tuple[int, int]]
"""Offsets and numbers of the rows that are wanted of each worker."""


class Questions(Protocol):
    """The methods of L{natsbroker.workers.questions.WorkerQuestions} that the pages use."""

    def pages(self, path: str, queryFor: Callable[[int], Query | None]) -> Deferred[Answers]: ...

    def parts(self, name: str, *arguments: Any) -> Deferred[dict[int, Any]]: ...


class WholeAnswer(Exception):
    """An answer that replaces a merged document."""

    def __init__(self, answer: WorkerAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class MergedAnswer:
    """An L{Answer} whose status is known when its body is complete."""

    isLong = True
    policy = "default-src 'none'"

    def __init__(self, steps: Generator[Pause, None, Any]) -> None:
        """
        @param steps: steps that return the document, or raise L{WholeAnswer}.
        """
        self.status = _FINE
        self.contentType = JSON
        self.body = self._made(steps)

    def _made(self, steps: Generator[Pause, None, Any]) -> Iterator[Any]:
        try:
            yield from bodyOf(steps)
        except WholeAnswer as other:
            self.status, self.contentType, body = other.answer
            yield body


class WorkerPages(MonitoringModel):
    """
    The pages of all workers, with the steps of a L{natsbroker.system.pages.ServerPages} that
    answers in the system account need.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        info: Callable[[], ServerInfo],
        clock: Any,
        questions: Questions,
        count: int,
    ) -> None:
        """
        @param settings: the settings in use.
        @param count: the number of workers that should exist.
        """
        super().__init__(lambda: settings().monitoring, clock, __version__)
        self._server = settings
        self._info = info
        self._questions = questions
        self._count = count
        self._started = clock.seconds()
        self._usage = ProcessUsage(clock.seconds)
        self.metrics = Metrics()
        self.metrics.contributions.append(self._series)
        self.pages |= {
            "/": self._allPages,
            "/live": livePage,
            "/varz": partial(self._page, "/varz", self._varz),
            "/connz": self._connz,
            **{path: partial(self._page, path, merged) for path in MERGED},
            "/subsz": self._subsz,
            "/jsz": self._jsz,
            "/healthz": self._healthz,
            "/metrics": self.metrics,
        }
        self.aliases["/subscriptionsz"] = "/subsz"
        self.statsz = SimpleNamespace(steps=self._statsz)
        self.healthz = SimpleNamespace(steps=self._health)
        self.accstatz = SimpleNamespace(rows=self._accountRows)
        self.subsz = SimpleNamespace(count=self._subscribers)
        self.jsz = SimpleNamespace(ofAccount=partial(self._part, "account_details", "jetstream"))
        self.accountz = SimpleNamespace(ofAccount=partial(self._part, "", "account"))

    @property
    def tags(self) -> Collection[str]:
        return self._server().server_tags

    @property
    def domain(self) -> str:
        return self._server().jetstream.domain

    def answer(self, path: str, query: Query) -> Any:
        """The merged answer of a page, or that of the first worker for an unknown page."""
        answer = super().answer(path, query)
        if answer is not None or not path.startswith(self.basePath):
            return answer
        return MergedAnswer(self._firstOf(path[len(self.basePath) :], query))

    def _allPages(self, query: Query) -> Any:
        return MergedAnswer(self._allPaths())

    def _allPaths(self) -> Generator[Pause, None, Any]:
        parts = yield from self._parts("paths")
        paths = dict.fromkeys([*self.pages, *parts.get(FIRST, ())])
        raise WholeAnswer(WorkerAnswer(_FINE, HTML, self._listOf(paths)))

    def _firstOf(self, path: str, query: Query) -> Generator[Pause, None, Any]:
        # Another worker has no such page, and does not speak for the first one.
        asking = self._questions.pages(path, lambda worker: query if worker == FIRST else None)
        answers = yield from _outcome(asking)
        raise WholeAnswer(answers.get(FIRST) or _nobody())

    def _documents(
        self, path: str, queryFor: Callable[[int], Query | None]
    ) -> Generator[Pause, None, dict[int, Document]]:
        """
        The documents of the workers that give one. A worker may not know an account that another
        knows.
        """
        answers = yield from _outcome(self._questions.pages(path, queryFor))
        documents = {
            worker: json.loads(answer.body)
            for worker, answer in answers.items()
            if answer.status == _FINE
        }
        if not documents:
            raise WholeAnswer(answers[min(answers)] if answers else _nobody())
        return documents

    def _page(self, path: str, finish: Callable[[list[Document]], Document], query: Query) -> Any:
        def steps() -> Generator[Pause, None, Document]:
            documents = yield from self._documents(path, lambda worker: query)
            return finish(list(documents.values()))

        return MergedAnswer(steps())

    def _own(self) -> Document:
        """The figures of the parent itself."""
        return {"mem": self._usage.memory(), "cpu": number(self._usage.percent())}

    def _varz(self, documents: list[Document]) -> Document:
        block, now = self._server().monitoring, self.clock.seconds()
        return {
            **merged([*documents, self._own()], "varz"),
            "http_host": block.http_host,
            "http_port": block.http_port,
            "http_base_path": self.basePath,
            "https_port": block.https_port,
            "start": instant(self._started),
            "now": instant(now),
            "uptime": uptime(now - self._started),
            "http_req_stats": dict(sorted(self.requests.items())),
        }

    def _statsz(self) -> Generator[Pause, None, Document]:
        documents = yield from self._parts("statsz")
        together = merged([*documents.values(), self._own()], "statsz")
        active = len(together.get("active_accounts", ()))
        return {**together, "start": instant(self._started), "active_accounts": active}

    # Lists of which a request shows some rows

    def _connz(self, query: Query) -> Any:
        Detail.fromQuery(query)
        return MergedAnswer(self._connections(query, Selection.fromQuery(query)))

    def _connections(self, query: Query, selection: Selection) -> Generator[Pause, None, Listing]:
        parts = yield from self._parts("connections", selection)
        if not parts:
            raise WholeAnswer(_nobody())
        ranks = merge(*(_placed(part["ranks"], worker) for worker, part in parts.items()))
        workers: list[int] = []
        end = selection.offset + selection.limit
        while some := [row[-1] for row in islice(ranks, min(_STEP, end - len(workers)))]:
            workers += some
            yield PAUSE
        before, shown = workers[: selection.offset], workers[selection.offset :]
        offsets, counts = Counter(before), Counter(shown)
        windows = {worker: (offsets[worker], counts[worker]) for worker in parts}
        rows = yield from self._rows("/connz", "connections", query, windows)
        ordered = (next(rows[worker], None) for worker in shown if worker in rows)
        head = {
            "server_id": self._info().server_id,
            "now": instant(self.clock.seconds()),
            "num_connections": 0,
            "total": sum(part["total"] for part in parts.values()),
            "offset": selection.offset,
            "limit": selection.limit,
        }
        return Listing(head, "connections", ordered, "num_connections")

    def _subsz(self, query: Query) -> Any:
        return MergedAnswer(self._subscriptions(query, SubscriptionQuery.fromQuery(query)))

    def _subscriptions(
        self, query: Query, wanted: SubscriptionQuery
    ) -> Generator[Pause, None, Listing]:
        key, offset, limit = "subscriptions_list", wanted.offset, wanted.limit
        heads = yield from self._documents(
            "/subsz", lambda worker: {**query, "offset": "0", "limit": "1"}
        )
        windows: dict[int, tuple[int, int]] = {}
        skipped, room = offset, limit
        for worker, head in heads.items():
            head.pop(key, None)
            start = min(skipped, head["total"])
            count = min(head["total"] - start, room)
            windows[worker] = start, count
            skipped, room = skipped - start, room - count
        rows = yield from self._rows("/subsz", key, query, windows)
        together = {**merged(list(heads.values()), "subsz"), "offset": offset, "limit": limit}
        listed = (row for worker in windows if worker in rows for row in rows[worker])
        return Listing(together, key, listed, isShownEmpty=False)

    def _rows(
        self, path: str, key: str, query: Query, windows: Windows
    ) -> Generator[Pause, None, dict[int, Iterator[Document]]]:
        """The rows of each worker in its part of the window, with the number of their C{worker}."""

        def queryFor(worker: int) -> Query | None:
            offset, count = windows.get(worker, (0, 0))
            return {**query, "offset": str(offset), "limit": str(count)} if count else None

        answers = yield from _outcome(self._questions.pages(path, queryFor))
        return {
            worker: iter(
                [{**row, "worker": worker} for row in json.loads(answer.body).get(key, ())]
            )
            for worker, answer in answers.items()
            if answer.status == _FINE
        }

    def _jsz(self, query: Query) -> Any:
        offset, limit = max(integer(query, "offset"), 0), integer(query, "limit")
        limit = limit if limit > 0 else DEFAULT_LIMIT

        def finish(documents: list[Document]) -> Document:
            # A worker without JetStream only reports that it is disabled.
            enabled = [document for document in documents if not document.get("disabled")]
            together = merged(enabled or documents, "jsz")
            rows = together.get("account_details")
            if rows is None or text(query, "acc"):
                return together
            rows = sorted(rows, key=lambda row: str(row["id"]))[offset : offset + limit]
            shown = {**together, "account_details": rows}
            return {key: value for key, value in shown.items() if value is not rows or rows}

        whole = {**query, "offset": "0", "limit": str(offset + limit)}
        return self._page("/jsz", finish, whole)

    # Parts of answers

    def _parts(self, name: str, *arguments: Any) -> Generator[Pause, None, dict[int, Any]]:
        parts: dict[int, Any] = yield from _outcome(self._questions.parts(name, *arguments))
        return parts

    def _part(
        self, place: str, name: str, *arguments: Any
    ) -> Generator[Pause, None, Document | None]:
        """The merged document of the workers that have one, or C{None}."""
        parts = yield from self._parts(name, *arguments)
        documents = [part for part in parts.values() if part is not None]
        return merged(documents, place) if documents else None

    def _accountRows(
        self, names: Collection[str] | None, isComplete: bool
    ) -> Generator[Pause, None, list[Document]]:
        together = yield from self._part("", "accounts", names)
        rows = [] if together is None else together["account_statz"]
        return [row for row in rows if isComplete or row["total_conns"]]

    def _subscribers(self, account: str, subject: str, queue: bytes) -> Generator[Pause, None, int]:
        parts = yield from self._parts("subscribers", account, subject, queue)
        return sum(parts.values())

    def _healthz(self, query: Query) -> Any:
        return MergedAnswer(self._healthSteps(HealthQuery.fromQuery(query)))

    def _healthSteps(self, wanted: HealthQuery) -> Generator[Pause, None, Any]:
        document, status = yield from self._health(wanted)
        raise WholeAnswer(WorkerAnswer(status, JSON, compact(document).encode()))

    def _health(self, wanted: HealthQuery) -> Generator[Pause, None, tuple[Document, int]]:
        """
        The problems of all workers. A stream is missing if every worker with streams misses it, and
        then its problem is that of the worker that knows most.
        """
        parts = yield from self._parts("health", wanted)
        reports = [
            problem
            for _, problems in parts.values()
            for problem in problems
            if problem.status != _MISSING
        ]
        missing = [
            [problem for problem in problems if problem.status == _MISSING]
            for hasStreams, problems in parts.values()
            if hasStreams
        ]
        if missing and all(missing):
            told = [problem for problems in missing for problem in problems]
            reports.append(max(told, key=lambda problem: len(problem.row())))
        if absent := self._count - len(parts):
            reports.append(HealthProblem(f"{absent} of {self._count} workers do not answer"))
        return healthReport(list(dict.fromkeys(reports)), wanted)

    def _series(self) -> Generator[Pause, None, list[MetricSeries]]:
        parts = yield from self._parts("metrics")
        memory = MetricSeries("memory_bytes", "Resident memory of the server.")
        memory.add(self._usage.memory())
        started = MetricSeries("start_time_seconds", "When the server was started.")
        started.add(self._started)
        return mergedSeries([[memory, started], *parts.values()])


MERGED = ("/accountz", "/accstatz", "/gatewayz", "/leafz", "/routez")
"""The pages whose documents are merged by their keys alone."""


def _placed(ranks: list[tuple[Any, int]], worker: int) -> Iterator[tuple[Any, int, int]]:
    return ((rank, cid, worker) for rank, cid in ranks)


def _nobody() -> WorkerAnswer:
    document = {"status": "error", "error": "no worker answers"}
    return WorkerAnswer(_GONE, JSON, compact(document).encode())


def _outcome(asking: Deferred[Any]) -> Generator[Pause, None, Any]:
    answers: list[Any] = []
    yield asking.addCallback(answers.append)
    return answers[0]
