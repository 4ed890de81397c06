"""
What copies of messages say about where they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Which log, as C{channel/orders} or C{stream/ORDERS}, and which of that name.
LOG, IDENTITY = "Nb-Origin-Log", "Nb-Origin-Identity"

#: What the log of a replayed message is called.
STREAM = "Nb-Origin-Stream"

#: The sequence there, and when it was stored, in nanoseconds since 1970.
SEQUENCE, TIME = "Nb-Origin-Sequence", "Nb-Origin-Time"

#: Which task of which job replayed it.
REPLAY = "Nb-Replay"


def ownHeaders(pairs: Iterable[Mapping[str, str | None]] | None) -> list[tuple[str, str]]:
    """
    The headers that a message had, those that mean something to servers or to us under other names.
    """
    found = []
    for each in pairs or ():
        key, value = each["key"] or "", each["value"] or ""
        isActedOn = key.lower().startswith("nats-") or key.lower() == REPLAY.lower()
        found.append((f"Nb-Origin-{key}" if isActedOn else key, value))
    return found
