"""
Accounts at other servers, as origins of messages.
"""

from __future__ import annotations

from zope.interface.verify import verifyObject

from natsbroker.interfaces import IOrigin
from natsbroker.links.origins import PeerOrigin
from natsbroker.wire.values import ClientInfo


class Moon(PeerOrigin):
    """An origin in an account at another server."""

    ORIGIN = "Moon"


def test_clientInfo() -> None:
    """
    The description of a remote origin has the server if details are shared, and otherwise only the
    account.
    """
    origin = Moon("A", "m-1")
    assert verifyObject(IOrigin, origin)
    assert (origin.grant.account, origin.isPeer) == ("A", True)
    assert origin.clientInfo(False) == ClientInfo(acc="A")
    assert origin.clientInfo(True) == ClientInfo(acc="A", server="m-1", kind="Moon")
