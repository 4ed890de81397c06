"""
The choice between the two dialects of routes, which both ends derive from the other's INFO.

In INFO, servers before 2.0 have protocol 1 or none, and later ones have 2 or more. A natsbroker
that understands both dialects has 2 and a member of its own, C{classic}. Another natsbroker that
understands only the old dialect recognises it by this.
"""

from __future__ import annotations

from enum import Enum

from natsbroker.wire.serverinfo import ServerDocument

#: The member of INFO of a natsbroker that also speaks the classic dialect.
CLASSIC_TOO = "classic"

#: Servers that understand accounts on routes have this protocol, or a later one.
_MODERN = 2


class RouteDialect(Enum):
    """The dialect of servers before NATS 2.0, the modern one, or the best that both understand."""

    CLASSIC = "classic"
    MODERN = "modern"
    AUTO = "auto"

    @property
    def spoken(self) -> frozenset[RouteDialect]:
        if self is RouteDialect.AUTO:
            return frozenset((RouteDialect.CLASSIC, RouteDialect.MODERN))
        return frozenset((self,))


def _dialectOf(document: ServerDocument) -> RouteDialect:
    if document.proto < _MODERN:
        return RouteDialect.CLASSIC
    return RouteDialect.AUTO if document.raw.get(CLASSIC_TOO) is True else RouteDialect.MODERN


def chosen(ours: RouteDialect, document: ServerDocument) -> RouteDialect | None:
    common = ours.spoken & _dialectOf(document).spoken
    if RouteDialect.MODERN in common:
        return RouteDialect.MODERN
    return RouteDialect.CLASSIC if common else None


def understand(one: ServerDocument, other: ServerDocument) -> bool:
    return chosen(_dialectOf(one), other) is not None
