"""
What an authorizer is told, and what it answers.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from natsbroker.wire.grants import GLOBAL_ACCOUNT, Grant, Hello
from natsbroker.wire.values import Kind


class TestHello:
    """What is known of a connection."""

    def test_defaults(self) -> None:
        """A connection of which nothing is known is an ordinary client that said nothing."""
        hello = Hello()
        assert (hello.kind, hello.connectionType) == (Kind.CLIENT, "STANDARD")
        assert (dict(hello.options), hello.host, hello.nonce, hello.certificate) == (
            {},
            "",
            "",
            None,
        )

    def test_text(self) -> None:
        """An option is given as text, and anything but text as if it were absent."""
        hello = Hello(options={"user": "me", "protocol": 1})
        assert hello.text("user") == "me"
        assert hello.text("pass") == ""
        assert hello.text("protocol") == ""


class TestGrant:
    """What a connection may do."""

    def test_defaults(self) -> None:
        """A grant that says nothing allows everything in the default account, for ever."""
        grant = Grant()
        assert (grant.account, grant.user) == (GLOBAL_ACCOUNT, "") == ("$G", "")
        assert {grant.publish, grant.subscribe, grant.responses} == {None}
        assert {grant.maxPayload, grant.maxSubscriptions, grant.expires} == {None}

    def test_isData(self) -> None:
        """Equal grants are equal, and a grant cannot be changed."""
        assert Grant(user="a") == Grant(user="a") != Grant(user="b")
        with pytest.raises(FrozenInstanceError):
            Grant().user = "root"  # type: ignore[misc]
