"""
Tests of L{natsbroker.auth.callout.delegate}.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from natsbroker import errors
from natsbroker.auth.callout.callouts import SUBJECT
from natsbroker.auth.callout.delegate import CalloutDelegate
from natsbroker.auth.operator.directory import AccountDirectory
from natsbroker.auth.operator.granting import ServerLimits
from natsbroker.auth.operator.resolvers import MemoryResolver
from natsbroker.auth.operator.userclaims import UserClaims
from natsbroker.errors import Unauthorized
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.callout.callouts import CalloutWorld, outcomeOf
from tests.auth.callout.questions import Curve, Question
from tests.auth.operator.chain import Account, KeyPair
from tests.auth.operator.directories import OPERATOR, TRUST

AUTH, APP, OTHER = Account(OPERATOR), Account(OPERATOR), Account(OPERATOR)
SERVICE, USER = KeyPair("U"), KeyPair("U")
SCOPED = KeyPair("A")
CURVE = Curve()
SCOPE = {"kind": "user_scope", "key": SCOPED.key, "template": {"pub": {"allow": ["scoped"]}}}


class World(CalloutWorld):
    """An account with a callout service, and an account for its users."""

    def __init__(self, allowed: tuple[str, ...] = (APP.key,), xkey: str = "") -> None:
        super().__init__(AUTH.key, CURVE)
        self.serve()
        external: dict[str, Any] = {"auth_users": [SERVICE.key], "allowed_accounts": list(allowed)}
        if xkey:
            external["xkey"] = xkey
        tokens = {
            AUTH.key: AUTH.jwt({"authorization": external}),
            APP.key: APP.jwt({"signing_keys": [APP.signing.key, SCOPE]}, limits={"payload": 9}),
            OTHER.key: OTHER.jwt(),
        }
        self.resolver = MemoryResolver(tokens)
        self.directory = AccountDirectory(TRUST, self.resolver, self.clock)
        self.delegate = CalloutDelegate(self.directory, self.callouts, ServerLimits(100, 7))
        self.hello = ConnectRequest(options={"user": "bob", "pass": "p"}, host="127.0.0.1")
        (self.account,) = outcomeOf(lambda: self.directory.find(AUTH.key))

    def ask(self) -> Any:
        """The grant of a user with a bearer token of the service's account."""
        user = UserClaims.decode(AUTH.user(USER, {"tags": ["t"]}, name="sentinel"))
        (outcome,) = outcomeOf(lambda: self.delegate.ask(self.account, self.hello, user))
        return outcome

    def again(self, grant: Grant) -> Any:
        """The grant of a connection that is checked again."""
        hello = replace(self.hello, granted=grant)
        (outcome,) = outcomeOf(lambda: self.delegate.reconsidered(hello))
        return outcome


def letIn(
    question: Question, signer: KeyPair = APP, answerer: KeyPair = AUTH, **more: Any
) -> bytes:
    """An answer that accepts the user."""
    nats = more.pop("nats", None)
    said = {"jwt": question.user(signer, nats, **{"iat": 1, **more})}
    return question.response(answerer, said, iat=1)


def answered(question: Question, answerer: KeyPair, account: str) -> bytes:
    """An answer that accepts the user, and names an account as its signer."""
    said = {"jwt": question.user(APP, None, iat=1), "issuer_account": account}
    return question.response(answerer, said, iat=1)


@pytest.mark.parametrize("answerer", [AUTH, AUTH.signing], ids=["account", "signing"])
def test_answerer(answerer: KeyPair) -> None:
    """
    The account of the service, or one of its signing keys, signs the answer, which may name the
    account.
    """
    world = World()
    world.decide = lambda question: answered(question, answerer, AUTH.key)
    assert world.ask().account == APP.key


def test_question() -> None:
    """The request goes to the service's account, with the user JWT and its claims."""
    world = World()
    world.decide = letIn
    world.ask()
    [question] = world.questions
    assert question.claims["sub"] == AUTH.key
    info = question.nats["client_info"]
    assert (info["user"], info["tags"], info["name_tag"]) == ("bob", ["t"], "sentinel")
    assert question.options["jwt"].startswith("eyJ")


def test_placed() -> None:
    """
    A user is placed into an allowed account, with the limits of that account and the name of the
    JWT.
    """
    world = World()
    world.decide = lambda question: letIn(question, name="robert", nats={"subs": 1, "payload": 1})
    grant = world.ask()
    assert (grant.account, grant.user) == (APP.key, "robert")
    assert (grant.maxPayload, grant.maxSubscriptions) == (9, 7)


def test_placedIntoOwnAccount() -> None:
    """
    A user who is placed into the service's own account may not publish requests to the service.
    """
    world = World()
    world.decide = lambda question: letIn(question, AUTH)
    grant = world.ask()
    assert (grant.account, grant.user) == (AUTH.key, "bob")
    assert not grant.publish.allows(SUBJECT)
    service = world.delegate.guarded(Grant(AUTH.key), world.account)
    assert service.publish is not None and not service.publish.allows(SUBJECT)


@pytest.mark.parametrize("signer", [APP.signing, SCOPED], ids=["plain", "scoped"])
def test_signingKey(signer: KeyPair) -> None:
    """
    A signing key may sign the user's JWT. The template of a scoped key gives the user's
    permissions.
    """
    world = World()

    def decide(question: Question) -> bytes:
        key = question.nats["user_nkey"]
        user = APP.scopedUser(KeyPair("U"), signer, iat=1, sub=key)
        return question.response(AUTH, {"jwt": user}, iat=1)

    world.decide = decide
    grant = world.ask()
    assert grant.account == APP.key
    assert (grant.publish is not None) is (signer is SCOPED)


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (lambda question: letIn(question, OTHER), "not permitted as valid account option"),
        (lambda question: letIn(question, Account(OPERATOR)), "not permitted"),
        (lambda question: letIn(question, APP, Account(OPERATOR)), "signing key is unknown"),
        (lambda question: answered(question, OTHER, AUTH.key), "signing key is unknown"),
        (lambda question: answered(question, AUTH, OTHER.key), "signing key is unknown"),
        (
            lambda question: letIn(question, OTHER, nats={"issuer_account": APP.key}),
            "the issuer of the user's JWT is not known to its account",
        ),
        (lambda question: question.response(AUTH, {"error": "no"}, iat=1), "an error: no"),
    ],
)
def test_forbiddenPlacementsAreDenied(decide: Any, words: str) -> None:
    """A placement that the account's JWT forbids denies the login."""
    world = World()
    world.decide = decide
    assert words in str(world.ask())


def test_everyAccount() -> None:
    """All accounts may be allowed. A placement into an account that does not exist is denied."""
    world = World(("*",))
    world.decide = lambda question: letIn(question, OTHER)
    assert world.ask().account == OTHER.key
    world.decide = lambda question: letIn(question, Account(OPERATOR))
    assert isinstance(world.ask(), Unauthorized)


def test_sealed() -> None:
    """The signer of an answer does not matter if the answer is sealed for this broker."""
    world = World(xkey=CURVE.key)

    def decide(question: Question) -> bytes:
        return CURVE.seal(letIn(question, APP, Account(OPERATOR)), question.sender)

    world.decide = decide
    assert world.ask().account == APP.key


class TestAgain:
    """Connections that are checked again."""

    def test_notByService(self) -> None:
        """A user that the service has not accepted is left to others."""
        assert World().again(Grant(AUTH.key)) is None

    def test_unchangedJWT(self) -> None:
        """
        While the JWT is unchanged the service is not asked again. Its last answer still applies.
        """
        world = World()
        world.decide = letIn
        before = world.ask()
        assert world.again(before) == before
        assert len(world.questions) == 1

    def test_changed(self) -> None:
        """A changed JWT of the account takes effect when a connection is checked again."""
        world = World()
        world.decide = letIn
        before = world.ask()
        world.directory.update(APP.key, APP.jwt(limits={"payload": 5}))
        assert world.again(before).maxPayload == 5

    def test_revoked(self) -> None:
        """A user that the service accepted can be revoked."""
        world = World()
        world.decide = letIn
        before = world.ask()
        world.directory.update(APP.key, APP.jwt({"revocations": {"*": 1}}))
        assert world.again(before).error is errors.AUTH_REVOKED

    def test_signerGone(self) -> None:
        """A user is denied after the signing key of its JWT was removed."""
        world = World()
        world.decide = lambda question: letIn(
            question, APP.signing, nats={"issuer_account": APP.key}
        )
        before = world.ask()
        assert before.account == APP.key
        world.directory.update(APP.key, APP.jwt({"signing_keys": []}))
        assert isinstance(world.again(before), Unauthorized)

    def test_accountGone(self) -> None:
        """A login in an account that no longer exists is denied."""
        world = World()
        world.decide = letIn
        before = world.ask()
        world.resolver.replace({})
        world.directory.delete(APP.key)
        assert world.again(before).error is errors.ACCOUNT_EXPIRED
