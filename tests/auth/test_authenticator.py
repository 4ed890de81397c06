"""
The class to subclass for authorization of one's own.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.auth.authenticator import Authenticator
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import Grant, Hello

HELLO = Hello(options={"user": "alice", "pass": "secret"})


def outcome(authenticator: Authenticator, hello: Hello = HELLO) -> list[Any]:
    """Where the answer will be: a grant, or the exception."""
    found: list[Any] = []
    answer = authenticator.grantFor(hello)
    if isinstance(answer, Deferred):
        answer.addCallbacks(found.append, lambda failure: found.append(failure.value))
    else:
        found.append(answer)
    return found


class Named(Authenticator):
    """Overrides the first step only."""

    def authenticate(self, hello: Hello) -> Any:
        """Anybody with a name."""
        if not hello.text("user"):
            raise errors.Unauthorized("no name")
        return hello.text("user")


class Granting(Authenticator):
    """Overrides the second step only."""

    def grant(self, avatar: Any, hello: Hello) -> Any:
        """By address."""
        return Grant("A" if hello.host == "::1" else "B")


class TestDefaults:
    """What holds unless it is overridden."""

    def test_provides(self) -> None:
        """It is an authorizer."""
        verifyObject(IAuthorizer, Authenticator())

    def test_deniesEverybody(self) -> None:
        """One that overrides nothing lets nobody in."""
        with pytest.raises(errors.Unauthorized):
            Authenticator().grantFor(HELLO)

    def test_required(self) -> None:
        """A login is required, and there is no nonce."""
        assert Authenticator.required and not Authenticator.nonce

    @pytest.mark.parametrize("avatar", ["", None, 7, object()])
    def test_nobody(self, avatar: object) -> None:
        """What is neither a name nor a grant is nobody."""

        class Strange(Authenticator):
            def authenticate(self, hello: Hello) -> Any:
                return avatar

        with pytest.raises(errors.Unauthorized):
            Strange().grantFor(HELLO)


class TestOverriding:
    """Subclasses."""

    def test_authenticate(self) -> None:
        """A name may do everything in the global account."""
        assert outcome(Named()) == [Grant(user="alice")]

    def test_authenticateDenies(self) -> None:
        """Unauthorized reaches who asked."""
        with pytest.raises(errors.Unauthorized):
            Named().grantFor(Hello())

    def test_authenticateGrants(self) -> None:
        """The first step may answer with the grant itself."""
        given = Grant("A", "alice")

        class Direct(Authenticator):
            def authenticate(self, hello: Hello) -> Any:
                return given

        assert outcome(Direct()) == [given]

    def test_grant(self) -> None:
        """The second step alone is enough."""
        assert outcome(Granting(), Hello(host="::1")) == [Grant("A")]
        assert outcome(Granting(), Hello(host="::2")) == [Grant("B")]

    def test_coroutines(self) -> None:
        """Both steps may be coroutines, and wait."""
        gate: Deferred[None] = Deferred()

        class Slow(Authenticator):
            async def authenticate(self, hello: Hello) -> str:
                await gate
                return "bob"

            async def grant(self, avatar: str, hello: Hello) -> Grant:
                return Grant("A", avatar)

        found = outcome(Slow())
        assert found == []
        gate.callback(None)
        assert found == [Grant("A", "bob")]

    def test_deferreds(self) -> None:
        """Both may answer with a Deferred."""

        class Later(Authenticator):
            def authenticate(self, hello: Hello) -> Any:
                return succeed("bob")

            def grant(self, avatar: Any, hello: Hello) -> Any:
                return succeed(Grant("A", avatar))

        assert outcome(Later()) == [Grant("A", "bob")]

    def test_coroutineDenies(self) -> None:
        """A coroutine that raises denies."""

        class Denying(Authenticator):
            async def authenticate(self, hello: Hello) -> str:
                raise errors.Unauthorized("no")

        [failure] = outcome(Denying())
        assert isinstance(failure, errors.Unauthorized)

    def test_secondStepIsSkipped(self) -> None:
        """Who is denied in the first step is not granted anything in the second."""
        asked: list[Any] = []

        class Denying(Authenticator):
            async def authenticate(self, hello: Hello) -> str:
                raise errors.Unauthorized("no")

            def grant(self, avatar: Any, hello: Hello) -> Any:
                asked.append(avatar)
                return Grant()

        outcome(Denying())
        assert asked == []

    def test_revoke(self) -> None:
        """It announces revocations."""
        told: list[int] = []
        authenticator = Named()
        authenticator.watchRevocations(lambda: told.append(1))
        authenticator.revoke()
        assert told == [1]
