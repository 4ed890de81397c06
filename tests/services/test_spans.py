"""Tests for L{natsbroker.services.spans}, with the SDK's exporter in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IBrokerService, IPublishFilter
from natsbroker.runtime.plugins import PluginError
from natsbroker.services.spans import PublishSpans, SpanPlugin
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.values import Kind, Message
from tests.server.support import Host

pytest.importorskip("opentelemetry.sdk")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
HEADER = f"traceparent: 00-{TRACE}-{PARENT}-01\r\n"


class Spans:
    """A tracer, with the spans that it made."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def finished(self) -> Sequence[Any]:
        """Those that ended."""
        return self._exporter.get_finished_spans()


@pytest.fixture
def spans() -> Spans:
    """A tracer."""
    return Spans()


@pytest.fixture
def broker(spans: Spans) -> Iterator[MemoryBroker]:
    """A broker that makes spans for its global account."""
    with MemoryBroker() as broker:
        broker.broker.addFilter("$G", PublishSpans("$G", "quiet", spans.tracer))
        yield broker


def publish(broker: MemoryBroker, subject: str, headers: str, payload: str = "hi") -> bytes:
    """
    Publish a message with headers.

    @return: what a subscriber gets.
    """
    client = broker.connect({"verbose": False, "headers": True})
    client.request(b"SUB > 1\r\n")
    block = f"NATS/1.0\r\n{headers}\r\n"
    line = f"HPUB {subject} {len(block)} {len(block) + len(payload)}\r\n{block}{payload}\r\n"
    return client.request(line.encode())


def message(headers: bytes) -> Message:
    """A message with a header block."""
    return Message(b"a", headers, headerLength=len(headers))


def test_interfaces(spans: Spans) -> None:
    """The parts provide their interfaces."""
    assert verifyObject(IBrokerService, SpanPlugin())
    assert verifyObject(IPublishFilter, PublishSpans("A", "s", spans.tracer))


def test_span(broker: MemoryBroker, spans: Spans) -> None:
    """
    A message with C{traceparent} makes a span below the publisher's, and is delivered unchanged.
    """
    got = publish(broker, "orders.1", HEADER)
    (span,) = spans.finished
    assert span.name == "publish orders.1"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.parent.is_remote
    assert dict(span.attributes) == {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders.1",
        "messaging.message.body.size": 2,
        "nats.account": "$G",
        "nats.server": "quiet",
    }
    assert HEADER.encode() in got
    assert got.endswith(b"hi\r\n")


def test_inbox(broker: MemoryBroker, spans: Spans) -> None:
    """Spans of replies do not have the reply subject in their name."""
    publish(broker, "_INBOX.x.1", HEADER.replace("traceparent", "Traceparent"))
    (span,) = spans.finished
    assert span.name == "publish (temporary)"
    assert span.attributes["messaging.destination.temporary"] is True


def test_untraced(broker: MemoryBroker, spans: Spans) -> None:
    """A message without C{traceparent}, or that is not sampled, makes no span."""
    publish(broker, "a", "other: x\r\n")
    publish(broker, "a", HEADER.replace("-01\r\n", "-00\r\n"))
    assert list(spans.finished) == []


def test_ofOtherBrokers(spans: Spans) -> None:
    """A message from another member of the cluster makes no span, one from a leafnode does."""
    filtering = PublishSpans("A", "s", spans.tracer)
    traced = message(f"NATS/1.0\r\n{HEADER}\r\n".encode())
    assert filtering.filterMessage(traced, Kind.ROUTE) is traced
    assert list(spans.finished) == []
    filtering.filterMessage(traced, Kind.SPOKE)
    assert len(spans.finished) == 1


@pytest.mark.parametrize("block", [b"nonsense", b"NATS/1.0\r\ntraceparent: x\r\n\r\n"])
def test_unreadable(spans: Spans, block: bytes) -> None:
    """A message with unreadable headers or C{traceparent} is delivered."""
    unread = message(block)
    assert PublishSpans("A", "s", spans.tracer).filterMessage(unread, Kind.CLIENT) is unread
    assert all(span.parent is None for span in spans.finished)


def test_embedder(monkeypatch: pytest.MonkeyPatch, spans: Spans) -> None:
    """
    Without a configured exporter, spans go to the process's own provider until the service stops.
    """
    from opentelemetry import trace

    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
    host = Host("services { opentelemetry {} }").start()
    block = f"NATS/1.0\r\n{HEADER}\r\n".encode()
    client = host.client(b'CONNECT {"verbose":false,"headers":true}\r\n')
    client.ask(b"HPUB a %d %d\r\n%b\r\n" % (len(block), len(block), block))
    assert len(spans.finished) == 1
    host.broker.stopService()
    host.settle()
    assert host.broker.accounts["$G"].delivery.filters._filters == []


class RecordingExporter:
    """
    An exporter of spans that is installed under a name.

    @cvar exported: the spans that any of them got.
    @cvar shutdowns: how many were shut down.
    """

    exported: list[Any] = []
    shutdowns = 0

    def export(self, spans: Sequence[Any]) -> Any:
        """Record spans."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.exported.extend(spans)
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Nothing is left to flush."""
        return True

    def shutdown(self) -> None:
        """Note the end."""
        type(self).shutdowns += 1


def test_namedExporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans go to the exporter that is configured by name, at the latest when the broker stops."""
    installed = tmp_path / "recording-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: recording\nVersion: 1.0\n")
    target = f"{__name__}:{RecordingExporter.__name__}"
    (installed / "entry_points.txt").write_text(
        f"[opentelemetry_traces_exporter]\nrecording = {target}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
    monkeypatch.setattr(RecordingExporter, "exported", [])
    monkeypatch.setattr(RecordingExporter, "shutdowns", 0)
    configured = "services { opentelemetry { exporter: recording } }"
    with MemoryBroker(configText=configured) as broker:
        publish(broker, "orders.1", HEADER)
    (span,) = RecordingExporter.exported
    assert (span.name, span.resource.attributes["service.name"]) == (
        "publish orders.1",
        "orders-broker",
    )
    assert RecordingExporter.shutdowns == 1


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("accounts: [ nobody ]", "there is no account nobody"),
        ("exporter: nowhere", 'there is no exporter "nowhere"; installed are: .*console'),
        ("colour: red", 'unknown option "colour"'),
    ],
)
def test_invalidSection(section: str, why: str) -> None:
    """The error for an invalid section names the option or its value."""
    with pytest.raises(PluginError, match=why):
        Host(f"services {{ opentelemetry {{ {section} }} }}")


def test_notInstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error names the package to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(PluginError, match=r"pip install 'natsbroker\[opentelemetry\]'"):
        Host("services { opentelemetry {} }")
