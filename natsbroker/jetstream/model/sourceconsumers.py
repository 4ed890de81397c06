"""
The consumers with which mirrors and sources read their origins.
"""

from __future__ import annotations

from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, NamedTuple

from natsbroker.jetstream.model.streamconfig import StreamConfig, StreamSource
from natsbroker.steps import Steps
from natsbroker.subjects.transforms import TransformList, listed
from natsbroker.wire.timestamps import formatTime
from natsbroker.wire.values import Message

_DIGITS = (digits + ascii_uppercase + ascii_lowercase).encode()
_SECOND = 1_000_000_000


class OriginDelivery(NamedTuple):
    """
    The content of the reply subject of a delivered message.

    @ivar sequence: in the origin.
    @ivar number: of the delivery.
    @ivar timestamp: when the origin stored the message, in nanoseconds since 1970.
    @ivar pending: messages that follow.
    @ivar subject: the subject of the message in the origin.
    """

    sequence: int
    number: int
    timestamp: int
    pending: int
    subject: bytes


def deliveryOf(reply: bytes, subject: bytes = b"") -> OriginDelivery | None:
    """
    The content of the reply subject of a delivery; C{None} for another subject. In a domain the
    reply subject has two more tokens, and perhaps another one at its end.
    """
    tokens = reply.split(b".")
    if tokens[:2] != [b"$JS", b"ACK"] or len(tokens) not in (9, 11, 12):
        return None
    place = 5 if len(tokens) == 9 else 7
    words = tokens[place : place + 4]
    if not all(word.isdigit() for word in words):
        return None
    sequence, number, timestamp, pending = map(int, words)
    return OriginDelivery(sequence, number, timestamp, pending, subject)


def shortHash(text: str) -> str:
    """Eight characters that are a text's hash."""
    return bytes(
        _DIGITS[byte % len(_DIGITS)] for byte in sha256(text.encode()).digest()[:8]
    ).decode()


def sourceWords(source: StreamSource) -> tuple[str, str, str]:
    """
    The identity of a source in the header: its name, its filters, and the destinations of its
    transforms.
    """
    name = source.name
    if source.external is not None:
        name = f"{name}:{shortHash(source.external.api)}"
    if source.consumer is not None:
        name = f"{name}:C={shortHash(source.consumer.name)}"
    if not source.subject_transforms:
        return name, source.filter_subject or ">", ">"
    transforms = source.subject_transforms
    return (
        name,
        "\f".join(transform.src or ">" for transform in transforms),
        "\f".join(transform.dest or ">" for transform in transforms),
    )


def filtersOfSource(source: StreamSource) -> list[str]:
    """The subjects that a mirror or source takes; empty for all."""
    if source.filter_subject:
        return [source.filter_subject]
    return [transform.src for transform in source.subject_transforms if transform.src]


def transformsOf(source: StreamSource) -> Steps[TransformList]:
    """The transforms of subjects. A transform without a destination only selects."""
    return listed(
        [
            ((transform.src or ">").encode(), transform.dest.encode())
            for transform in source.subject_transforms
            if transform.dest
        ]
    )


def mirrorHash(stream: str, account: str, domain: str) -> str:
    """
    The end of the name of a mirror's consumer. It stays the same, so that an origin that waits for
    acknowledgements recognises the consumer.

    @param stream: the mirror.
    @param domain: the JetStream domain; empty for none.
    """
    return shortHash(" ".join(filter(None, (stream, account, domain))))


def sourceHash(mirror: str, source: StreamSource, config: StreamConfig) -> str:
    """
    The end of the name of a source's consumer, like L{mirrorHash}.

    @param mirror: the hash that the stream would have as a mirror.
    @param config: the configuration of the stream. The filters distinguish further sources of the
        same name.
    """
    first = config.firstSources.get(source.name, source)
    return shortHash(mirror if first == source else " ".join((mirror, *sourceWords(source))))


def sourcingConsumer(
    source: StreamSource,
    name: str,
    target: str,
    position: int,
    metadata: dict[str, str],
    since: int = 0,
) -> dict[str, Any]:
    """
    The configuration of a consumer as JSON.

    @param target: its deliver subject.
    @param position: the last sequence of the origin that is known; 0 for none.
    @param since: the time to begin at, in place of the one that the source names; 0 for the
        source's.
    """
    config: dict[str, Any] = {"name": name, "deliver_policy": "all"}
    if position or source.opt_start_seq:
        config["deliver_policy"] = "by_start_sequence"
        config["opt_start_seq"] = position + 1 if position else source.opt_start_seq
    elif since or source.opt_start_time is not None:
        config["deliver_policy"] = "by_start_time"
        config["opt_start_time"] = formatTime(since or source.opt_start_time or 0)
    config |= {"ack_policy": "none", "ack_wait": 79200 * _SECOND, "max_deliver": 1}
    filters = filtersOfSource(source)
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        config["filter_subjects"] = filters
    return config | {
        "replay_policy": "instant",
        "flow_control": True,
        "deliver_subject": target,
        "idle_heartbeat": _SECOND,
        "inactive_threshold": 10 * _SECOND,
        "num_replicas": 0,
        "direct": True,
        "sourcing": True,
        "metadata": metadata,
    }


def sinceReset(messages: list[Message]) -> list[Message]:
    """The number of deliveries of a consumer since they were numbered from 1."""
    for place in reversed(range(len(messages))):
        delivery = deliveryOf(messages[place].reply)
        if delivery is not None and delivery.number == 1:
            return messages[place:]
    return []


def isAcknowledged(answer: Any) -> bool:
    """Whether a consumer counts the answers to its flow control requests as acknowledgements."""
    config = answer.get("config")
    return isinstance(config, dict) and config.get("ack_policy") == "flow_control"
