"""
The monitoring pages under C{/streaming}, as those of nats-streaming-server 0.25.6, and the metrics
of channels.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from natsbroker.clients.state import BrokerState
from natsbroker.config.settings.streaming import ChannelLimits, Streaming
from natsbroker.monitoring.answers import (
    HTML,
    JSON,
    PAUSE,
    Answer,
    Listing,
    Page,
    Pause,
    bodyOf,
    textAnswer,
)
from natsbroker.monitoring.formats import instant, nanoseconds, uptime
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.monitoring.queries import DEFAULT_LIMIT, BadQuery, Query, integer, repeated, text
from natsbroker.streaming.monitoring import StreamingModel

VERSION = "0.25.6"
"""The version of nats-streaming-server that clients and tools are served like."""

ROOT = "/streaming"

#: The members of a row that are left out when they are empty.
_OPTIONAL = ("durable_name", "queue_name")

#: The names of stores there, by their names here.
_TYPES = {"LMDB": "FILE", "POSTGRES": "SQL"}

#: The rows between two pauses.
_STEP = 64


def streamingPages(model: StreamingModel, state: BrokerState) -> dict[str, Page]:
    pages = StreamingPages(model, state)
    named = {
        f"{ROOT}/serverz": pages.serverz,
        f"{ROOT}/storez": pages.storez,
        f"{ROOT}/clientsz": pages.clientsz,
        f"{ROOT}/channelsz": pages.channelsz,
    }
    shown: dict[str, Page] = {ROOT: lambda query: _index(list(named))}
    for path, page in named.items():
        shown[path] = pages.whileRunning(page)
    shown[f"{ROOT}/isFTActive"] = pages.whileRunning(pages.isActive)
    return shown


def _index(paths: Sequence[str]) -> Answer:
    links = "".join(f'<a href=".{path}">{path.rpartition("/")[2]}</a><br>\n' for path in paths)
    page = f'<!DOCTYPE html>\n<html lang="en">\n<body>\n{links}</body>\n</html>\n'
    return Answer(200, HTML, iter([page.encode()]))


def limitsOf(settings: Streaming) -> dict[str, Any]:
    """The limits as the page of the store has them, times in nanoseconds."""
    limits = {"max_channels": settings.max_channels, **_limits(settings)}
    if settings.channels:
        limits["channels"] = {
            name: _limits(settings.limitsOf(name)) for name in sorted(settings.channels)
        }
    return limits


def _limits(limits: ChannelLimits) -> dict[str, Any]:
    return {
        "max_msgs": limits.max_msgs,
        "max_bytes": limits.max_bytes,
        "max_age": nanoseconds(limits.max_age),
        "max_subscriptions": limits.max_subs,
        "max_inactivity": nanoseconds(limits.max_inactivity),
    }


class StreamingPages:
    def __init__(self, model: StreamingModel, state: BrokerState) -> None:
        self._model = model
        self._state = state

    def whileRunning(self, page: Page) -> Page:
        def answer(query: Query) -> Answer:
            if self._model.isRunning:
                return page(query)
            return textAnswer(500, "NATS Streaming is not running")

        return answer

    def _head(self) -> dict[str, Any]:
        return {
            "cluster_id": self._model.settings.cluster_id,
            "server_id": self._state.context.info.server_id,
            "now": instant(self._state.seconds()),
        }

    def serverz(self, query: Query) -> Answer:
        figures, state = self._model.figures(), self._state
        return _document(
            {
                "cluster_id": figures.cluster_id,
                "server_id": state.context.info.server_id,
                "version": VERSION,
                "go": "",
                "state": figures.state,
                "now": instant(state.seconds()),
                "start_time": instant(state.startTime),
                "uptime": uptime(state.seconds() - state.startTime),
                "clients": figures.clients,
                "subscriptions": figures.subscriptions,
                "channels": figures.channels,
                "total_msgs": figures.total_msgs,
                "total_bytes": figures.total_bytes,
                "in_msgs": figures.in_msgs,
                "in_bytes": figures.in_bytes,
                "out_msgs": figures.out_msgs,
                "out_bytes": figures.out_bytes,
                **openFiles(),
            }
        )

    def storez(self, query: Query) -> Answer:
        figures = self._model.figures()
        return _document(
            {
                **self._head(),
                "type": _TYPES.get(figures.store, figures.store),
                "limits": limitsOf(self._model.settings),
                "total_msgs": figures.total_msgs,
                "total_bytes": figures.total_bytes,
            }
        )

    def clientsz(self, query: Query) -> Answer:
        name, row = text(query, "client"), partial(self._client, _number(query, "subs") == 1)
        if not name:
            return self._listing(query, self._model.clientNames(), "clients", row)
        return _one("Client", name, row)

    def _client(self, hasSubscriptions: bool, name: str) -> dict[str, Any]:
        shown = asdict(self._model.client(name))
        if hasSubscriptions:
            channels = self._model.clientSubscriptions(name)
            if channels:
                shown["subscriptions"] = {
                    channel: [_subscription(one) for one in channels[channel]]
                    for channel in sorted(channels)
                }
        return shown

    def channelsz(self, query: Query) -> Answer:
        name, hasSubscriptions = text(query, "channel"), _number(query, "subs") == 1
        row = partial(self._channel, hasSubscriptions)
        if not name:
            names = self._model.channelNames()
            if hasSubscriptions:
                return self._listing(query, names, "channels", row)
            return self._listing(query, names, "names", str)
        return _one("Channel", name, row)

    def _channel(self, hasSubscriptions: bool, name: str) -> dict[str, Any]:
        shown = asdict(self._model.channel(name))
        if hasSubscriptions:
            subscriptions = self._model.channelSubscriptions(name)
            shown["subs_count"] = len(subscriptions)
            if subscriptions:
                shown["subscriptions"] = [
                    _subscription(subscription) for subscription in subscriptions
                ]
        return shown

    def _listing(
        self, query: Query, names: Sequence[str], key: str, row: Callable[[str], Any]
    ) -> Answer:
        """
        The rows of some names. C{row} gives a row, or raises C{KeyError} if its subject has gone
        meanwhile.
        """
        offset = max(_number(query, "offset"), 0)
        limit = _number(query, "limit")
        limit = limit if limit > 0 else DEFAULT_LIMIT
        head = {
            **self._head(),
            "offset": offset,
            "limit": limit,
            "count": 0,
            "total": len(names),
        }

        def rows() -> Any:
            for place, name in enumerate(names[offset : offset + limit]):
                if place % _STEP == _STEP - 1:
                    yield None
                try:
                    yield row(name)
                except KeyError:
                    continue

        def steps() -> Any:
            yield PAUSE
            return Listing(head, key, rows(), countKey="count", isShownEmpty=key == "clients")

        return Answer(200, JSON, bodyOf(steps()), isLong=True)

    def isActive(self, query: Query) -> Answer:
        """Whether this broker is active, for a balancer in front of brokers that share a store."""
        isActive = self._model.figures().state == "FT_ACTIVE"
        return Answer(200 if isActive else 204, JSON, iter([b""]))


def streamingSeries(model: StreamingModel) -> Generator[Pause, None, list[MetricSeries]]:
    """Metrics of channels, and of subscriptions by durable, queue group or client."""
    labels = ("channel",)
    messages = MetricSeries("channel_messages", "Messages in a channel.", labels)
    size = MetricSeries("channel_bytes", "Bytes of these messages.", labels)
    last = MetricSeries("channel_last_sequence", "The sequence of the last message.", labels)
    names = (*labels, "subscription")
    lag = MetricSeries("channel_lag", "Messages that were not sent yet.", names)
    pending = MetricSeries("channel_ack_pending", "Not acknowledged yet.", names)
    for place, name in enumerate(model.channelNames() if model.isRunning else ()):
        if place % _STEP == _STEP - 1:
            yield PAUSE
        try:
            channel, subscriptions = model.channel(name), model.channelSubscriptions(name)
        except KeyError:
            continue
        messages.add(channel.msgs, name)
        size.add(channel.bytes, name)
        last.add(channel.last_seq, name)
        sums: dict[str, tuple[int, int]] = {}
        for subscription in subscriptions:
            key = subscription.queue_name or subscription.durable_name or subscription.client_id
            behind, owed = sums.get(key, (0, 0))
            behind = max(behind, channel.last_seq - subscription.last_sent)
            sums[key] = behind, owed + subscription.pending_count
        for key, (behind, owed) in sums.items():
            lag.add(behind, name, key)
            pending.add(owed, name, key)
    return [messages, size, last, lag, pending]


def openFiles(path: str = "/proc/self/fd") -> dict[str, int]:
    """The open file descriptors and their limit; without C{/proc} only the limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return {"open_fds": len(os.listdir(path)), "max_fds": limit}
    except OSError:
        return {"max_fds": limit}


def _subscription(figures: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(figures).items() if value or key not in _OPTIONAL}


def _number(query: Query, name: str) -> int:
    """A parameter as a number. Anything else counts as 0."""
    try:
        return integer(query, name)
    except BadQuery:
        return 0


def _one(kind: str, name: str, row: Callable[[str], dict[str, Any]]) -> Answer:
    try:
        return _document(row(name))
    except KeyError:
        return textAnswer(404, f"{kind} {repeated(name)} not found")


def _document(document: dict[str, Any]) -> Answer:
    def steps() -> Any:
        yield PAUSE
        return document

    return Answer(200, JSON, bodyOf(steps()))
