"""
Tests of L{natsbroker.auth.htpasswd}.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Any

import pytest
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.auth import htpasswd
from natsbroker.auth.htpasswd import (
    MOST_CRYPT_ROUNDS,
    HtpasswdAuthenticator,
    HtpasswdChecker,
    checkCrypt,
    htpasswdChecks,
    isCrypt,
    parseHtpasswd,
    problemOf,
)
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.auth.watchedfile import readSnapshot
from natsbroker.errors import BrokerError, Unauthorized
from natsbroker.interfaces import IReadiness
from natsbroker.testing.contracts import authorizerTests
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.hashes import MADE, PASSWORD, blowfish, sha
from tests.server.support import logLines


@pytest.mark.parametrize("form", MADE)
def test_knownForms(form: str) -> None:
    """Each form is recognised, and only the right password is accepted."""
    secret = MADE[form]
    assert isCrypt(secret) and problemOf(secret) == ""
    assert checkCrypt(secret, PASSWORD)
    for other in ("", "passwort", PASSWORD + "\0", PASSWORD[:-1], "x" * 5000, "\udcff"):
        assert not checkCrypt(secret, other)


@pytest.mark.parametrize("form", MADE)
@pytest.mark.parametrize("password", ["x", "a" * 200, "\u00fc \U0001f511"])
def test_againstOpenSSL(form: str, password: str) -> None:
    """A password hashed by OpenSSL has the same hash here."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program")
    done = subprocess.run(
        ["openssl", "passwd", f"-{form}", "-stdin"],
        input=password + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert checkCrypt(done.stdout.strip(), password)


@pytest.mark.parametrize(
    "secret",
    [
        *("", "x", "fV9m.FZ/T3zms", "$apr1$", "$apr1$$" + "x" * 22, "$2b$04$" + "x" * 53),
        *(MADE["apr1"] + "x", MADE["6"][:-1], MADE["5"].replace("salt", "sa$t"), " " + MADE["1"]),
        MADE["5"] + "\n",
    ],
)
def test_otherTextsMatchNothing(secret: str) -> None:
    """A text that is not a supported hash matches no password."""
    assert not isCrypt(secret)
    assert problemOf(secret) == "a damaged hash"
    assert not checkCrypt(secret, secret)


@pytest.mark.parametrize("form", ["5", "6"])
def test_rounds(form: str) -> None:
    """Hashes with enough rounds to make a login take seconds are refused."""
    start = f"${form}$"
    few = MADE[form].replace(start, f"{start}rounds={MOST_CRYPT_ROUNDS}$")
    many = MADE[form].replace(start, f"{start}rounds={MOST_CRYPT_ROUNDS + 1}$")
    assert problemOf(few) == ""
    assert str(MOST_CRYPT_ROUNDS) in problemOf(many)


def test_withoutLibrary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library a login is denied, and the log says which one to install."""
    monkeypatch.setattr(htpasswd, "_hashes", None)
    assert "natsbroker[htpasswd]" in problemOf(MADE["apr1"])
    assert not checkCrypt(MADE["apr1"], PASSWORD)


#: Made by Apache's htpasswd 2.4.
APACHE = """
# staff
anna:$2y$05$YfxKAYDgrR8K1r8/g9odX./5F2ztKXqYFnd.wALUnHBpMhUeiNzzO

bob:{SHA}JQ538SpatpcqCJXSkMR5Lwoybqg=
"""


class TestParsing:
    """The lines of a file."""

    def test_understood(self) -> None:
        """
        The hashes of a file may be SHA or any variant of bcrypt. Blank lines and comments are
        ignored.
        """
        entries = {
            "a": blowfish("x", b"2a"),
            "b": blowfish("x"),
            "c": blowfish("x").replace("$2b$", "$2y$"),
            "\u00fcte": sha("x"),
        }
        text = "\n# remark\n\n" + "".join(f"  {name}:{entries[name]}  \r\n" for name in entries)
        assert parseHtpasswd(text) == (entries, [])

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("anna", "expected a name, a colon and a hash"),
            (":" + sha("x"), "expected a name, a colon and a hash"),
            ("anna:", "neither bcrypt nor {SHA}"),
            ("anna:apple", "neither bcrypt nor {SHA}"),
            ("anna:fV9m.FZ/T3zms", "neither bcrypt nor {SHA}"),
            ("anna:$apr1$C2AHIg7A$uF5TKZ3h1gWmZhhmQh0LX", "a damaged hash"),
            ("anna:$6$salt$hash", "a damaged hash"),
            ("anna:$5$salt$hash", "a damaged hash"),
            ("anna:$1$salt$hash", "a damaged hash"),
            ("anna:$5$rounds=100001$s$" + "x" * 43, "more than 100000 rounds"),
            ("anna:{SSHA}abc", "an unknown scheme"),
            ("anna:{SHA}abc", "an unknown scheme"),
            ("anna:" + blowfish("x")[:-1], "a damaged bcrypt hash"),
            ("anna:" + blowfish("x").replace("$04$", "$15$"), "a bcrypt cost of 15"),
            ("anna:" + blowfish("x").replace("$04$", "$03$"), "a bcrypt cost of 3"),
            ("bob:" + sha("y"), "the name is on an earlier line already"),
        ],
    )
    def test_otherLinesAreReported(self, line: str, complaint: str) -> None:
        """An invalid line accepts no user, and is reported by its number, without its secret."""
        entries, [told] = parseHtpasswd(f"bob:{sha('x')}\n{line}\n")
        assert entries == {"bob": sha("x")}
        assert told.startswith("line 2: ") and complaint in told
        secret = line.partition(":")[2]
        assert not secret or secret not in told


def check(checker: HtpasswdChecker, name: bytes, password: bytes) -> Any:
    """The avatar id, or the type of the error."""
    errors: list[Any] = []
    try:
        answer = checker.requestAvatarId(UsernamePassword(name, password))
    except Exception as error:
        return type(error)
    if not isinstance(answer, Deferred):
        return answer
    answer.addCallbacks(errors.append, lambda why: errors.append(type(why.value)))
    return errors[0] if errors else None


def atOnce(call: Any, *arguments: Any) -> Any:
    """Call a function at once, instead of in a thread."""
    return succeed(call(*arguments))


class TestChecking:
    """Names and passwords."""

    @pytest.mark.parametrize(
        ("name", "password", "expected"),
        [
            (b"anna", b"apple", b"anna"),
            (b"bob", b"banana", b"bob"),
            (b"anna", b"banana", UnauthorizedLogin),
            (b"bob", b"apple", UnauthorizedLogin),
            (b"bob", b"", UnauthorizedLogin),
            (b"anna", b"", UnauthorizedLogin),
            (b"carl", b"apple", UnauthorizedLogin),
            (b"carl", b"banana", UnauthorizedLogin),
            (b"", b"", UnauthorizedLogin),
            (b"Anna", b"apple", UnauthorizedLogin),
            (b"anna\xff", b"\xff", UnauthorizedLogin),
            (b"# staff", b"", UnauthorizedLogin),
        ],
    )
    def test_apache(self, name: bytes, password: bytes, expected: Any) -> None:
        """Users in a file written by Apache's htpasswd are accepted."""
        entries, complaints = parseHtpasswd(APACHE)
        assert complaints == []
        checker = HtpasswdChecker(htpasswdChecks(atOnce), entries)
        assert verifyObject(ICredentialsChecker, checker)
        assert check(checker, name, password) == expected

    def test_apacheForms(self) -> None:
        """Users with Apache's older hashes are accepted."""
        text = "".join(f"user{form}:{secret}\n" for form, secret in MADE.items())
        entries, complaints = parseHtpasswd(text + APACHE)
        assert (len(entries), complaints) == (6, [])
        checker = HtpasswdChecker(htpasswdChecks(atOnce), entries)
        for form in MADE:
            name = f"user{form}".encode()
            assert check(checker, name, PASSWORD.encode()) == name
            assert check(checker, name, b"passwort") is UnauthorizedLogin
        assert check(checker, b"nobody", PASSWORD.encode()) is UnauthorizedLogin
        assert check(checker, b"anna", b"apple") == b"anna"

    def test_hashIsNoPassword(self) -> None:
        """The hash in the file is not accepted as a password."""
        for entry in (sha("x"), blowfish("x"), *MADE.values()):
            checker = HtpasswdChecker(htpasswdChecks(atOnce), {"a": entry})
            assert check(checker, b"a", entry.encode()) is UnauthorizedLogin

    def test_empty(self) -> None:
        """An empty file admits no client."""
        checker = HtpasswdChecker(htpasswdChecks(atOnce))
        assert check(checker, b"", b"") is UnauthorizedLogin
        assert check(checker, b"anna", b"") is UnauthorizedLogin

    def test_newEntries(self) -> None:
        """New entries replace the old ones."""
        checker = HtpasswdChecker(htpasswdChecks(atOnce), {"a": sha("x")})
        checker.use({"b": sha("y")})
        assert check(checker, b"a", b"x") is UnauthorizedLogin
        assert check(checker, b"b", b"y") == b"b"

    def test_threads(self) -> None:
        """bcrypt runs in a limited number of threads, also for unknown names."""
        threads: list[Any] = []

        def later(call: Any, *arguments: Any) -> Any:
            threads.append((call, arguments, Deferred()))
            return threads[-1][2]

        checker = HtpasswdChecker(htpasswdChecks(later), {"a": blowfish("x")})
        outcomes = [
            checker.requestAvatarId(UsernamePassword(name, b"x")) for name in (b"a", b"b", b"a")
        ]
        assert len(threads) == PasswordChecks.AT_A_TIME == 2
        for call, arguments, done in threads:
            done.callback(call(*arguments))
        errors: list[Any] = []
        for outcome in outcomes:
            outcome.addCallbacks(errors.append, lambda why: errors.append(type(why.value)))
        assert errors == [b"a", UnauthorizedLogin, b"a"]


ANNA = ConnectRequest(options={"user": "anna", "pass": "apple"})


class World:
    """A file of users and its authorizer."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.clock = path, Clock()
        self.told: list[tuple[str, ...]] = []
        path.write_text(text)
        self.authenticator = HtpasswdAuthenticator(str(path), maybeDeferred, self.clock)
        self.authenticator.watchRevocations(lambda *account: self.told.append(account))

    def start(self) -> World:
        """Start the authorizer, which reads the file."""
        self.authenticator.startService()
        outcome: list[Any] = []
        self.authenticator.whenPrepared().addBoth(outcome.append)
        assert outcome == [None]
        self.told.clear()
        return self

    def ask(self, user: str = "anna", password: str = "apple") -> Any:
        """The grant, or the type of the error."""
        errors: list[Any] = []
        asking = self.authenticator.grantFor(
            ConnectRequest(options={"user": user, "pass": password})
        )
        assert isinstance(asking, Deferred)
        asking.addCallbacks(errors.append, lambda why: errors.append(type(why.value)))
        return errors[0]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A file with Anna and Bob."""
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
    """The htpasswd authorizer passes the contract of every authorizer."""
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
    """No client is accepted before the file was read, and later the users in the file are."""
    assert verifyObject(IReadiness, world.authenticator)
    assert world.authenticator.required
    assert world.ask() is Unauthorized
    world.start()
    assert world.ask() == Grant(user="anna")
    assert world.ask("bob", "banana") == Grant(user="bob")
    assert world.ask("bob", "apple") is Unauthorized


def test_missing(world: World) -> None:
    """The plugin cannot be prepared without the file."""
    world.path.unlink()
    results: list[Any] = []
    world.authenticator.whenPrepared().addErrback(results.append)
    assert results[0].check(BrokerError)
    assert str(results[0].value) == (
        f"authorization: cannot read {world.path}: No such file or directory"
    )


def test_fileChanges(world: World) -> None:
    """A changed file takes effect at the second look at it, and all clients are checked again."""
    world.start()
    world.path.write_text(f"carl:{sha('cherry')}\n")
    world.clock.advance(world.authenticator.INTERVAL)
    assert (world.told, world.ask("carl", "cherry")) == ([], Unauthorized)
    world.clock.advance(world.authenticator.INTERVAL)
    assert world.told == [()]
    assert world.ask("carl", "cherry") == Grant(user="carl")
    assert world.ask() is Unauthorized


def test_noChange(world: World) -> None:
    """No client is checked again while the file is unchanged."""
    world.start()
    for _ in range(5):
        world.clock.advance(world.authenticator.INTERVAL)
    assert world.told == []


def test_stopped(world: World) -> None:
    """A stopped service leaves no timer, also if it was never started."""
    HtpasswdAuthenticator(str(world.path), maybeDeferred, world.clock).stopService()
    world.start()
    world.authenticator.stopService()
    assert world.clock.getDelayedCalls() == []


def test_complaints(world: World) -> None:
    """Lines without a usable hash are logged without their secrets, up to a limit."""
    lines = [f"user{number}:$apr1$s3cret" for number in range(30)]
    world.path.write_text("\n".join([*lines, f"anna:{sha('apple')}"]))
    with logLines() as log:
        world.start()
    warnings = [line for line in log if "[WRN]" in line]
    assert len(warnings) == 11
    assert f"{world.path}: line 1: a damaged hash" in warnings[0]
    assert "20 more lines cannot be used" in warnings[-1]
    assert "s3cret" not in "".join(log)
    assert world.ask() == Grant(user="anna")


def test_otherFile(world: World) -> None:
    """The authorizer can switch to another file while it runs."""
    world.start()
    other = world.path.with_name("other")
    other.write_text(f"carl:{sha('cherry')}\n")
    world.authenticator.file.use(str(other), readSnapshot(str(other)))
    assert world.ask("carl", "cherry") == Grant(user="carl")
    os.unlink(world.path)
    world.clock.advance(world.authenticator.INTERVAL)
    assert world.ask("carl", "cherry") == Grant(user="carl")
