"""
The answers of the API: their keys in the order of the wire, made from plain values.

Times are nanoseconds since 1970, durations nanoseconds.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from natsbroker import API_LEVEL
from natsbroker.interfaces.records import SubjectTallies
from natsbroker.jetstream.model.documents import shownValue, toJSON
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import EncodedObject
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.wire.timestamps import formatTime

NAMES_LIMIT: Final = 1024
LIST_LIMIT: Final = 256
SUBJECTS_LIMIT: Final = 100_000


def sourceInfo(
    source: StreamSource,
    *,
    lag: int = 0,
    active: int = -1,
    seq: int = 0,
    error: JetStreamError | None = None,
    areEncoded: bool = False,
) -> dict[str, Any]:
    """
    @param active: the time since the last message of the origin; -1 for never.
    @param seq: the last sequence taken from a source; 0 leaves it out.
    @param areEncoded: see L{toJSON}.
    @return: the state of a mirror or source.
    """
    info: dict[str, Any] = {"name": source.name}
    if source.external is not None:
        info["external"] = toJSON(source.external)
    info["lag"] = lag
    if seq:
        info["seq"] = seq
    info["active"] = active
    if error is not None:
        info["error"] = error.toJSON()
    if source.filter_subject:
        info["filter_subject"] = source.filter_subject
    if source.subject_transforms:
        info["subject_transforms"] = shownValue(source.subject_transforms, areEncoded)
    return info


def pauseState(until: int, now: int) -> dict[str, Any]:
    """
    @param until: when the consumer continues; Go's zero time for at once.
    @return: the answer to a request to pause.
    """
    state: dict[str, Any] = {"paused": until > now, "pause_until": formatTime(int(until))}
    if until > now:
        state["pause_remaining"] = int(until) - now
    return state


def page(
    items: Sequence[Any], offset: int, limit: int, key: str, *, isNullable: bool = False
) -> dict[str, Any]:
    """
    @param items: all items, in order.
    @param isNullable: whether an empty page is C{null}, as in lists of stream names.
    @return: a page; an offset beyond the end is the end.
    """
    offset = min(max(offset, 0), len(items))
    shown = list(items[offset : offset + limit])
    return {
        "total": len(items),
        "offset": offset,
        "limit": limit,
        key: None if isNullable and not shown else shown,
    }


class SubjectsPage:
    """
    The subjects that one answer to STREAM.INFO shows, of those that match.

    @ivar shown: the number of messages of each.
    """

    def __init__(self, offset: int) -> None:
        """The page behind C{offset} subjects."""
        self._offset = offset
        self._total = 0
        self.shown = EncodedObject()

    def add(self, tallies: SubjectTallies) -> None:
        """Take the next subjects that match, in order."""
        start = self._offset - self._total
        self._total += len(tallies)
        stop = start + SUBJECTS_LIMIT
        if stop > 0 and start < len(tallies):
            chosen = islice(tallies.items(), max(start, 0), stop)
            self.shown.add(
                {key.decode("utf-8", "surrogateescape"): tally.count for key, tally in chosen}
            )

    @property
    def paging(self) -> dict[str, Any]:
        """The paging keys, all zero if nothing matches."""
        if not self._total:
            return {"total": 0, "offset": 0, "limit": 0}
        return {"total": self._total, "offset": self._offset, "limit": SUBJECTS_LIMIT}


def storedMessage(
    subject: str, seq: int, time: int, headers: bytes = b"", data: bytes = b""
) -> dict[str, Any]:
    """A message as MSG.GET shows it."""
    message: dict[str, Any] = {"subject": subject, "seq": seq}
    if headers:
        message["hdrs"] = b64encode(headers).decode()
    if data:
        message["data"] = b64encode(data).decode()
    message["time"] = formatTime(time)
    return message


def accountInfo(
    *,
    memory: int,
    storage: int,
    reservedMemory: int,
    reservedStorage: int,
    streams: int,
    consumers: int,
    limits: JetStreamLimits,
    domain: str = "",
    requests: int = 0,
    failures: int = 0,
    inflight: int = 0,
) -> dict[str, Any]:
    """
    @param requests: the API requests of the account; C{failures} those answered with an error.
    @return: what an account uses and may use.
    """
    info: dict[str, Any] = {
        "memory": memory,
        "storage": storage,
        "reserved_memory": reservedMemory,
        "reserved_storage": reservedStorage,
        "streams": streams,
        "consumers": consumers,
        "limits": limits.toJSON(),
    }
    if domain:
        info["domain"] = domain
    info["api"] = {"level": API_LEVEL, "total": requests, "errors": failures}
    if inflight:
        info["api"]["inflight"] = inflight
    return info


_USED = ("memory", "storage", "reserved_memory", "reserved_storage", "streams", "consumers")


def tiersInfo(allowance: AccountAllowance, info: Mapping[str, Any]) -> dict[str, Any]:
    """
    @param info: the account's usage, all of it by streams with one replica.
    @return: what each tier uses and may use.
    """
    tiers = dict(allowance.tiers)
    if info["streams"]:
        # nats-server shows unused tiers only if their number differs from that of the used ones.
        tiers = {} if len(tiers) == 1 else tiers
        tiers["R1"] = allowance.effective()
    return {
        name: {
            **{key: info[key] if name == "R1" else 0 for key in _USED},
            "limits": tiers[name].toJSON(),
        }
        for name in sorted(tiers)
    }
