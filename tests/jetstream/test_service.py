"""
JetStream as a service.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from natsbroker.interfaces import IStreamStore
from natsbroker.interfaces.records import StoreLocked
from natsbroker.jetstream.model.limits import NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS
from natsbroker.jetstream.service import JetStreamService
from tests.jetstream.support import Stage


def service(stage: Stage, opening: Deferred[IStreamStore]) -> JetStreamService:
    """A service whose store is opened by a Deferred."""
    return JetStreamService(
        lambda name: stage.jetstream.bus,
        stage.clock,
        lambda: opening,
        lambda: succeed(stage.memory),
        {"A": NO_ACCOUNT_LIMITS},
        NO_SERVER_LIMITS,
        "S1",
        stage.clock.seconds,
        stage.now,
    )


def test_serves() -> None:
    """The API answers once the stores are open, and no more when the service has stopped."""
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


def test_doesNotStart() -> None:
    """A store that cannot be opened is the reason why the broker does not start."""
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
