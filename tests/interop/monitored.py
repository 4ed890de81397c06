"""
A server with its monitoring port, its clients, and the comparison of two servers' documents.
"""

from __future__ import annotations

import http.client
import itertools
import json
import time
from collections.abc import Callable, Container
from typing import Any

from tests.interop.pages import Difference, placesOf
from tests.interop.plainclients import Client
from tests.interop.readers import ExpectedAnswer
from tests.interop.servers import PATIENCE, WORKERS, Server

__all__ = [
    "ABSENT",
    "EXTRA",
    "AskingClient",
    "Monitored",
    "assertSamePlaces",
    "assertSameShape",
    "fetched",
    "readBy",
]

#: What nats-server shows and natsbroker does not, by its place in an answer.
ABSENT = {
    "data.git_commit": "of the Go program",
    "data.disk_io_wait_stats": "of the semaphore in front of Go's disk operations",
}

#: What natsbroker shows and nats-server does not.
EXTRA = {"data.natsbroker": "our own version; version is nats-server's"}
if WORKERS:
    EXTRA |= {
        f"{place}{rows}.worker": "the worker that has the row"
        for place in ("", "data.")
        for rows in ("connections", "subscriptions_list")
    }

#: The objects whose keys are data, such as names.
DATA_PLACES = {
    "server.feature_flags",
    *(
        f"{place}{key}"
        for place in ("", "data.")
        for key in ("http_req_stats", "feature_flags", "inbound_gateways", "outbound_gateways")
    ),
}


class AskingClient(Client):
    """
    A client that sends requests.
    """

    _numbers = itertools.count()

    def ask(
        self, subject: str, body: bytes = b"", patience: float = PATIENCE
    ) -> tuple[bytes, bytes]:
        """
        @return: headers and body of the first answer.
        """
        inbox = b"_INBOX.asking.%d" % next(self._numbers)
        sid = self.subscribe(inbox)
        self.publish(subject.encode(), body, inbox)
        ((_, headers, answer),) = self.messages(sid, 1, patience)
        self.unsubscribe(sid)
        return headers, answer

    def answers(self, subject: str, body: bytes = b"", patience: float = PATIENCE) -> Any:
        """
        @return: the first answer, decoded from JSON; C{None} if the subject has no responders.
        """
        headers, answer = self.ask(subject, body, patience)
        return None if headers else json.loads(answer)

    def api(self, subject: str, **body: Any) -> Any:
        """
        @return: the answer of the JetStream API.
        """
        return self.answers(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"")

    def until(self, subject: str, done: Callable[[Any], bool]) -> None:
        """Repeat a request to the API until its answer is the expected one."""
        deadline = time.monotonic() + PATIENCE
        while not done(self.api(subject)):
            if time.monotonic() > deadline:
                raise TimeoutError(subject)
            time.sleep(0.05)


class Monitored:
    """
    A server process.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._clients: list[AskingClient] = []

    def client(self, user: str) -> AskingClient:
        """A new client, which stays connected."""
        made = AskingClient(self.server, user)
        self._clients.append(made)
        return made

    def get(self, path: str) -> tuple[int, str, bytes]:
        """
        @return: status, content type and body.
        """
        asking = http.client.HTTPConnection("127.0.0.1", self.server.monitorPort, timeout=PATIENCE)
        asking.request("GET", path)
        response = asking.getresponse()
        body = response.read()
        asking.close()
        return response.status, response.headers["Content-Type"], body

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()


def readBy(server: Server, expected: ExpectedAnswer) -> Any:
    """
    @return: the page or the answer that a tool reads. The server has a user C{s} in the system
        account.
    """
    if expected.source.startswith("/"):
        return server.monitor(expected.source)
    # Others of a cluster answer a ping, too.
    number = server.monitor("/varz")["server_id"]
    subject = "SERVER.PING.STATSZ" if expected.source == "SERVER.PING" else expected.source
    subject = subject.replace("SERVER.PING", f"SERVER.{number}")
    body = json.dumps(expected.options).encode() if expected.options else b""
    asker = AskingClient(server, "s")
    try:
        return asker.answers(f"$SYS.REQ.{subject}", body)
    finally:
        asker.close()


def fetched(side: Monitored, path: str) -> Any:
    """
    @return: a page, which must exist.
    """
    status, kind, body = side.get(path)
    assert (status, kind) == (200, "application/json"), body
    return _ordered(json.loads(body))


def _ordered(value: Any) -> Any:
    """The document with rows sorted by name, because nats-server's come in random order."""
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        rows = [_ordered(element) for element in value]
        isNamed = all(isinstance(row, dict) and "name" in row for row in rows)
        return sorted(rows, key=lambda row: str(row["name"])) if isNamed else rows
    return value


def assertSamePlaces(
    there: Any, here: Any, absent: Container[str] = (), extra: Container[str] = ()
) -> None:
    """
    Compare two documents whose rows may be in any order: the keys of all rows together, with their
    types.
    """
    real, ours = (placesOf(document, DATA_PLACES) for document in (there, here))
    for places, excused in ((real - ours, absent), (ours - real, extra)):
        ordered = sorted(places, key=len)
        heads = [place.partition(":")[0] for place in ordered]
        # What is below an excused place is excused, too.
        allowed = [head for head in heads if head in excused]
        assert [
            place
            for place, head in zip(ordered, heads, strict=True)
            if not any(head == one or head.startswith(f"{one}.") for one in allowed)
        ] == []


def assertSameShape(
    there: Any, here: Any, absent: Container[str] = (), extra: Container[str] = ()
) -> Difference:
    """
    Compare two documents: the same keys in the same order, with the same types.

    @param absent: the paths that natsbroker may omit.
    @param extra: the paths that only natsbroker may have.
    """
    difference = Difference("", set(), set(), [], [])
    difference.compare(_ordered(there), _ordered(here))
    missing = {missed.strip() for missed in difference.missing}
    more = {place.strip() for place in difference.extra}
    assert [place for place in sorted(missing) if place not in absent] == []
    assert [place for place in sorted(more) if place not in extra] == []
    assert (difference.types, difference.order) == ([], [])
    return difference
