"""
The request and the answer of an authorizer.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
    Verdict,
)
from natsbroker.wire.grants import GLOBAL_ACCOUNT, ConnectRequest, Grant, Verb
from natsbroker.wire.values import Kind


class TestHello:
    """The description of a connection."""

    def test_defaults(self) -> None:
        """By default, a connection is an ordinary client that sent no options."""
        hello = ConnectRequest()
        assert (hello.kind, hello.connectionType) == (Kind.CLIENT, "STANDARD")
        assert (dict(hello.options), hello.host, hello.nonce, hello.certificate) == (
            {},
            "",
            "",
            None,
        )

    def test_text(self) -> None:
        """An option that is not text counts as absent."""
        hello = ConnectRequest(options={"user": "me", "protocol": 1})
        assert hello.text("user") == "me"
        assert hello.text("pass") == ""
        assert hello.text("protocol") == ""


class TestGrant:
    """The grant of a connection."""

    @pytest.mark.parametrize(
        "name", [field.name for field in fields(Grant) if field.name != "memo"]
    )
    def test_types(self, name: str) -> None:
        """Each field refuses a value of another type."""
        given: dict[str, Any] = {name: object()}
        with pytest.raises(TypeError, match=f"{name} of a grant is"):
            Grant(**given)

    def test_defaults(self) -> None:
        """By default, a grant allows everything in the default account, for ever."""
        grant = Grant()
        assert (grant.account, grant.user) == (GLOBAL_ACCOUNT, "") == ("$G", "")
        assert {grant.publish, grant.subscribe, grant.responses} == {None}
        assert {grant.maxPayload, grant.maxSubscriptions, grant.expires} == {None}

    def test_isData(self) -> None:
        """Equal grants are equal, and a grant cannot be changed."""
        assert Grant(user="a") == Grant(user="a") != Grant(user="b")
        with pytest.raises(FrozenInstanceError):
            Grant().user = "root"  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("account", None),
            ("account", b"$G"),
            ("user", 7),
            ("user", None),
            ("publish", ["a"]),
            ("publish", True),
            ("publish", SubscribePermissions([b"a"])),
            ("subscribe", (b"a",)),
            ("subscribe", PermissionSet([b"a"])),
            ("responses", True),
            ("maxPayload", "5"),
            ("maxPayload", True),
            ("maxSubscriptions", 1.5),
            ("expires", "tomorrow"),
        ],
    )
    def test_invalidValues(self, name: str, value: Any) -> None:
        """A value of a wrong type is refused, so that no grant allows more than was meant."""
        with pytest.raises(
            TypeError, match=f"^{name} of a grant is .*, not {type(value).__name__}$"
        ):
            Grant(**{name: value})
        with pytest.raises(TypeError):
            replace(Grant(), **{name: value})


class TestMay:
    """The permissions of a grant."""

    def test_withoutPermissions(self) -> None:
        """A grant without permissions allows everything."""
        assert {Grant().may(verb, b"a", b"q") for verb in Verb} == {Verdict.ALLOWED}

    def test_publish(self) -> None:
        """Publishing only depends on the permissions to publish."""
        grant = Grant(publish=PermissionSet([b"a.*"], [b"a.b"]), subscribe=SubscribePermissions([]))
        for subject, verdict in ((b"a.c", Verdict.ALLOWED), (b"a.b", Verdict.DENIED)):
            assert grant.may(Verb.PUBLISH, subject) is verdict

    def test_answersOnly(self) -> None:
        """
        An owner that may answer requests and has no other permission may publish nowhere else.
        """
        grant = Grant(responses=ResponsePermission())
        assert grant.may(Verb.PUBLISH, b"a") is Verdict.DENIED
        assert grant.may(Verb.SUBSCRIBE, b"a") is Verdict.ALLOWED
        assert grant.publishing is not None and not grant.publishing.allowsEverything
        both = Grant(responses=ResponsePermission(), publish=PermissionSet([b"a"]))
        assert both.may(Verb.PUBLISH, b"a") is Verdict.ALLOWED

    def test_subscribe(self) -> None:
        """Subscribing and delivery only depend on the permissions to subscribe, queues included."""
        grant = Grant(
            publish=PermissionSet([]), subscribe=SubscribePermissions(None, [b"a.b", b"c q"])
        )
        assert grant.may(Verb.SUBSCRIBE, b"a.*") is Verdict.FILTERED
        assert grant.may(Verb.SUBSCRIBE, b"a.b") is Verdict.DENIED
        assert grant.may(Verb.SUBSCRIBE, b"c", b"q") is Verdict.DENIED
        assert grant.may(Verb.HEAR, b"a.b") is Verdict.DENIED
        assert grant.may(Verb.HEAR, b"a.c") is Verdict.ALLOWED
        assert grant.may(Verb.HEAR, b"c", b"r") is Verdict.ALLOWED
