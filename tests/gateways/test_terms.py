"""
What is said of a gateway.
"""

from __future__ import annotations

import pytest

from natsbroker.gateways.terms import (
    GatewayTarget,
    GatewayTerms,
    connectOptions,
    infoDocument,
    placeOf,
)
from natsbroker.routes.terms import LinkIdentity

IDENTITY = LinkIdentity("ID", "name")


@pytest.mark.parametrize(
    "text, place",
    [
        ("h:1", "h:1"),
        ("nats-gw://h:1", "h:1"),
        ("nats://u:p@h:1/", "h:1"),
        ("[::1]:1", "[::1]:1"),
    ],
)
def test_place(text: str, place: str) -> None:
    """A place may have a scheme, as in older servers' words."""
    target = placeOf("B", text)
    assert target.place == str(target) == place and target.gateway == "B" and not target.user


@pytest.mark.parametrize("text", ["", "h", "h:0", "h:x", "h:70000", ":1", "[::1"])
def test_noPlace(text: str) -> None:
    """What is none is refused."""
    with pytest.raises(ValueError):
        placeOf("B", text)


def test_info() -> None:
    """What is demanded of those who dial is announced."""
    terms = GatewayTerms("A", "u", "p", tls=object(), tellsAll=True)  # type: ignore[arg-type]
    said = infoDocument(IDENTITY, terms, "h:1", ["h:1", "i:1"])
    assert said["auth_required"] and said["tls_required"] and said["tls_verify"]
    assert said["gateway_iom"] and said["gateway_urls"] == ["h:1", "i:1"]


def test_connect() -> None:
    """A target's user wins over ours, and no password is shown."""
    terms = GatewayTerms("A", "u", "canary")
    target = GatewayTarget("B", "h", 1, "x", "canary")
    assert "canary" not in repr((terms, target))
    said = connectOptions(IDENTITY, terms, target, True)
    assert (said["user"], said["pass"], said["tls_required"]) == ("x", "canary", True)
