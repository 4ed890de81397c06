"""
Tests of L{natsbroker.auth.avatars}.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface.verify import verifyObject

from natsbroker.auth.avatars import SettingsAvatars
from natsbroker.auth.checkers import IAvatars
from natsbroker.errors import Unauthorized
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.server.support import settingsOf

TEXT = """
authorization {
    default_permissions { publish: "public.>" }
    users: [ {user: bob, permissions { publish: bobs }} ]
}
accounts {
    SHOP {
        users: [
            {user: anna, password: "does not count"}
            {user: web, allowed_connection_types: [WEBSOCKET]}
            {nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}
        ]
        limits { max_payload: 5 }
    }
}
"""
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


class Host:
    """A broker's settings."""

    def __init__(self, text: str = TEXT) -> None:
        self.settings = settingsOf(text)


def avatars(host: Any = None) -> SettingsAvatars:
    """Avatars of some settings."""
    found: Any = host or Host()
    return SettingsAvatars(found)


def test_provides() -> None:
    """They say what avatars may do."""
    assert verifyObject(IAvatars, avatars())


def test_userOfAnAccount() -> None:
    """An avatar that is a user of an account is in it, with its limits."""
    assert avatars().grantOf("anna", ConnectRequest()) == Grant("SHOP", "anna", maxPayload=5)


def test_userOfAuthorization() -> None:
    """One of the authorization block has its permissions."""
    expected = Grant(user="bob", publish=PermissionSet([b"bobs"]))
    assert avatars().grantOf("bob", ConnectRequest()) == expected


@pytest.mark.parametrize("name", ["carl", "", KEY])
def test_others(name: str) -> None:
    """Any other has the default permissions in the global account, also one whose name is the key
    of a user that must sign."""
    expected = Grant(user=name, publish=PermissionSet([b"public.>"]))
    assert avatars().grantOf(name, ConnectRequest()) == expected


def test_connectionType() -> None:
    """The kinds of connection of a user hold."""
    with pytest.raises(Unauthorized):
        avatars().grantOf("web", ConnectRequest())
    assert avatars().grantOf("web", ConnectRequest(connectionType="WEBSOCKET")).account == "SHOP"


def test_guests() -> None:
    """Who need not say anything is who the settings say."""
    assert not avatars().hasGuests()
    guests = avatars(Host(TEXT + "no_auth_user: bob\n"))
    assert guests.hasGuests()
    assert guests.grantOf("", ConnectRequest()).user == "bob"


def test_reload() -> None:
    """Other settings hold from then on."""
    host = Host()
    found = avatars(host)
    assert found.grantOf("bob", ConnectRequest()).publish == PermissionSet([b"bobs"])
    host.settings = settingsOf("accounts { A { users: [ {user: bob} ] } }")
    assert found.grantOf("bob", ConnectRequest()) == Grant("A", "bob")
    assert found.grantOf("anna", ConnectRequest()) == Grant(user="anna")
