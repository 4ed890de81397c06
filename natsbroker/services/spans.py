"""
Spans of OpenTelemetry for published messages that carry the header C{traceparent}, as the service
C{opentelemetry}::

    services { opentelemetry { accounts: [ A ], exporter: otlp_proto_http } }

It needs the extra C{opentelemetry}, and loads it when the service is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from natsbroker.interfaces import (
    IBrokerHost,
    IBrokerService,
    IOptionsCheck,
    IPublishFilter,
    IWorkerPlugin,
)
from natsbroker.runtime.pluginoptions import PluginOptionError, PluginOptions
from natsbroker.wire.grants import GLOBAL_ACCOUNT
from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind, Message

_MISSING = "needs OpenTelemetry: pip install 'natsbroker[opentelemetry]'"

_HEADERS = ("traceparent", "tracestate")

#: The entry points of packages with exporters; the SDK's own is C{console}.
_EXPORTERS = "opentelemetry_traces_exporter"

#: The origins of messages for which no other broker has made a span.
_ORIGINS = (Kind.CLIENT, Kind.HUB, Kind.SPOKE)


@implementer(IPublishFilter)
class PublishSpans:
    def __init__(self, account: str, server: str, tracer: Any) -> None:
        """C{tracer} is an C{opentelemetry.trace.Tracer}."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._account = account
        self._server = server
        self._tracer = tracer
        self._extract: Callable[[Mapping[str, str]], Any] = TraceContextTextMapPropagator().extract
        self._kind = SpanKind.PRODUCER

    def filterMessage(self, message: Message, kind: int) -> Message:
        """Make a span if the message asks for one; it passes unchanged."""
        if message.headerLength and kind in _ORIGINS:
            carrier = _contextOf(message)
            if "traceparent" in carrier:
                self._make(message, carrier)
        return message

    def _make(self, message: Message, carrier: Mapping[str, str]) -> None:
        subject = decoded(message.subject)
        # The conventions want no subjects in names that are made for one reply.
        isInbox = subject.startswith("_INBOX.")
        attributes: dict[str, str | int | bool] = {
            "messaging.system": "nats",
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": subject,
            "messaging.message.body.size": len(message.body) - message.headerLength,
            "nats.account": self._account,
            "nats.server": self._server,
        }
        if isInbox:
            attributes["messaging.destination.temporary"] = True
        name = "publish (temporary)" if isInbox else f"publish {subject}"
        context = self._extract(carrier)
        self._tracer.start_span(name, context, self._kind, attributes).end()


def _contextOf(message: Message) -> dict[str, str]:
    """The headers of the trace, without regard to case; empty if the headers cannot be read."""
    headers = Headers.fromBlock(message.body[: message.headerLength])
    try:
        values = {name: headers.get(name, anyCase=True) for name in _HEADERS}
    except HeaderError:
        return {}
    return {name: value for name, value in values.items() if value}


class SpanService(Service):
    name = "opentelemetry"

    def __init__(self, host: Any, accounts: list[str], tracer: Any, provider: Any) -> None:
        """C{provider} is shut down with the service; C{None} if it is an embedder's."""
        self._host = host
        self._provider = provider
        self._remove: list[Callable[[], None]] = []
        server = str(host.describe()["name"])
        self._filters = [(account, PublishSpans(account, server, tracer)) for account in accounts]

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._remove = [self._host.addFilter(name, spans) for name, spans in self._filters]

    def stopService(self) -> Deferred[None] | None:
        """Fires when the spans that wait have been exported."""
        super().stopService()  # type: ignore[no-untyped-call]
        for remove in self._remove:
            remove()
        if self._provider is None:
            return None
        reactor = self._host.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), self._provider.shutdown)


@implementer(IBrokerService, IOptionsCheck, IWorkerPlugin)
class SpanPlugin:
    name = "opentelemetry"
    runsInWorkers = True

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        _, exporter = _optionsIn(section)
        _import()
        if exporter:
            _entryPoint(exporter)

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        accounts, exporter = _optionsIn(section)
        for account in accounts:
            _checkAccount(host, account)
        trace = _import()
        provider = _providerFor(exporter) if exporter else None
        source = provider or trace.get_tracer_provider()
        service: IService = SpanService(host, accounts, source.get_tracer("natsbroker"), provider)
        return service


READY_MADE = (SpanPlugin(),)


def _optionsIn(section: Mapping[str, Any]) -> tuple[list[str], str]:
    options = PluginOptions(section)
    accounts = options.texts("accounts") or [GLOBAL_ACCOUNT]
    exporter = options.text("exporter")
    options.end()
    return accounts, exporter


def _import() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        raise ValueError(_MISSING) from None
    return trace


def _checkAccount(host: IBrokerHost, name: str) -> None:
    try:
        host.bus(name)
    except KeyError:
        raise PluginOptionError("accounts", f"there is no account {name}") from None


def _providerFor(exporter: str) -> Any:
    """
    @param exporter: an entry point, configured by the SDK's environment variables, such as
        C{OTEL_EXPORTER_OTLP_ENDPOINT} and C{OTEL_SERVICE_NAME}.
    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create())
    provider.add_span_processor(BatchSpanProcessor(_entryPoint(exporter).load()()))
    return provider


def _entryPoint(exporter: str) -> Any:
    from importlib.metadata import entry_points

    entryPoints = list(entry_points(group=_EXPORTERS, name=exporter))
    if not entryPoints:
        known = ", ".join(sorted(entryPoint.name for entryPoint in entry_points(group=_EXPORTERS)))
        text = f'there is no exporter "{exporter}"; installed are: {known}'
        raise PluginOptionError("exporter", text)
    return entryPoints[0]
