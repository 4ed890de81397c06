"""
Tests of L{natsbroker.auth.operator.directory}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from natsbroker import errors
from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.directory import placeholder
from natsbroker.auth.operator.operators import OperatorClaims, TrustedKeys
from natsbroker.errors import Unauthorized
from tests.auth.operator.chain import Account, KeyPair, Operator
from tests.auth.operator.directories import (
    ACCOUNT,
    OPERATOR,
    World,
    issued,
)
from tests.conftest import FlushLoggedErrors


class TestFinding:
    """Finding accounts."""

    def test_found(self) -> None:
        """An account is fetched once, and its watchers are notified before its first use."""
        world = World(issued())
        account = world.find()
        assert account.token.subject == ACCOUNT.key
        assert world.observer.told == [("changed", ACCOUNT.key)]
        assert world.find() is account
        assert world.resolver.asked == [ACCOUNT.key]
        assert world.directory.known(ACCOUNT.key) is account
        assert [entry.token.subject for entry in world.directory] == [ACCOUNT.key]
        assert ACCOUNT.key in world.directory

    def test_surroundedByBlanks(self) -> None:
        """Blanks around the JWT, as files have them, do not matter."""
        assert World(f" {issued()}\r\n").find().token.subject == ACCOUNT.key

    @pytest.mark.parametrize(
        "name", ["", "..", "/etc/passwd", "../../x", "A" * 55 + "B", KeyPair("U").key]
    )
    def test_onlyKeysAreAskedFor(self, name: str) -> None:
        """The resolver is only asked for names that are keys of accounts."""
        world = World()
        assert isinstance(world.find(name), Unauthorized)
        assert world.resolver.asked == []

    @pytest.mark.parametrize(
        "text",
        [
            KeyError("none"),
            LookupError("none"),
            "",
            "x",
            b"bytes",
            None,
            Account(OPERATOR).jwt(),
            issued(signer=ACCOUNT),
            issued(signer=Operator()),
            issued(signer=Operator().signing),
            issued(exp=999),
            issued(exp=1000),
            issued(nbf=1001),
            issued(nats={"exports": [{}]}),
            ACCOUNT.user(KeyPair("U")),
            OPERATOR.jwt(),
        ],
    )
    def test_invalidJWTIsNoAccount(self, text: Any) -> None:
        """
        A JWT that is missing, malformed, untrusted, about another account, or not valid at this
        time defines no account.
        """
        world = World(text)
        assert isinstance(world.find(), Unauthorized)
        assert world.observer.told == []
        assert world.directory.known(ACCOUNT.key) is None

    def test_brokenResolver(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A resolver that fails finds no account, and the failure is logged."""
        assert isinstance(World(ZeroDivisionError("oops")).find(), Unauthorized)
        assert flushLoggedErrors() == []

    def test_signingKey(self) -> None:
        """A signing key of the operator may sign accounts."""
        assert World(issued(signer=OPERATOR.signing)).find().token.subject == ACCOUNT.key

    def test_ownKeyOfTheAccount(self) -> None:
        """An account may sign its users with its own key, beside its signing keys."""
        assert set(World(issued()).find().signers) == {ACCOUNT.key, ACCOUNT.signing.key}

    def test_strictOperator(self) -> None:
        """
        With a strict operator, JWTs signed by its own key and by an account's own key are refused.
        """
        operator = OperatorClaims.decode(OPERATOR.jwt({"strict_signing_key_usage": True}))
        trust = TrustedKeys.of([operator])
        assert isinstance(World(issued(), trust=trust).find(), Unauthorized)
        account = World(issued(signer=OPERATOR.signing), trust=trust).find()
        assert set(account.signers) == {ACCOUNT.signing.key}

    def test_togetherOnce(self) -> None:
        """Several searches at the same time share one request and its answer."""
        answer: Deferred[str] = Deferred()
        world = World(answer)
        results: list[Any] = []
        for _ in range(3):
            asking = world.directory.find(ACCOUNT.key)
            assert isinstance(asking, Deferred)
            asking.addCallback(results.append)
        answer.callback(issued())
        assert len(results) == 3 and results[0] is results[1] is results[2]
        assert world.resolver.asked == [ACCOUNT.key]

    def test_oneGivesUp(self) -> None:
        """A search that is cancelled does not cancel the other searches."""
        answer: Deferred[str] = Deferred()
        world = World(answer)
        first, second = world.directory.find(ACCOUNT.key), world.directory.find(ACCOUNT.key)
        assert isinstance(first, Deferred) and isinstance(second, Deferred)
        gone: list[Any] = []
        results: list[Any] = []
        first.addErrback(gone.append)
        second.addCallback(results.append)
        first.cancel()
        answer.callback(issued())
        assert gone[0].check(CancelledError)
        assert results[0].token.subject == ACCOUNT.key

    def test_nobodyWaits(self) -> None:
        """
        When all searches are cancelled, the directory cancels the request. The next search makes a
        new one.
        """
        given: list[Deferred[str]] = []
        answer: Deferred[str] = Deferred(given.append)
        world = World(answer)
        finding: Any = world.directory.find(ACCOUNT.key)
        finding.addErrback(lambda why: why.trap(CancelledError))
        finding.cancel()
        assert given == [answer]
        world.resolver.tokens[ACCOUNT.key] = issued()
        assert world.find().token.subject == ACCOUNT.key

    def test_missingIsAskedForAgain(self) -> None:
        """An account that was missing is fetched again at the next search."""
        world = World()
        assert isinstance(world.find(), Unauthorized)
        world.resolver.tokens[ACCOUNT.key] = issued()
        assert world.find().token.subject == ACCOUNT.key


class TestExpiry:
    """Accounts that expire."""

    def test_expiry(self) -> None:
        """When the JWT of an account expires, watchers are notified, and the account is removed."""
        world = World(issued(exp=1010))
        world.find()
        world.clock.advance(9.9)
        assert world.observer.told == [("changed", ACCOUNT.key)]
        world.clock.advance(0.1)
        assert world.observer.told[1:] == [("ended", ACCOUNT.key)]
        error = world.find()
        assert isinstance(error, Unauthorized) and error.error is errors.ACCOUNT_EXPIRED

    def test_isLookedForAgain(self) -> None:
        """The JWT of an expired account is fetched again, but not for every login."""
        world = World(issued(exp=1010))
        world.find()
        world.clock.advance(10)
        for _ in range(5):
            assert world.find().error is errors.ACCOUNT_EXPIRED
        assert len(world.resolver.asked) == 2
        world.resolver.tokens[ACCOUNT.key] = issued(2)
        world.clock.advance(1.0)
        assert world.find().token.issuedAt == 2
        assert world.observer.told[-1] == ("changed", ACCOUNT.key)

    def test_farAway(self) -> None:
        """A JWT that expires very late sets no timer that the reactor cannot hold."""
        world = World(issued(exp=2**63 - 1))
        world.find()
        assert [call.getTime() - 1000.0 for call in world.clock.getDelayedCalls()] == [86_400.0]
        world.clock.advance(86_400)
        assert world.observer.told == [("changed", ACCOUNT.key)]

    def test_close(self) -> None:
        """A closed directory has no timers."""
        world = World(issued(exp=1010))
        world.find()
        world.directory.close()
        assert not world.clock.getDelayedCalls()


class TestUpdates:
    """JWTs that change."""

    def test_update(self) -> None:
        """A new JWT of a known account is used from then on, and the watchers are notified."""
        world = World(issued(exp=1010))
        world.find()
        assert world.directory.update(ACCOUNT.key, issued(2))
        assert world.find().token.issuedAt == 2
        assert world.observer.told == [("changed", ACCOUNT.key)] * 2
        assert not world.clock.getDelayedCalls()

    def test_sameJWT(self) -> None:
        """An update with the same JWT changes nothing."""
        text = issued()
        world = World(text)
        world.find()
        assert world.directory.update(ACCOUNT.key, text)
        assert len(world.observer.told) == 1

    def test_unknown(self) -> None:
        """An update for an account without users here is not stored."""
        world = World()
        assert not world.directory.update(ACCOUNT.key, issued())
        assert world.observer.told == []

    @pytest.mark.parametrize(
        "text",
        ["", "x", Account(OPERATOR).jwt(), issued(signer=Operator()), issued(exp=999)],
    )
    def test_invalidUpdatesAreRefused(self, text: str) -> None:
        """An update with an invalid JWT is refused, and the account keeps the JWT before."""
        world = World(issued())
        before = world.find()
        with pytest.raises(FieldError):
            world.directory.update(ACCOUNT.key, text)
        assert world.find() is before

    def test_delete(self) -> None:
        """A deleted account ends, and is fetched again at the next login."""
        world = World(issued(exp=1010))
        world.find()
        del world.resolver.tokens[ACCOUNT.key]
        world.directory.delete(ACCOUNT.key)
        world.directory.delete(ACCOUNT.key)
        assert world.observer.told[1:] == [("ended", ACCOUNT.key)]
        assert world.find().error is errors.ACCOUNT_EXPIRED
        world.resolver.tokens[ACCOUNT.key] = issued()
        assert world.find().token.text == issued()
        assert not world.clock.getDelayedCalls()

    def test_provided(self) -> None:
        """An account may exist before its JWT is known. The JWT then replaces the placeholder."""
        world = World()
        world.directory.provide(placeholder(ACCOUNT.key))
        assert set(world.find().signers) == {ACCOUNT.key}
        assert world.directory.update(ACCOUNT.key, issued())
        assert world.find().token.text


class TestRefreshing:
    """Fetching the JWTs of known accounts again."""

    def test_newJWT(self) -> None:
        """A new JWT is used from then on."""
        world = World(issued())
        world.find()
        world.resolver.tokens[ACCOUNT.key] = issued(2)
        world.directory.refresh(ACCOUNT.key)
        assert world.find().token.issuedAt == 2

    def test_sameJWTIsFetched(self) -> None:
        """Fetching the same JWT again changes nothing."""
        world = World(issued())
        world.find()
        world.directory.refresh(ACCOUNT.key)
        assert world.observer.told == [("changed", ACCOUNT.key)]

    @pytest.mark.parametrize("token", [KeyError("none"), "nonsense", 5, issued(exp=999)])
    def test_noValidJWT(self, token: Any) -> None:
        """An account is removed if its refreshed JWT is missing or invalid."""
        world = World(issued())
        world.find()
        world.resolver.tokens[ACCOUNT.key] = token
        world.directory.refresh(ACCOUNT.key)
        assert world.observer.told[1:] == [("ended", ACCOUNT.key)]
        assert ACCOUNT.key not in world.directory

    def test_resolverFails(self) -> None:
        """An account is kept if the resolver fails at a refresh."""
        world = World(issued())
        account = world.find()
        world.resolver.tokens[ACCOUNT.key] = OSError("the disk is gone")
        world.directory.refresh(ACCOUNT.key)
        assert world.find() is account

    def test_placeholder(self) -> None:
        """An account without a JWT is kept at a refresh until its JWT is found."""
        world = World()
        world.directory.provide(placeholder(ACCOUNT.key))
        world.directory.refresh(ACCOUNT.key)
        assert ACCOUNT.key in world.directory
        world.resolver.tokens[ACCOUNT.key] = issued()
        world.directory.refresh(ACCOUNT.key)
        assert world.find().token.text == issued()
