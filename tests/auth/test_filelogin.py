"""
Tests of L{natsbroker.auth.filelogin}.
"""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.auth.filelogin import HtpasswdAuthenticator
from natsbroker.auth.watchedfile import readSnapshot
from natsbroker.errors import BrokerError, Unauthorized
from natsbroker.interfaces import IReadiness
from natsbroker.testing.contracts import authorizerTests
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.hashes import blowfish, sha
from tests.server.support import logLines

ANNA = ConnectRequest(options={"user": "anna", "pass": "apple"})


class World:
    """
    A file and its authorizer.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.clock = path, Clock()
        self.told: list[tuple[str, ...]] = []
        path.write_text(text)
        self.authenticator = HtpasswdAuthenticator(str(path), maybeDeferred, self.clock)
        self.authenticator.watchRevocations(lambda *account: self.told.append(account))

    def start(self) -> World:
        """Read the file, and watch it."""
        self.authenticator.startService()
        outcome: list[Any] = []
        self.authenticator.whenPrepared().addBoth(outcome.append)
        assert outcome == [None]
        self.told.clear()
        return self

    def ask(self, user: str = "anna", password: str = "apple") -> Any:
        """The grant, or the type of the failure."""
        found: list[Any] = []
        asking = self.authenticator.grantFor(
            ConnectRequest(options={"user": user, "pass": password})
        )
        assert isinstance(asking, Deferred)
        asking.addCallbacks(found.append, lambda why: found.append(type(why.value)))
        return found[0]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Anna and Bob."""
    return World(tmp_path / "users", f"anna:{sha('apple')}\nbob:{blowfish('banana')}\n")


class Prepared:
    """Makes authorizers that have read a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> HtpasswdAuthenticator:
        world = World(self.path, f"anna:{sha('apple')}\n")
        world.authenticator.whenPrepared()
        return world.authenticator


def test_contract(tmp_path: Path) -> None:
    """It does what every authorizer must."""
    case = authorizerTests(
        Prepared(tmp_path / "users"),
        ANNA,
        ConnectRequest(options={"user": "anna", "pass": "banana"}),
        lambda authenticator: authenticator.revoke(),
    )
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.testsRun > 3
    assert result.wasSuccessful(), result.errors + result.failures


def test_prepared(world: World) -> None:
    """Nobody is let in before the file was read, and then who stands in it."""
    assert verifyObject(IReadiness, world.authenticator)
    assert world.authenticator.required
    assert world.ask() is Unauthorized
    world.start()
    assert world.ask() == Grant(user="anna")
    assert world.ask("bob", "banana") == Grant(user="bob")
    assert world.ask("bob", "apple") is Unauthorized


def test_missing(world: World) -> None:
    """Without the file it is not prepared."""
    world.path.unlink()
    found: list[Any] = []
    world.authenticator.whenPrepared().addErrback(found.append)
    assert found[0].check(BrokerError)
    assert str(found[0].value) == (
        f"authorization: cannot read {world.path}: No such file or directory"
    )


def test_change(world: World) -> None:
    """A change of the file holds after two looks, and everybody is asked about again."""
    world.start()
    world.path.write_text(f"carl:{sha('cherry')}\n")
    world.clock.advance(world.authenticator.INTERVAL)
    assert (world.told, world.ask("carl", "cherry")) == ([], Unauthorized)
    world.clock.advance(world.authenticator.INTERVAL)
    assert world.told == [()]
    assert world.ask("carl", "cherry") == Grant(user="carl")
    assert world.ask() is Unauthorized


def test_noChange(world: World) -> None:
    """While nothing changes nobody is asked about."""
    world.start()
    for _ in range(5):
        world.clock.advance(world.authenticator.INTERVAL)
    assert world.told == []


def test_stopped(world: World) -> None:
    """A service that was stopped leaves no timer, also if it was never started."""
    HtpasswdAuthenticator(str(world.path), maybeDeferred, world.clock).stopService()
    world.start()
    world.authenticator.stopService()
    assert world.clock.getDelayedCalls() == []


def test_complaints(world: World) -> None:
    """Lines that let nobody in are told, not too many of them, and none with its secret."""
    lines = [f"user{number}:$apr1$s3cret" for number in range(30)]
    world.path.write_text("\n".join([*lines, f"anna:{sha('apple')}"]))
    with logLines() as log:
        world.start()
    warnings = [line for line in log if "[WRN]" in line]
    assert len(warnings) == 11
    assert f"{world.path}: line 1: a damaged hash" in warnings[0]
    assert "20 more lines let nobody in" in warnings[-1]
    assert "s3cret" not in "".join(log)
    assert world.ask() == Grant(user="anna")


def test_otherFile(world: World) -> None:
    """Another file can be taken for it while it runs."""
    world.start()
    other = world.path.with_name("other")
    other.write_text(f"carl:{sha('cherry')}\n")
    world.authenticator.file.use(str(other), readSnapshot(str(other)))
    assert world.ask("carl", "cherry") == Grant(user="carl")
    os.unlink(world.path)
    world.clock.advance(world.authenticator.INTERVAL)
    assert world.ask("carl", "cherry") == Grant(user="carl")
