"""
Consumers as documents of a snapshot: their configuration and their positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.consumers.state import ConsumerState
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import documentOf, encodable, parsed
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.snapshots.archive import InvalidArchive
from natsbroker.steps import Steps


def consumerDocument(consumer: Consumer, last: int) -> bytes:
    """
    The document of a consumer.

    @param last: the last sequence of the snapshot: later messages are not mentioned.
    """
    core = consumer.core
    pending = core.pending
    offset = core.account.now() - round(core.monotonic() * 1e9)
    state: dict[str, Any] = {
        "delivered": _position(pending.delivered, min(pending.deliveredStream, last)),
        "ack_floor": _position(pending.floor, min(pending.floorStream, last)),
    }
    entries = {
        str(sequence): {
            "Sequence": first,
            "Timestamp": round((due - core.waitAfter(pending.counts.get(sequence, 0))) * 1e9)
            + offset,
        }
        for sequence, (first, due) in pending.entries.items()
        if sequence <= last
    }
    if entries:
        state["pending"] = entries
    counts = {
        str(sequence): count for sequence, count in pending.counts.items() if sequence <= last
    }
    if counts:
        state["redelivered"] = counts
    config = replace(consumer.config, name=consumer.name)
    return encode({"config": encodable(config), "state": state})


def _position(consumer: int, stream: int) -> dict[str, int]:
    return {"consumer_seq": consumer, "stream_seq": stream}


def reading(name: str, document: bytes) -> Steps[tuple[ConsumerConfig, ConsumerState | None]]:
    """
    A consumer from a document.

    @return: with no state if nothing was delivered and the deliver policy says where it begins.
    @raise InvalidArchive: if the document is not that of a consumer.
    """
    try:
        kept = parsed(document)
        yield
        for key in ("config", "state"):
            if kept.get(key) is None:
                raise InvalidArchive(f'consumer "{name}" is missing {key}')
        config = yield from documentOf(kept["config"], ConsumerConfig, isStrict=False)
        return config, _stateFrom(kept["state"], config)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArchive(f'failed to decode consumer "{name}" state: {error}') from error


def _stateFrom(document: dict[str, Any], config: ConsumerConfig) -> ConsumerState | None:
    delivered, floor = document.get("delivered") or {}, document.get("ack_floor") or {}
    state = ConsumerState(
        _number(delivered, "consumer_seq"),
        _number(delivered, "stream_seq"),
        _number(floor, "consumer_seq"),
        _number(floor, "stream_seq"),
    )
    if not state.delivered and not state.deliveredStream:
        return None
    state.start = state.deliveredStream
    counts = {int(key): int(value) for key, value in (document.get("redelivered") or {}).items()}
    pending = document.get("pending") or {}
    sequences = sorted(int(sequence) for sequence in pending)
    state.sequences = sequences
    state.firsts = [_number(pending[str(sequence)], "Sequence") for sequence in sequences]
    state.dues = [
        (_number(pending[str(sequence)], "Timestamp") + _wait(config, counts.get(sequence, 0)))
        // 1_000_000
        for sequence in sequences
    ]
    state.counts.update(counts)
    return state


def _number(fields: dict[str, Any], key: str) -> int:
    number = fields.get(key, 0)
    if not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise ValueError(f"{key} is not a sequence")
    return number


def _wait(config: ConsumerConfig, redeliveries: int) -> int:
    """Nanoseconds until a message is due again."""
    if config.backoff:
        return config.backoff[min(redeliveries, len(config.backoff) - 1)]
    return config.ack_wait
