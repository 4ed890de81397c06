"""
Tests of L{natsbroker.auth.htpasswd}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred, succeed
from zope.interface.verify import verifyObject

from natsbroker.auth.htpasswd import HtpasswdChecker, htpasswdChecks, parseHtpasswd
from natsbroker.auth.passwords import PasswordChecks
from tests.auth.hashes import MADE, PASSWORD, blowfish, sha

#: Made by Apache's htpasswd 2.4.
APACHE = """
# staff
anna:$2y$05$YfxKAYDgrR8K1r8/g9odX./5F2ztKXqYFnd.wALUnHBpMhUeiNzzO

bob:{SHA}JQ538SpatpcqCJXSkMR5Lwoybqg=
"""


class TestParsing:
    """The lines of a file."""

    def test_understood(self) -> None:
        """bcrypt of every spelling and SHA are taken; blank lines and remarks mean nothing."""
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
            ("anna", "not a name, a colon and a hash"),
            (":" + sha("x"), "not a name, a colon and a hash"),
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
            ("bob:" + sha("y"), "a name that was there before"),
        ],
    )
    def test_refused(self, line: str, complaint: str) -> None:
        """Any other line lets nobody in and is told by its number, without its secret."""
        entries, [told] = parseHtpasswd(f"bob:{sha('x')}\n{line}\n")
        assert entries == {"bob": sha("x")}
        assert told.startswith("line 2: ") and complaint in told
        secret = line.partition(":")[2]
        assert not secret or secret not in told


def check(checker: HtpasswdChecker, name: bytes, password: bytes) -> Any:
    """The avatar id, or the type of the failure."""
    found: list[Any] = []
    try:
        answer = checker.requestAvatarId(UsernamePassword(name, password))
    except Exception as error:
        return type(error)
    if not isinstance(answer, Deferred):
        return answer
    answer.addCallbacks(found.append, lambda why: found.append(type(why.value)))
    return found[0] if found else None


def atOnce(call: Any, *arguments: Any) -> Any:
    """A thread that is none."""
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
        """A file of Apache's lets in who is in it."""
        entries, complaints = parseHtpasswd(APACHE)
        assert complaints == []
        checker = HtpasswdChecker(htpasswdChecks(atOnce), entries)
        assert verifyObject(ICredentialsChecker, checker)
        assert check(checker, name, password) == expected

    def test_before(self) -> None:
        """The forms that Apache made before bcrypt let in who is in the file."""
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
        """Who has read the file cannot log in with what stands there."""
        for entry in (sha("x"), blowfish("x"), *MADE.values()):
            checker = HtpasswdChecker(htpasswdChecks(atOnce), {"a": entry})
            assert check(checker, b"a", entry.encode()) is UnauthorizedLogin

    def test_empty(self) -> None:
        """An empty file lets nobody in."""
        checker = HtpasswdChecker(htpasswdChecks(atOnce))
        assert check(checker, b"", b"") is UnauthorizedLogin
        assert check(checker, b"anna", b"") is UnauthorizedLogin

    def test_use(self) -> None:
        """Other entries take the place of those that were there."""
        checker = HtpasswdChecker(htpasswdChecks(atOnce), {"a": sha("x")})
        checker.use({"b": sha("y")})
        assert check(checker, b"a", b"x") is UnauthorizedLogin
        assert check(checker, b"b", b"y") == b"b"

    def test_elsewhere(self) -> None:
        """bcrypt is computed in a thread, for names that are not there, too, and no more at a time
        than may."""
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
        found: list[Any] = []
        for each in outcomes:
            each.addCallbacks(found.append, lambda why: found.append(type(why.value)))
        assert found == [b"a", UnauthorizedLogin, b"a"]
