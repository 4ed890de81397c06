"""
From a request to its answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.jetstream import accountcore
from natsbroker.jetstream.api import dispatcher
from natsbroker.jetstream.api.ordering import RequestOrder
from natsbroker.wire.clientinfo import stamped
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Message
from tests.export.support import Connection
from tests.jetstream.api.support import ApiStage


class _Importer(Connection):
    """A client of an account that imports the API."""

    def __init__(self, account: str = "B") -> None:
        super().__init__(Grant(account))
        self._account = account

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return ClientInfo(acc=self._account, user="secret", server="N")


def test_level() -> None:
    """A request that needs a newer API is refused. An empty level means no requirement."""
    stage = ApiStage()
    assert stage.failure("STREAM.NAMES", Nats_Required_Api_Level="6") == (412, 10185)
    assert stage.failure("STREAM.NAMES", Nats_Required_Api_Level="x") == (412, 10185)
    for level in ("5", ""):
        assert "error" not in stage.ask("STREAM.NAMES", Nats_Required_Api_Level=level)


def test_errors() -> None:
    """An answer with an error has its type, then the error, then the keys of an empty list."""
    stage = ApiStage()
    answer = stage.ask("STREAM.INFO.X")
    assert list(answer) == ["type", "error", "total", "offset", "limit"]
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_info_response"
    assert stage.jetstream.failures == 1


def test_silence() -> None:
    """Requests that nats-server does not know are not answered."""
    stage = ApiStage()
    assert stage.ask("META.LEADER.STEPDOWN") is None
    assert stage.ask("STREAM.CREATE") is None
    stage.api.stop()
    assert stage.ask("STREAM.NAMES") is None


def test_audit() -> None:
    """An advisory has the request and the answer as text."""
    stage = ApiStage()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.API")
    stage.ask("STREAM.NAMES", {"offset": 3})
    (payload,) = inbox.payloads
    event = json.loads(payload)
    assert event["type"] == "io.nats.jetstream.advisory.v1.api_audit"
    assert event["server"] == "S1"
    assert event["subject"] == "$JS.API.STREAM.NAMES"
    assert json.loads(event["request"]) == {"offset": 3}
    assert json.loads(event["response"])["streams"] is None


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (ClientInfo(acc="B", rtt=5), {"acc": "B", "svc": "A", "rtt": 5, "server": "N"}),
        (
            ClientInfo(acc="B", user="b", server="N2"),
            {"acc": "B", "svc": "A", "user": "b", "server": "N2"},
        ),
    ],
    ids=["unshared", "shared"],
)
def test_auditOfImport(asked: ClientInfo, shown: dict[str, Any]) -> None:
    """
    The advisory about a request through an import shows the client only if the import shares it.
    """
    stage = ApiStage()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.API")
    body, length = stamped(b"", 0, asked)
    message = Message(b"$JS.API.INFO", body, b"_INBOX.x", length, origin=_Importer())
    stage.inbox(b"_INBOX.x")
    stage.bus.publish(message)
    stage.settle()
    (payload,) = inbox.payloads
    assert json.loads(payload)["client"] == shown


def test_auditOfForgery() -> None:
    """A client cannot give itself another name in the advisory about its request."""
    stage = ApiStage()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.API")
    body, length = stamped(b"", 0, ClientInfo(acc="C", user="c"))
    origin = _Importer("A")
    stage.inbox(b"_INBOX.x")
    stage.bus.publish(Message(b"$JS.API.INFO", body, b"_INBOX.x", length, origin=origin))
    stage.settle()
    (payload,) = inbox.payloads
    assert json.loads(payload)["client"]["user"] == "secret"


def test_noAudit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a listener, requests and their clients are not described."""
    monkeypatch.setattr(dispatcher, "clientOf", None)
    stage = ApiStage()
    assert "error" not in stage.ask("STREAM.NAMES")


def test_order() -> None:
    """Requests about one stream are handled in their order."""
    stage = ApiStage()
    inbox = stage.inbox(b"_INBOX.>")
    requests = [("CREATE", b'{"name":"S"}'), ("DELETE", b""), ("CREATE", b'{"name":"S"}')]
    for number, (verb, body) in enumerate(requests):
        stage.send(b"$JS.API.STREAM.%b.S" % verb.encode(), body, b"_INBOX.%d" % number)
    stage.settle()
    assert [message.subject for message in inbox.got] == [b"_INBOX.0", b"_INBOX.1", b"_INBOX.2"]
    assert not any(b'"error"' in message.payload for message in inbox.got)
    assert list(stage.jetstream.streams) == ["S"]


def test_held() -> None:
    """Requests that come while streams are recovered are answered afterwards."""
    stage = ApiStage()
    stage.api.hold()
    inbox = stage.inbox(b"_INBOX.held")
    stage.send(b"$JS.API.STREAM.NAMES", b"", b"_INBOX.held")
    stage.settle()
    assert inbox.payloads == []
    stage.api.release()
    stage.settle()
    assert len(inbox.payloads) == 1
    assert stage.ask("STREAM.NAMES") is not None


def test_readsWaitForOwnChanges() -> None:
    """
    A request for information waits for earlier changes by the same client, and not for those of
    other clients.
    """
    stage = ApiStage()
    stage.make()
    api = stage.api
    mine, other = Connection(Grant()), Connection(Grant())
    order = api._orders["S"] = RequestOrder()
    order.acquire()
    inboxes = {name: stage.inbox(f"_INBOX.{name}".encode()) for name in ("purge", "own", "other")}
    for name, verb, origin in (
        ("purge", "STREAM.PURGE.S", mine),
        ("own", "STREAM.INFO.S", mine),
        ("other", "STREAM.INFO.S", other),
    ):
        subject = f"$JS.API.{verb}".encode()
        stage.bus.publish(Message(subject, b"", f"_INBOX.{name}".encode(), origin=origin))
    stage.settle()
    assert [name for name, inbox in inboxes.items() if inbox.got] == ["other"]
    order.release()
    stage.settle()
    assert all(len(inbox.got) == 1 for inbox in inboxes.values())
    assert api._orders == {}


def test_tooMany(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beyond the most that may wait are dropped. One advisory has their number."""
    monkeypatch.setattr(accountcore, "MOST_REQUESTS", 20)
    stage = ApiStage()
    stage.make()
    advisories = stage.inbox(b"$JS.EVENT.ADVISORY.API.LIMIT_REACHED")
    inbox = stage.inbox(b"_INBOX.many")
    for _ in range(100):
        stage.send(b"$JS.API.STREAM.NAMES", b'{"subject":"' + b"x" * 20_000 + b'"}', b"_INBOX.many")
    stage.settle()
    (advisory,) = [json.loads(payload) for payload in advisories.payloads]
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.api_limit_reached"
    assert advisory["dropped"] + len(inbox.got) == 100
    assert advisory["dropped"] > 0
    assert stage.ask("STREAM.NAMES")["total"] == 1
