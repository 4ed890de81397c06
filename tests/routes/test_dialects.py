"""
Which dialect two members speak.
"""

from __future__ import annotations

import pytest

from natsbroker.links.identity import LinkIdentity
from natsbroker.routes.dialects import RouteDialect, chosen, understand
from natsbroker.routes.terms import ClusterTerms, infoDocument
from natsbroker.wire.connect import infoLine
from natsbroker.wire.serverinfo import ServerDocument, parseDocument

CLASSIC, MODERN, AUTO = RouteDialect.CLASSIC, RouteDialect.MODERN, RouteDialect.AUTO


def said(dialect: RouteDialect) -> ServerDocument:
    """The INFO of a natsbroker."""
    identity = LinkIdentity("ID", "n")
    document = infoDocument(identity, ClusterTerms("C", dialect=dialect))
    return parseDocument(infoLine(document)[5:])


@pytest.mark.parametrize(
    "one, other, expected",
    [
        (CLASSIC, CLASSIC, CLASSIC),
        (CLASSIC, AUTO, CLASSIC),
        (AUTO, AUTO, MODERN),
        (AUTO, MODERN, MODERN),
        (MODERN, MODERN, MODERN),
        (CLASSIC, MODERN, None),
    ],
)
def test_twoNatsbrokers(
    one: RouteDialect, other: RouteDialect, expected: RouteDialect | None
) -> None:
    """Two natsbrokers agree on the dialect."""
    assert chosen(one, said(other)) is expected
    assert chosen(other, said(one)) is expected
    assert understand(said(one), said(other)) is (expected is not None)


@pytest.mark.parametrize(
    "proto, expected",
    [
        (0, (CLASSIC, None, CLASSIC)),
        (1, (CLASSIC, None, CLASSIC)),
        (2, (None, MODERN, MODERN)),
        (3, (None, MODERN, MODERN)),
    ],
)
def test_dialectOfOtherServers(proto: int, expected: tuple[RouteDialect | None, ...]) -> None:
    """Real servers are recognized by their protocol number."""
    document = ServerDocument(proto=proto)
    assert tuple(chosen(dialect, document) for dialect in (CLASSIC, MODERN, AUTO)) == expected


def test_valueOfTheFlag() -> None:
    """The member C{classic} of INFO counts only if it is C{true}."""
    document = parseDocument(b'{"proto":2,"classic":1}')
    assert chosen(CLASSIC, document) is None
