"""
Tests of L{natsbroker.auth.operator.accounts}.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.accounts import accountsFrom, activationsEnd, limitsFrom
from natsbroker.config.settings.accounts import (
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
)
from natsbroker.config.settings.authorization import AccountLimits, AccountSettings, MessageTraces
from tests.auth.operator.chain import Account, Operator, claimsOf, token

OPERATOR = Operator()
ONE, TWO = Account(OPERATOR), Account(OPERATOR)


def activation(subject: str = "news.>", kind: str = "stream", **claims: Any) -> str:
    """An activation token of the first account for the second."""
    nats = {"subject": subject, "kind": kind}
    return token(ONE, claimsOf("activation", ONE, TWO.key, nats, **claims))


class World:
    """
    Two accounts, of which the second imports from the first.

    @ivar told: the imports and mappings that were left out.
    """

    def __init__(self, exports: list[Any] | None = None, imports: list[Any] | None = None) -> None:
        for imported in imports or []:
            imported.setdefault("account", ONE.key)
        one = AccountClaims.decode(ONE.jwt({"exports": exports or []}))
        self.known = {
            ONE.key: replace(one, signers={**one.signers, ONE.key: None}),
            TWO.key: AccountClaims.decode(TWO.jwt({"imports": imports or []})),
        }
        self.told: list[tuple[str, str]] = []

    def accounts(self, now: float = 0.0) -> dict[str, AccountSettings]:
        """The settings of both accounts at a point in time."""
        return accountsFrom(self.known, now, lambda *told: self.told.append(told))


def test_limits() -> None:
    """The limits of an account are those of its JWT."""
    claims = AccountClaims.decode(ONE.jwt(limits={"conn": 1, "subs": 2, "payload": 3, "leaf": 4}))
    assert limitsFrom(claims) == AccountLimits(1, 2, 3, 4)


def test_accountsWithoutExchange() -> None:
    """Accounts without exports, imports and other settings in their JWTs are omitted."""
    assert World().accounts() == {}


class TestExports:
    """Exports of accounts."""

    def test_stream(self) -> None:
        """A stream is exported to every account unless it needs tokens."""
        world = World([{"subject": "news.>", "type": "stream", "account_token_position": 0}])
        assert world.accounts()[ONE.key].exports == (StreamExport("news.>", None, 0),)

    def test_service(self) -> None:
        """A service export has all fields of its JWT, in the units of the configuration."""
        latency = {"sampling": 50, "results": "samples"}
        export = {
            "subject": "help.*",
            "type": "service",
            "response_threshold": 1_500_000_000,
            "service_latency": latency,
            "account_token_position": 2,
        }
        (made,) = World([export]).accounts()[ONE.key].exports
        assert isinstance(made, ServiceExport)
        assert (made.subject, made.accounts, made.account_token_position) == ("help.*", None, 2)
        assert (made.response_type, made.response_threshold) == ("singleton", 1.5)
        assert made.latency == Latency("samples", 50)

    def test_manyAnswers(self) -> None:
        """Latency is not measured for a service that gives more than one answer."""
        latency = {"sampling": 50, "results": "samples"}
        export = {"subject": "x", "type": "service", "response_type": "Stream"}
        (made,) = World([{**export, "service_latency": latency}]).accounts()[ONE.key].exports
        assert isinstance(made, ServiceExport)
        assert (made.response_type, made.latency) == ("stream", None)

    def test_private(self) -> None:
        """A private export needs a token."""
        exports = [{"subject": "news.>", "type": "stream", "token_req": True}]
        without = World(exports, [{"subject": "news.>", "type": "stream"}])
        assert without.accounts()[ONE.key].exports == (StreamExport("news.>", (), 0),)
        assert without.told == [(TWO.key, "import of news.>: needs an activation token")]
        imports = [{"subject": "news.>", "type": "stream", "token": activation()}]
        assert World(exports, imports).accounts()[ONE.key].exports == (
            StreamExport("news.>", (TWO.key,), 0),
        )


class TestImports:
    """Imports of accounts."""

    def test_stream(self) -> None:
        """A stream import has the local subject of the JWT, in the old or the new form."""
        exports = [{"subject": "news.>", "type": "stream"}]
        for said, here in (
            ({}, "news.>"),
            ({"to": "one"}, "one.news.>"),
            ({"local_subject": "mine.>"}, "mine.>"),
        ):
            world = World(exports, [{"subject": "news.>", "type": "stream", **said}])
            (made,) = world.accounts()[TWO.key].imports
            assert isinstance(made, StreamImport)
            assert (made.account, made.subject, made.to) == (ONE.key, "news.>", here)

    def test_service(self) -> None:
        """A service import has the local subject of the JWT, in the old or the new form."""
        exports = [{"subject": "help.*", "type": "service"}]
        for said in (
            {"subject": "help.me", "local_subject": "aid", "share": True},
            {"subject": "aid", "to": "help.me", "share": True},
        ):
            world = World(exports, [{"type": "service", **said}])
            assert world.accounts()[TWO.key].imports == (
                ServiceImport(ONE.key, "help.me", "aid", True),
            )

    def test_leftOut(self) -> None:
        """An import without an export, or from a missing account, is left out and named."""
        imports = [
            {"subject": "none", "type": "stream"},
            {"subject": "x", "type": "stream", "account": Account(OPERATOR).key},
            {"subject": "news.>", "type": "stream"},
        ]
        world = World([{"subject": "news.>", "type": "stream"}], imports)
        (made,) = world.accounts()[TWO.key].imports
        assert made.subject == "news.>"
        assert [account for account, _ in world.told] == [TWO.key]


class TestActivation:
    """Activation tokens, valid and invalid ones."""

    def world(self, token: str, **revocations: int) -> World:
        """An import with a token."""
        export = {"subject": "news.>", "type": "stream", "token_req": True}
        if revocations:
            export["revocations"] = {
                {"all": "*", "two": TWO.key}[name]: at for name, at in revocations.items()
            }
        return World([export], [{"subject": "news.>", "type": "stream", "token": token}])

    def test_expires(self) -> None:
        """
        An activation token is valid until it expires, and the time of the next expiry is known.
        """
        world = self.world(activation(exp=100))
        assert activationsEnd(world.known.values(), 0.0) == 100
        assert activationsEnd(world.known.values(), 100.0) == math.inf
        assert len(world.accounts(99.0)[TWO.key].imports) == 1
        assert world.accounts(100.0)[TWO.key].imports == ()

    def test_revoked(self) -> None:
        """An activation token that was issued before a revocation is invalid."""
        for revocations in ({"all": 5}, {"two": 5}):
            assert self.world(activation(iat=5), **revocations).accounts()[TWO.key].imports == ()
            assert (
                len(self.world(activation(iat=6), **revocations).accounts()[TWO.key].imports) == 1
            )

    def test_signedByTheAccount(self) -> None:
        """Activation tokens must be signed by the exporter or by one of its signing keys."""
        nats = {"subject": "news.>", "kind": "stream", "issuer_account": ONE.key}
        signed = token(ONE.signing, claimsOf("activation", ONE.signing, TWO.key, nats))
        world = self.world(signed)
        assert len(world.accounts()[TWO.key].imports) == 1
        world.known[ONE.key] = AccountClaims.decode(
            ONE.jwt(
                {
                    "exports": [{"subject": "news.>", "type": "stream", "token_req": True}],
                    "signing_keys": [],
                }
            )
        )
        assert world.accounts()[TWO.key].imports == ()
        assert "not known to the exporting account" in world.told[0][1]


class TestMappings:
    """The subject mappings in the JWT of an account."""

    def test_mappings(self) -> None:
        """A subject is mapped as in the JWT. An invalid mapping is left out and logged."""
        mappings = {"a": [{"subject": "b", "weight": 40}], "c": [], "d.*": [{"subject": "e.$7"}]}
        told: list[tuple[str, str]] = []
        claims = AccountClaims.decode(ONE.jwt({"mappings": mappings}))
        settings = accountsFrom({ONE.key: claims}, 0.0, lambda *arguments: told.append(arguments))
        assert settings[ONE.key].mappings == (
            SubjectMapping("a", (MappingDestination("b", 40, ""),)),
        )
        assert [text.split(":")[0] for _, text in told] == ["mapping of c", "mapping of d.*"]


class TestTraces:
    """The trace destination in the JWT of an account."""

    def test_destination(self) -> None:
        """The trace destination of the JWT is used, also if the JWT has nothing else."""
        claims = AccountClaims.decode(ONE.jwt({"trace": {"dest": "t.x", "sampling": 30}}))
        settings = accountsFrom({ONE.key: claims}, 0.0, lambda *arguments: None)
        assert settings[ONE.key].trace == MessageTraces("t.x", 30)
