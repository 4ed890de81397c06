"""
The metrics of streams and consumers, a few at a time. A scrape shows the present knowledge of the
broker, and reads nothing from a store.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from natsbroker.monitoring.answers import PAUSE, Pause
from natsbroker.monitoring.metrics import MetricSeries

#: The consumers that one step visits.
_STEP = 64


def jetStreamSeries(accounts: Mapping[str, Any]) -> Generator[Pause, None, list[MetricSeries]]:
    """The series of C{accounts}, L{natsbroker.jetstream.account.JetStreamAccount} by name."""
    labels = ("account", "stream")
    messages = MetricSeries("stream_messages", "Messages in a stream.", labels)
    size = MetricSeries("stream_bytes", "Bytes of these messages.", labels)
    last = MetricSeries("stream_last_sequence", "The sequence of the last message.", labels)
    names = (*labels, "consumer")
    consumers = {
        "num_pending": MetricSeries("consumer_pending", "Messages to deliver.", names),
        "num_ack_pending": MetricSeries("consumer_ack_pending", "Not acknowledged yet.", names),
        "num_redelivered": MetricSeries("consumer_redelivered", "Delivered again.", names),
        "num_waiting": MetricSeries("consumer_waiting", "Pull requests that wait.", names),
    }
    number = 0
    for name, account in list(accounts.items()):
        for stream in list(account.streams.values()):
            messages.add(stream.messages, name, stream.name)
            size.add(stream.size, name, stream.name)
            last.add(stream.last, name, stream.name)
            for consumer in list(stream.consumers.values()):
                shown = consumer.info()
                for key, series in consumers.items():
                    series.add(shown[key], name, stream.name, consumer.name)
                number += 1
                if number % _STEP == 0:
                    yield PAUSE
            yield PAUSE
    return [messages, size, last, *consumers.values()]
