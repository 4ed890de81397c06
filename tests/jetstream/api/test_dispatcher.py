"""
From a request to its answer.
"""

from __future__ import annotations

import json

from tests.jetstream.api.support import ApiStage


def test_level() -> None:
    """A request that needs a newer API is refused; an empty level counts as none."""
    stage = ApiStage()
    assert stage.failure("STREAM.NAMES", Nats_Required_Api_Level="6") == (412, 10185)
    assert stage.failure("STREAM.NAMES", Nats_Required_Api_Level="x") == (412, 10185)
    for level in ("5", ""):
        assert "error" not in stage.ask("STREAM.NAMES", Nats_Required_Api_Level=level)


def test_errors() -> None:
    """An error stands behind the type, before keys that are always there."""
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


def test_order() -> None:
    """Requests about one stream are handled in their order."""
    stage = ApiStage()
    inbox = stage.inbox(b"_INBOX.>")
    requests = [("CREATE", b'{"name":"S"}'), ("DELETE", b""), ("CREATE", b'{"name":"S"}')]
    for number, (verb, body) in enumerate(requests):
        stage.send(b"$JS.API.STREAM.%b.S" % verb.encode(), body, b"_INBOX.%d" % number)
    stage.settle()
    assert [each.subject for each in inbox.got] == [b"_INBOX.0", b"_INBOX.1", b"_INBOX.2"]
    assert not any(b'"error"' in each.payload for each in inbox.got)
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
