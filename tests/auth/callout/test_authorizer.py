"""
Tests of L{natsbroker.auth.callout.authorizer}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.auth.authenticator import Revocations
from natsbroker.auth.callout.authorizer import CalloutAuthorizer
from natsbroker.auth.callout.callouts import SUBJECT
from natsbroker.config.settings.authorization import AuthCallout
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.callout.callouts import NOW, CalloutWorld, outcomeOf
from tests.auth.callout.questions import Curve, Question
from tests.auth.operator.chain import Account, KeyPair, Operator

ISSUER = Account(Operator())
CURVE = Curve()


@implementer(IAuthorizer)
class Settings(Revocations):
    """
    The users of a configuration.
    """

    required = False
    deadline = True
    nonce = True

    def __init__(self, later: bool) -> None:
        super().__init__()
        self._later = later

    def grantFor(self, hello: ConnectRequest) -> Any:
        known = {"auth": "AUTH", "app": "APP", "global": "$G", "other": "OTHER"}
        name = hello.text("user")
        if name == "broken":
            return fail(ZeroDivisionError())
        if name not in known or hello.text("pass") != "right":
            if self._later:
                return fail(Unauthorized("unknown"))
            raise Unauthorized("unknown")
        grant = Grant(known[name], name)
        return succeed(grant) if self._later else grant


class World(CalloutWorld):
    """
    An authorizer with its service.
    """

    def __init__(
        self, accounts: frozenset[str] = frozenset(), later: bool = False, xkey: str = ""
    ) -> None:
        super().__init__("AUTH", CURVE)
        self.serve()
        members = {name: Grant(name, maxPayload=100) for name in ("APP", "AUTH", "$G")}
        self.authorizer = CalloutAuthorizer(
            Settings(later),
            self.callouts,
            AuthCallout(ISSUER.key, "AUTH", ("auth",), xkey, tuple(accounts)),
            members.get,
        )

    def ask(self, user: str = "bob", password: str = "right") -> Any:
        """The grant of a client, or the error instead."""
        hello = ConnectRequest(options={"user": user, "pass": password})
        (outcome,) = outcomeOf(lambda: self.authorizer.grantFor(hello))
        return outcome


def letIn(question: Question, issuer: KeyPair = ISSUER, **claims: Any) -> bytes:
    """An answer that accepts the user."""
    nats = claims.pop("nats", None)
    given = {"aud": "APP", "iat": 1, **claims}
    return question.response(ISSUER, {"jwt": question.user(issuer, nats, **given)}, iat=1)


def test_interface() -> None:
    """Every client must log in."""
    authorizer = World().authorizer
    assert verifyObject(IAuthorizer, authorizer)
    assert (authorizer.required, authorizer.nonce) == (True, True)


@pytest.mark.parametrize("later", [False, True])
class TestWhoDecides:
    """The configuration or the service decides about a login."""

    def test_unknown(self, later: bool) -> None:
        """The service decides about users that are not in the configuration."""
        world = World(later=later)
        world.decide = letIn
        assert world.ask() == Grant("APP", "bob", maxPayload=100)
        assert len(world.questions) == 1

    def test_knownUser(self, later: bool) -> None:
        """The service decides about users in the configuration too."""
        world = World(later=later)
        world.decide = lambda question: question.response(ISSUER, {"error": "no"}, iat=1)
        denial = world.ask("app")
        assert "returned an error: no" in str(denial)
        assert denial.asked == "AUTH"
        assert "returned an error: no" in str(world.ask("global"))
        assert [question.options["user"] for question in world.questions] == ["app", "global"]

    def test_ownUsers(self, later: bool) -> None:
        """
        The service is not asked about its own users, and they cannot send requests to the service.
        """
        world = World(later=later)
        grant = world.ask("auth")
        assert (grant.account, grant.publish.allows(SUBJECT)) == ("AUTH", False)
        denial = world.ask("auth", "wrong")
        assert isinstance(denial, Unauthorized)
        assert denial.asked == ""
        assert world.questions == []

    def test_allowedAccounts(self, later: bool) -> None:
        """
        The service does not decide about users of accounts that are not listed. The global account
        needs no entry.
        """
        world = World(frozenset({"APP"}), later)
        assert world.ask("other") == Grant("OTHER", "other")
        assert world.questions == []
        world.decide = letIn
        for user in ("app", "global", "bob"):
            assert world.ask(user).account == "APP"
        assert len(world.questions) == 3

    def test_broken(self, later: bool) -> None:
        """A login that fails with an exception does not count as an unknown user."""
        world = World(later=later)
        assert isinstance(world.ask("broken"), ZeroDivisionError)
        assert world.questions == []


class TestGrants:
    """The effect of the service's answer."""

    def granted(self, **claims: Any) -> Any:
        """The grant of a user JWT."""
        world = World()
        world.decide = lambda question: letIn(question, **claims)
        return world.ask()

    def test_namedByService(self) -> None:
        """The service may rename the user."""
        assert self.granted(name="robert").user == "robert"

    def test_permissions(self) -> None:
        """A user has the permissions of the JWT and the limits of the account."""
        grant = self.granted(nats={"pub": {"allow": ["a"]}, "payload": 1, "subs": 0})
        assert not grant.publish.allows(b"b")
        assert (grant.maxPayload, grant.maxSubscriptions) == (100, None)

    def test_expires(self) -> None:
        """A grant expires with the JWT."""
        assert self.granted(exp=int(NOW) + 5).expires == NOW + 5

    def test_guarded(self) -> None:
        """A user who is placed into the service's account cannot send requests to the service."""
        assert not self.granted(aud="AUTH").publish.allows(SUBJECT)

    @pytest.mark.parametrize(
        ("claims", "words"),
        [
            ({"aud": "NOPE"}, 'No valid account "NOPE"'),
            ({"aud": ""}, 'No valid account ""'),
            ({"issuer": Account(Operator())}, "Wrong issuer"),
            ({"nats": {"issuer_account": ISSUER.key}}, "attempted to use issuer_account"),
            ({"nats": {"allowed_connection_types": ["x"]}}, "invalid connection type"),
        ],
    )
    def test_invalidResponsesDeny(self, claims: dict[str, Any], words: str) -> None:
        """An invalid response denies the login."""
        assert words in str(self.granted(**claims))

    @pytest.mark.parametrize("claims", [{}, {"issuer_account": ISSUER.key}])
    def test_otherSigner(self, claims: dict[str, Any]) -> None:
        """
        An answer signed by another account accepts no client, whatever account it names, unless it
        was sealed for this broker.
        """
        other = Account(Operator())
        world = World(xkey=CURVE.key)

        def decide(question: Question) -> bytes:
            user = question.user(ISSUER, aud="APP", iat=1)
            return question.response(other, {"jwt": user, **claims}, iat=1)

        world.decide = decide
        assert "signing key is unknown" in str(world.ask())
        world.decide = lambda question: CURVE.seal(decide(question), question.sender)
        assert world.ask().account == "APP"

    def test_lateAnswer(self) -> None:
        """The service may answer later."""
        world = World()
        asking: Any = world.authorizer.grantFor(ConnectRequest(options={"user": "bob"}))
        assert isinstance(asking, Deferred) and not asking.called
        asking.cancel()
        assert isinstance(outcomeOf(lambda: asking)[0], BaseException)
