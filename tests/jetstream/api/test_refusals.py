"""
The API in accounts that do not have JetStream.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.jetstream.api.refusals import ApiRefusals
from natsbroker.jetstream.service import ROUTES
from natsbroker.wire.values import Kind
from tests.jetstream.support import Inbox, Stage

_NOT_ENABLED = 10039


class RefusedStage(Stage):
    """An account without JetStream, to which a test can give JetStream."""

    def __init__(self, system: str = "") -> None:
        super().__init__()
        self.enabled: set[str] = set()
        self.refusals = ApiRefusals(ROUTES, self.enabled.__contains__, system)
        self.refusals.serve("A", self.account.busFor(Kind.LOCAL))

    def ask(self, subject: str, body: bytes = b"", **headers: str) -> Any:
        """The answer to a request behind C{$JS.API.}; C{None} for silence."""
        inbox = self.inbox(b"_INBOX.api")
        self.send(f"$JS.API.{subject}".encode(), body, b"_INBOX.api", **headers)
        self.settle()
        return json.loads(inbox.got[0].payload) if inbox.got else None

    def refusal(self, subject: str, body: bytes = b"", **headers: str) -> int:
        """The number of the error."""
        number: int = self.ask(subject, body, **headers)["error"]["err_code"]
        return number


def test_answers() -> None:
    """A refusal has the type of the requested answer, and the keys that every such answer has."""
    stage = RefusedStage()
    answer = stage.ask("STREAM.NAMES")
    assert list(answer) == ["type", "error", "total", "offset", "limit", "streams"]
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_names_response"
    assert answer["error"]["err_code"] == _NOT_ENABLED


@pytest.mark.parametrize(
    ("subject", "body", "number"),
    [
        ("INFO", b"", _NOT_ENABLED),
        ("STREAM.CREATE.S", b"zork", _NOT_ENABLED),
        ("CONSUMER.CREATE.S.c.f", b"", _NOT_ENABLED),
        ("CONSUMER.CREATE.S.c", b"zork", 10025),
        ("CONSUMER.DURABLE.CREATE.S.c", b"", _NOT_ENABLED),
        ("CONSUMER.UNPIN.S.c", b"", 10025),
        ("CONSUMER.LEADER.STEPDOWN.S.c", b"", 10010),
    ],
)
def test_errors(subject: str, body: bytes, number: int) -> None:
    """
    Malformed requests and requests that need a cluster have errors of their own, even without
    JetStream.
    """
    assert RefusedStage().refusal(subject, body) == number


def test_level() -> None:
    """
    A request that requires a newer API level gets that error, not the one about missing JetStream.
    """
    assert RefusedStage().refusal("INFO", Nats_Required_Api_Level="6") == 10185


@pytest.mark.parametrize(
    "subject",
    [
        *("FOO", "INFO.x", "STREAM.CREATE", "STREAM.INFO.S.x", "META.X"),
        *("CONSUMER", "CONSUMER.FOO.S", "CONSUMER.MSG.NEXT", "CONSUMER.INFO.S"),
        *(f"CONSUMER.{verb}.S.c.x.y" for verb in ("INFO", "DELETE", "RESET", "PAUSE", "UNPIN")),
        *("CONSUMER.RESET.S.c", "CONSUMER.NAMES.S.x", "CONSUMER.LIST.S.x"),
        *("CONSUMER.LEADER.STEPDOWN.S.c.x", "CONSUMER.DURABLE.CREATE.S.c.x"),
    ],
)
def test_silence(subject: str) -> None:
    """
    Requests that nats-server does not know have a receiver, so that clients time out without an
    answer.
    """
    stage = RefusedStage()
    assert stage.ask(subject) is None
    assert stage.bus.hasInterest(f"$JS.API.{subject}".encode())


@pytest.mark.parametrize(
    "subject",
    ["CONSUMER.MSG.NEXT.S", "CONSUMER.MSG.NEXT.S.c", "DIRECT.GET.S", "DIRECT.GET.S.a"],
)
def test_noResponders(subject: str) -> None:
    """Pull requests and direct gets have no receiver, so that clients get "no responders"."""
    assert not RefusedStage().bus.hasInterest(f"$JS.API.{subject}".encode())


def test_enabled() -> None:
    """An account that gets JetStream is not refused until JetStream is taken away."""
    stage = RefusedStage()
    stage.enabled.add("A")
    stage.refusals.refresh("A")
    assert stage.ask("INFO") is None
    (receiver,) = stage.bus.matcher.match(b"$JS.API.STREAM.UNKNOWN").plain
    assert receiver.subscriber.isBatcher, "the compiled lane would decline the request"
    stage.enabled.clear()
    stage.refusals.refresh("A")
    assert stage.refusal("INFO") == _NOT_ENABLED
    stage.refusals.refresh("B")


def test_imported() -> None:
    """
    If an account imports the API, only the exporter answers. Clients that subscribe to the subjects
    do not prevent a refusal.
    """
    stage = RefusedStage()
    stage.inbox(b">")
    assert stage.refusal("INFO") == _NOT_ENABLED
    stage.account.busFor(Kind.INTERNAL).subscribe(b"$JS.API.>", Inbox())
    assert stage.ask("INFO") is None


def test_systemAccount() -> None:
    """
    All refusals in the system account, other than that of INFO, have the type system_response.
    """
    stage = RefusedStage("A")
    assert stage.ask("INFO")["type"] == "io.nats.jetstream.api.v1.account_info_response"
    for subject in ("STREAM.NAMES", "DIRECT.GET.S", "FOO.BAR"):
        assert stage.ask(subject)["type"] == "io.nats.jetstream.api.v1.system_response"
    assert stage.ask("META.LEADER.STEPDOWN") is None
