"""
JetStream as a service.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from natsbroker.config.model import JetStream
from natsbroker.interfaces import IStreamStore
from natsbroker.interfaces.records import StoreLocked
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.service import JetStreamService, ownerOf
from natsbroker.jetstream.storenames import logName
from tests.jetstream.support import Stage


def service(stage: Stage, opening: Deferred[IStreamStore]) -> JetStreamService:
    """A service whose store is opened by a Deferred."""
    made = JetStreamService(stage.host, JetStream(), lambda: opening)
    made.change("A", AccountAllowance())
    return made


def test_serves() -> None:
    """The API answers from when the stores are open until the service stops."""
    stage = Stage()
    opening: Deferred[IStreamStore] = Deferred()
    made = service(stage, opening)
    made.startService()
    ready = made.whenPrepared()
    assert not ready.called
    opening.callback(stage.files)
    stage.wait(ready)
    inbox = stage.inbox(b"_INBOX.x")
    stage.send(b"$JS.API.INFO", b"", b"_INBOX.x")
    stage.settle()
    assert inbox.payloads[0].startswith(b'{"type":"io.nats.jetstream.api.v1.account_info_response')
    stage.wait(made.stopService())
    stage.send(b"$JS.API.INFO", b"", b"_INBOX.x")
    stage.settle()
    assert inbox.got == []
    assert stage.clock.getDelayedCalls() == []


def test_damage() -> None:
    """
    When a message turns out to be damaged, the consumers of its stream count their pending messages
    again.
    """
    stage = Stage()
    made = service(stage, succeed(stage.files))
    made.startService()
    stage.wait(made.whenPrepared())

    def ask(subject: str, body: object = None) -> dict[str, Any]:
        inbox = stage.inbox(b"_INBOX.x")
        data = b"" if body is None else json.dumps(body).encode()
        stage.send(f"$JS.API.{subject}".encode(), data, b"_INBOX.x")
        stage.settle()
        answer: dict[str, Any] = json.loads(inbox.payloads[0])
        return answer

    ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    for _ in range(3):
        stage.publish(b"s.a")
    config = {"name": "c", "durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.*"}
    ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    assert ask("CONSUMER.INFO.S.c")["num_pending"] == 3
    name = logName("A", "S")
    log: Any = stage.wait(stage.files.open(name))
    stage.wait(log.delete([2]))
    stage.files._troubles.recordsDamaged(name, 2, 3, "broken")
    stage.settle()
    assert ask("STREAM.INFO.S")["state"]["messages"] == 2
    assert ask("CONSUMER.INFO.S.c")["num_pending"] == 2
    stage.wait(made.stopService())


def test_doesNotStart() -> None:
    """If the store cannot be opened, the broker does not start, and names the reason."""
    stage = Stage()
    opening: Deferred[IStreamStore] = Deferred()
    made = service(stage, opening)
    made.startService()
    outcome: list[object] = []
    made.whenPrepared().addErrback(lambda failure: outcome.append(failure.type))
    opening.errback(StoreLocked("in use"))
    stage.settle()
    assert outcome == [StoreLocked]
    stage.wait(made.stopService())


def granted(stage: Stage, located: list[str]) -> JetStreamService:
    """A service without accounts, and the names of accounts that it looks up."""
    return JetStreamService(
        stage.host, JetStream(), lambda: succeed(stage.files), locate=located.append
    )


def request(stage: Stage, subject: bytes, body: bytes = b"") -> list[bytes]:
    """The answers to a request of the API."""
    inbox = stage.inbox(b"_INBOX.x")
    stage.send(b"$JS.API." + subject, body, b"_INBOX.x")
    stage.settle()
    return inbox.payloads


def test_accountsComeAndGo() -> None:
    """An account receives JetStream, other limits, and none. It finds its streams again."""
    stage = Stage()
    made = granted(stage, [])
    made.change("A", None)
    made.startService()
    stage.wait(made.whenPrepared())
    assert request(stage, b"INFO") == []
    made.change("A", AccountAllowance(JetStreamLimits(max_streams=1)))
    stage.settle()
    assert b'"max_streams":1,' in request(stage, b"INFO")[0]
    assert b"did_create" in request(stage, b"STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')[0]
    refused = request(stage, b"STREAM.CREATE.T", b'{"name":"T","subjects":["t"]}')
    assert b'"err_code":10027' in refused[0]
    made.change("A", AccountAllowance())
    stage.settle()
    assert b'"max_streams":-1,' in request(stage, b"INFO")[0]
    made.change("A", None)
    stage.settle()
    assert (request(stage, b"INFO"), list(made.accounts)) == ([], [])
    made.change("A", AccountAllowance())
    stage.settle()
    assert list(made.accounts["A"].streams) == ["S"]
    stage.wait(made.stopService())
    assert request(stage, b"INFO") == []


def test_ownersAreLocated() -> None:
    """When the service starts, it looks up the accounts that own streams."""
    stage = Stage()
    stage.stream()
    stage.wait(stage.files.open("other/B/S"))
    located: list[str] = []
    second = granted(stage, located)
    second.startService()
    stage.settle()
    assert located == ["A"]
    stage.wait(second.stopService())


@pytest.mark.parametrize(
    ("log", "owner"),
    [
        (logName("A", "S"), "A"),
        (logName("a/b c", "S"), "a/b c"),
        ("channel/x", ""),
        ("other/A/S", ""),
        ("jetstream/A", ""),
    ],
)
def test_ownerOf(log: str, owner: str) -> None:
    """The name of a log tells whose stream it is."""
    assert ownerOf(log) == owner
