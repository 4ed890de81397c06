"""
The clients that ask, as advisories show them.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.jetstream.requesters import PassedRequester, clientOf
from natsbroker.leafnodes.traffic import LeafAccount
from natsbroker.links.origins import PeerOrigin
from natsbroker.wire.clientinfo import stamped
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.export.support import Connection


class Peer(PeerOrigin):
    """Another member of the cluster, by its account A."""

    ORIGIN = "Router"

    def __init__(self) -> None:
        super().__init__("A", "N2")


_ROUTER = {"acc": "A", "server": "N2", "kind": "Router"}


def _asked(origin: Any, stamp: ClientInfo | None = None, reply: bytes = b"_INBOX.x") -> Message:
    body, length = (b"", 0) if stamp is None else stamped(b"", 0, stamp)
    return Message(b"$JS.API.INFO", body, reply, length, origin)


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        (ClientInfo(acc="B", rtt=5), {"acc": "B", "svc": "A", "rtt": 5, "server": "N2"}),
        (
            ClientInfo(acc="B", user="b", server="N3", cluster="c"),
            {"acc": "B", "svc": "A", "user": "b", "server": "N3", "cluster": "c"},
        ),
    ],
    ids=["unshared", "shared"],
)
def test_importAtMember(stamp: ClientInfo, shown: dict[str, Any]) -> None:
    """A client that asks through an import at another member is shown as that import does."""
    assert clientOf(_asked(Peer(), stamp, b"_R_.abcdef.123456"), "A") == shown


def test_forgedAtMember() -> None:
    """A client of the account itself at another member cannot give itself a name."""
    assert clientOf(_asked(Peer(), ClientInfo(acc="C", user="c")), "A") == _ROUTER


def test_forgedByLeafnode() -> None:
    """A leafnode cannot give its users a name."""
    outbox: Any = None
    user = ClientInfo(acc="A", user="leaf")
    leaf = LeafAccount(outbox, Kind.SPOKE, b"", Grant("A"), lambda: user)
    message = _asked(leaf, ClientInfo(acc="C", user="c"), b"_R_.abcdef.123456")
    assert clientOf(message, "A") == {"acc": "A", "user": "leaf"}


def test_nobody() -> None:
    """A sender without a connection is not described."""
    assert clientOf(_asked(None), "A") == {}
    assert clientOf(_asked(Connection()), "A") == {}


def test_passedOn() -> None:
    """A request that another broker passes on shows the client of that broker."""
    requester = PassedRequester("A", {"acc": "B", "svc": "A"})
    assert clientOf(_asked(requester, ClientInfo(acc="C")), "A") == {"acc": "B", "svc": "A"}
    assert requester.clientInfo(True) == ClientInfo(acc="A")


def test_samePlace() -> None:
    """The requests that other brokers pass on keep their order in an account."""
    assert PassedRequester("A", {"rtt": 1}) == PassedRequester("A", {"rtt": 2})
    assert PassedRequester("A", {}) != PassedRequester("B", {})
