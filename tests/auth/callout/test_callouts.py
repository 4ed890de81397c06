"""
Tests of L{natsbroker.auth.callout.callouts}.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from natsbroker.auth.callout.callouts import SUBJECT, guarded
from natsbroker.auth.callout.messages import CalloutUser
from natsbroker.config.settings.authorization import AuthCallout
from natsbroker.errors import PROXY_REQUIRED, Unauthorized
from natsbroker.subjects.permissions import PermissionSet, ResponsePermission
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.callout.callouts import NOW, CalloutWorld, outcomeOf
from tests.auth.callout.questions import Curve, Question
from tests.auth.operator.chain import Account, Operator

ISSUER = Account(Operator())
CURVE = Curve()
PLAIN = AuthCallout(ISSUER.key, "AUTH")
SEALED = AuthCallout(ISSUER.key, "AUTH", xkey=CURVE.key)
HELLO = ConnectRequest(options={"user": "bob", "pass": "secret"}, host="127.0.0.1", cid=5)


def letIn(question: Question) -> bytes:
    """An answer that accepts the user."""
    return question.response(ISSUER, {"jwt": question.user(ISSUER, aud="APP", iat=1)}, iat=1)


def ask(world: CalloutWorld, service: AuthCallout = PLAIN) -> list[Any]:
    """Ask the service about a client."""
    return outcomeOf(lambda: world.callouts.ask(service, HELLO, CalloutUser("bob")))


class TestAsking:
    """Requests and answers."""

    def test_request(self) -> None:
        """
        A request is signed by the server, names the issuer, and is valid for as long as the broker
        waits.
        """
        world = CalloutWorld("AUTH").serve()
        world.decide = letIn
        [answer] = ask(world)
        assert answer.user.token.audience == "APP"
        [question] = world.questions
        claims = question.claims
        assert (claims["iss"], claims["sub"]) == (world.signer.publicKey, ISSUER.key)
        assert claims["aud"] == "nats-authorization-request"
        assert (claims["iat"], claims["exp"]) == (NOW, NOW + 2)
        assert question.nats["server_id"] == world.describe()
        assert question.options["user"] == "bob"
        assert question.nats["client_info"]["id"] == 5
        assert (question.nats["type"], question.nats["version"]) == ("authorization_request", 2)
        assert question.headers == {}
        assert not world.clock.getDelayedCalls()

    def test_proxyRequired(self) -> None:
        """A user who must come through a trusted proxy is refused without one."""
        world = CalloutWorld("AUTH").serve()
        world.decide = lambda question: question.response(
            ISSUER, {"jwt": question.user(ISSUER, {"proxy_required": True}, aud="APP")}
        )
        [refused] = ask(world)
        assert isinstance(refused, Unauthorized) and refused.error is PROXY_REQUIRED
        proxied = replace(HELLO, proxy="UX")
        [answer] = outcomeOf(lambda: world.callouts.ask(PLAIN, proxied, CalloutUser("bob")))
        assert answer.user.terms.proxyRequired

    def test_userKeyOfRequest(self) -> None:
        """Each request has a user key of its own, so that no answer fits another request."""
        world = CalloutWorld("AUTH").serve()
        world.decide = letIn
        ask(world)
        ask(world)
        first, second = (question.nats["user_nkey"] for question in world.questions)
        assert first != second
        old = world.questions[0]
        world.decide = lambda question: letIn(old)
        assert isinstance(ask(world)[0], Unauthorized)

    @pytest.mark.parametrize("isAnswerSealed", [True, False])
    def test_sealed(self, isAnswerSealed: bool) -> None:
        """
        With a key, only the service can read the request, and the service may seal its answer.
        """
        world = CalloutWorld("AUTH", CURVE).serve()

        def decide(question: Question) -> bytes:
            answer = letIn(question)
            return CURVE.seal(answer, question.sender) if isAnswerSealed else answer

        world.decide = decide
        [answer] = ask(world, SEALED)
        assert answer.isSealed is isAnswerSealed
        [question] = world.questions
        assert question.sealed
        assert question.sender == world.keys.publicKey == question.nats["server_id"]["xkey"]

    def test_sealedByAnother(self) -> None:
        """An answer that was sealed with another key accepts no client."""
        world = CalloutWorld("AUTH", CURVE).serve()
        world.decide = lambda question: Curve().seal(letIn(question), question.sender)
        assert "decrypting" in str(ask(world, SEALED)[0])


class TestNoAnswer:
    """Services that do not answer."""

    def test_timeToLogIn(self) -> None:
        """A client is denied when the service has not answered in the time for a login."""
        world = CalloutWorld("AUTH").serve()
        outcome = ask(world)
        world.clock.advance(1.9)
        assert outcome == []
        world.clock.advance(0.2)
        assert isinstance(outcome[0], Unauthorized)
        assert "not received in time" in str(outcome[0])

    def test_serviceDoesNotRun(self) -> None:
        """A login fails at once if no service subscribes to the requests."""
        [denied] = ask(CalloutWorld("AUTH"))
        assert isinstance(denied, Unauthorized)

    def test_noAccount(self) -> None:
        """A callout into an account that does not exist fails."""
        [denied] = ask(CalloutWorld("OTHER").serve())
        assert 'No valid account "AUTH"' in str(denied)

    def test_badKey(self) -> None:
        """A callout whose key cannot seal questions fails."""
        [denied] = ask(CalloutWorld("AUTH").serve(), AuthCallout(ISSUER.key, "AUTH", xkey="x"))
        assert isinstance(denied, Unauthorized)


class TestGuarded:
    """Users of the service's account cannot send requests to the service."""

    def test_otherAccounts(self) -> None:
        """In other accounts the subject of the requests is not denied."""
        grant = Grant("APP")
        assert guarded(grant, PLAIN) is grant

    @pytest.mark.parametrize(
        ("publish", "responses", "other"),
        [
            (None, None, True),
            (PermissionSet([b">"]), None, True),
            (PermissionSet(None, [b"x"]), None, False),
            (PermissionSet([b"y"]), None, False),
            (None, ResponsePermission(1, 1.0), False),
        ],
    )
    def test_denied(
        self, publish: PermissionSet | None, responses: ResponsePermission | None, other: bool
    ) -> None:
        """
        In the service's account, the subject of the requests is denied in addition to other denied
        subjects.
        """
        made = guarded(Grant("AUTH", publish=publish, responses=responses), PLAIN).publish
        assert made is not None
        assert not made.allows(SUBJECT)
        assert made.allows(b"x") is other
