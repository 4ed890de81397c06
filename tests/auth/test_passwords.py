"""Comparing a client's password with the one in the settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import bcrypt
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from natsbroker import errors
from natsbroker.auth.passwords import DummySecrets, PasswordChecks, checkHash, isHash, sameText
from tests.auth.threads import Threads

#: As cheap as it gets.
HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


def outcome(checks: PasswordChecks, expected: str, given: str) -> list[Any]:
    """A list for the result of a check."""
    results: list[Any] = []
    answer = checks.check(expected, given)
    if isinstance(answer, Deferred):
        answer.addBoth(results.append)
    else:
        results.append(answer)
    return results


class TestKinds:
    """Plain and hashed passwords."""

    @pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2x$", "$2y$"])
    def test_hash(self, prefix: str) -> None:
        """A bcrypt hash is recognized by its prefix."""
        assert isHash(prefix + "04$" + "x" * 53)

    @pytest.mark.parametrize("secret", ["", "secret", "$2a$", "$1$aa$bb", "$2c$04$x", "$2a$4$x"])
    def test_plainText(self, secret: str) -> None:
        """Any other text is a password in plain text."""
        assert not isHash(secret)

    def test_sameText(self) -> None:
        """Passwords in plain text are compared as bytes, with any characters."""
        assert sameText("pässword\udcff", "pässword\udcff")
        assert not sameText("password", "pässword")
        assert not sameText("", "x")


class TestHashes:
    """Single comparisons with a hash."""

    def test_rightPassword(self) -> None:
        """The hashed password is accepted, another one is not."""
        assert checkHash(HASH, "secret")
        assert not checkHash(HASH, "Secret")

    def test_hashItself(self) -> None:
        """A hash is not accepted as its own password."""
        assert not checkHash(HASH, HASH)

    def test_longPassword(self) -> None:
        """A password of more than 72 bytes is refused, because bcrypt would ignore the rest."""
        hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
        assert checkHash(hashed, "x" * 72)
        assert not checkHash(hashed, "x" * 73)

    def test_nul(self) -> None:
        """A password with a NUL is refused."""
        assert not checkHash(HASH, "secret\0")

    @pytest.mark.parametrize("broken", ["$2a$04$", "$2a$99$" + "x" * 53, "$2a$04$\xe9" + "x" * 52])
    def test_broken(self, broken: str) -> None:
        """No password matches a broken hash."""
        assert not checkHash(broken, "secret")


class TestQueue:
    """Many comparisons at the same time."""

    def test_plainAtOnce(self) -> None:
        """A password in plain text is compared at once, without a thread."""
        threads = Threads()
        checks = PasswordChecks(threads)
        assert outcome(checks, "secret", "secret") == [True]
        assert outcome(checks, "secret", "x") == [False]
        assert threads.calls == []

    def test_hashLater(self) -> None:
        """A hash is compared in another thread."""
        threads = Threads()
        result = outcome(PasswordChecks(threads), HASH, "secret")
        assert result == []
        threads.run()
        assert result == [True]

    def test_atATime(self) -> None:
        """Only a few comparisons run at the same time. The others follow in order."""
        threads = Threads()
        checks = PasswordChecks(threads)
        outcomes = [outcome(checks, HASH, given) for given in ("secret", "x", "secret")]
        assert len(threads.calls) == PasswordChecks.AT_A_TIME == 2
        threads.run()
        assert len(threads.calls) == 2
        threads.run()
        threads.run()
        assert outcomes == [[True], [False], [True]]

    def test_tooManyWait(self) -> None:
        """A login is denied when too many others wait."""
        checks = PasswordChecks(Threads())
        for _ in range(checks.AT_A_TIME + checks.WAITING):
            checks.check(HASH, "secret")
        with pytest.raises(errors.Unauthorized):
            checks.check(HASH, "secret")

    def test_delayedDenial(self) -> None:
        """
        With a clock, a login beyond the limit is denied after a delay, so that the client does not
        retry more often.
        """
        clock, threads = Clock(), Threads()
        checks = PasswordChecks(threads, clock)
        for _ in range(checks.AT_A_TIME + checks.WAITING):
            outcome(checks, HASH, "x")
        denied, given = outcome(checks, HASH, "x"), checks.check(HASH, "x")
        clock.advance(0.9)
        assert denied == []
        assert isinstance(given, Deferred)
        given.addErrback(lambda failure: None)
        given.cancel()
        clock.advance(0.1)
        assert [denial.type for denial in denied] == [errors.Unauthorized]
        assert not clock.getDelayedCalls()

    def test_cancelWaiting(self) -> None:
        """A login that is cancelled while it waits is never compared."""
        threads = Threads()
        checks = PasswordChecks(threads)
        waiting = [checks.check(HASH, "secret") for _ in range(3)]
        last = waiting[2]
        assert isinstance(last, Deferred)
        results: list[Any] = []
        last.addBoth(results.append)
        last.cancel()
        assert results[0].check(CancelledError)
        threads.run()
        assert len(threads.calls) == 1

    def test_cancelRunning(self) -> None:
        """A comparison whose client has gone ends without an error."""
        threads = Threads()
        checks = PasswordChecks(threads)
        answer = checks.check(HASH, "secret")
        assert isinstance(answer, Deferred)
        gone: list[Any] = []
        answer.addErrback(gone.append)
        answer.cancel()
        assert gone[0].check(CancelledError)
        threads.run()
        result = outcome(checks, HASH, "secret")
        threads.run()
        assert result == [True]

    def test_threadFails(self) -> None:
        """An error in the thread reaches the waiting login, and the next one is served."""
        threads = Threads()
        checks = PasswordChecks(threads)
        result = outcome(checks, HASH, "secret")
        threads.calls.pop(0)[1].errback(ZeroDivisionError())
        assert result[0].check(ZeroDivisionError)
        again = outcome(checks, HASH, "secret")
        threads.run()
        assert again == [True]


def test_sameForAName() -> None:
    """
    An unknown name is always compared with the same secret, and names are spread over all secrets.
    """
    decoys = DummySecrets(["a", "b", "c"])
    names = [f"user{number}" for number in range(300)]
    given = [decoys.secretFor(name) for name in names]
    assert given == [decoys.secretFor(name) for name in names]
    counts = Counter(given)
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 50


def test_notForeseeable() -> None:
    """The secret that an unknown name is compared with changes at each start."""
    secrets = [str(number) for number in range(1000)]
    assert [DummySecrets(secrets).secretFor(name) for name in "abc"] != [
        DummySecrets(secrets).secretFor(name) for name in "abc"
    ]


def test_noUsers() -> None:
    """An unknown name is compared with an empty secret if there are no users."""
    assert DummySecrets([]).secretFor("x") == ""


def test_anyName() -> None:
    """A name that is not valid Unicode is compared with a secret too."""
    assert DummySecrets(["a"]).secretFor("\ud800\udcff\x00") == "a"
