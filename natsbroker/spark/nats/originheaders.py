"""Headers of messages that are published again: their origin, and their former headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Which log, as C{channel/orders} or C{stream/ORDERS}, and which of that name.
LOG, IDENTITY = "Nb-Origin-Log", "Nb-Origin-Identity"

#: The header with the name of a replayed message's log.
STREAM = "Nb-Origin-Stream"

#: The sequence there, and when it was stored, in nanoseconds since 1970.
SEQUENCE, TIME = "Nb-Origin-Sequence", "Nb-Origin-Time"

#: The prefix for the names of its headers that are commands.
OWN = "Nb-Origin-"

#: Which task of which job replayed it.
REPLAY = "Nb-Replay"


def ownHeaders(pairs: Iterable[Mapping[str, str | None] | None] | None) -> list[tuple[str, str]]:
    """
    The headers of a message. Those that are commands to servers, or have a meaning here, get the
    prefix C{Nb-Origin-}. A copy must not roll up, expire or schedule anything in its new stream.
    """
    headers = []
    for pair in pairs or ():
        if pair is None:
            continue
        key, value = pair["key"] or "", pair["value"] or ""
        isActedOn = key.lower().startswith("nats-") or key.lower() == REPLAY.lower()
        headers.append((f"{OWN}{key}" if isActedOn else key, value))
    return headers
