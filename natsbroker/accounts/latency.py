"""
The latency of services, with the events, statuses and rules for headers of nats-server 2.15
(C{io.nats.server.metric.v1.service_latency}). Arguments are in seconds, events in nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from natsbroker.accounts.core import AccountCore
from natsbroker.config.settings.accounts import Latency, bytesOf
from natsbroker.wire.clientinfo import compact, described, eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind, Message

#: The headers because of which a request is measured; empty if it was chosen by chance.
Headers = Mapping[str, list[str]]

_TYPE = "io.nats.server.metric.v1.service_latency"

_UBER, _UBER_CONTEXT = "Uber-Trace-Id", "Uberctx-"
_B3, _B3_SAMPLED, _B3_TRACE = "B3", "X-B3-Sampled", "X-B3-Traceid"
_B3_PARTS = (_B3_SAMPLED, _B3_TRACE, "X-B3-Parentspanid", "X-B3-Spanid")
_CONTEXT, _STATE = "Traceparent", "Tracestate"

_HEX = re.compile("[0-9a-fA-F]{1,2}")


def traceHeaders(latency: Latency, message: Message, random: Random) -> Headers | None:
    """
    The headers because of which a request is measured, as a tracer (Jaeger, Zipkin or W3C Trace
    Context) decided. Empty if it is measured at random; C{None} if it is not measured.
    """
    sampling = latency.sampling
    if sampling >= 100 or (sampling > 0 and random.randrange(100) < sampling):
        return {}
    return _traced(_headersOf(message)) if message.headerLength else None


def _headersOf(message: Message) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in message.headers.split(b"\r\n")[1:]:
        name, colon, value = decoded(line).partition(":")
        if colon:
            canonical = "-".join([part.capitalize() for part in name.split("-")])
            values.setdefault(canonical, []).append(value.strip())
    return values


def _traced(headers: dict[str, list[str]]) -> Headers | None:
    if _UBER in headers:
        parts = headers[_UBER][0].split(":")
        if len(parts) != 4 or not _isOdd(parts[3]):
            return None
        kept = {name: headers[name] for name in headers if name.startswith(_UBER_CONTEXT)}
        return {_UBER: headers[_UBER], **kept}
    if _B3_SAMPLED in headers and headers[_B3_SAMPLED][0] in ("0", "1"):
        wanted = headers[_B3_SAMPLED][0] == "1"
        return {name: headers[name] for name in _B3_PARTS if name in headers} if wanted else None
    if _B3_TRACE in headers:
        return {name: headers[name] for name in _B3_PARTS if name in headers}
    if _B3 in headers:
        parts = headers[_B3][0].split("-")
        refused = parts == ["0"] or (len(parts) > 2 and parts[2] == "0")
        return None if refused else {_B3: headers[_B3]}
    if _CONTEXT in headers:
        parts = headers[_CONTEXT][0].split("-")
        if len(parts) != 4 or len(parts[3]) != 2 or not _isOdd(parts[3]):
            return None
        return {name: headers[name] for name in (_CONTEXT, _STATE) if name in headers}
    return None


def _isOdd(text: str) -> bool:
    return _HEX.fullmatch(text) is not None and int(text, 16) & 1 == 1


def answeredEvent(
    requestor: Any, responder: Any, share: bool, headers: Headers, since: float, now: float
) -> dict[str, Any]:
    """
    The event of an answered request.

    @param requestor: the origin of the request, as C{IOrigin}; C{None} if it is unknown, like
        C{responder}.
    """
    event = unansweredEvent(200, requestor, share, headers, since, now)
    passed, asking, backAndForth = max(round((now - since) * 1e9), 0), 0, 0
    if requestor is not None:
        asking = requestor.clientInfo(share).rtt
    if responder is not None:
        said = responder.clientInfo(True)
        event["responder"], backAndForth = described(said), said.rtt
    return event | {"service": max(passed - backAndForth, 0), "total": asking + passed}


def unansweredEvent(
    status: int, requestor: Any, share: bool, headers: Headers, since: float, now: float
) -> dict[str, Any]:
    """
    @param status: 400 for a request without reply, 408 if nobody waits for the answer, 503 if it
        reached nobody, 504 if the answer took too long.
    """
    event: dict[str, Any] = {"type": _TYPE, "id": "", "timestamp": instant(now), "status": status}
    if status in _REASONS:
        event["description"] = _REASONS[status]
    if requestor is not None:
        asked = requestor.clientInfo(share)
        event["requestor"] = described(asked)
        since -= asked.rtt / 1e9
    event |= {"start": instant(since), "service": 0, "system": 0, "total": 0}
    return event | {"header": dict(headers)} if headers else event


_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    503: "Service Unavailable",
    504: "Service Timeout",
}


def publishEvent(account: AccountCore, latency: Latency, event: dict[str, Any]) -> None:
    event["id"] = eventId(account.random)
    ordered = {name: event[name] for name in _ORDER if name in event}
    account.delivery.publish(Kind.INTERNAL, Message(bytesOf(latency.subject), compact(ordered)))


_ORDER = (
    "type",
    "id",
    "timestamp",
    "status",
    "description",
    "requestor",
    "responder",
    "header",
    "start",
    "service",
    "system",
    "total",
)
