"""
The text of an htpasswd file, and a C{twisted.cred} checker of what is in it.

Bcrypt and C{{SHA}} are understood, as C{htpasswd -B} and C{htpasswd -s} make them, and,
with libpass, the MD5 and SHA-2 of C{htpasswd -m}, C{-2} and C{-5}; a line of any other kind lets
nobody in and is told, without what stands in it. Passwords are compared as those of the settings
are: in constant time, hashes outside of the reactor's thread and a bounded number at a time; names
that are not in the file take the same path.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from natsbroker.auth.cryptforms import checkCrypt, isCrypt, problemOf
from natsbroker.auth.decoys import DummySecrets
from natsbroker.auth.passwords import PasswordChecks, RunInThread, checkHash, isHash

__all__ = ["MOST_ROUNDS", "HtpasswdChecker", "htpasswdChecks", "parseHtpasswd"]

#: The highest cost of a bcrypt hash, as in the settings; a login at 14 takes seconds of a core.
MOST_ROUNDS = 14

_BCRYPT = re.compile(r"\$2[aby]\$(\d{2})\$[./A-Za-z0-9]{53}", re.ASCII)
_SHA = re.compile(r"\{SHA\}[A-Za-z0-9+/]{27}=", re.ASCII)

#: What hashes begin with that need a library.
_CRYPT = ("$apr1$", "$1$", "$5$", "$6$")

#: What lines of other kinds begin with, and their names.
_OTHERS = {
    "$2": "a damaged bcrypt hash",
    "{": "an unknown scheme",
}


def htpasswdChecks(runInThread: RunInThread, clock: IReactorTime | None = None) -> PasswordChecks:
    """
    What compares hashes of these files.

    @param runInThread: see L{PasswordChecks}.
    """
    return PasswordChecks(
        runInThread,
        clock,
        lambda secret: isHash(secret) or isCrypt(secret),
        lambda expected, given: (checkHash if isHash(expected) else checkCrypt)(expected, given),
    )


def parseHtpasswd(text: str) -> tuple[dict[str, str], list[str]]:
    """
    Read the lines of a file.

    @return: hashes by user name, and a sentence for each line that lets nobody in.
    """
    found: dict[str, str] = {}
    complaints = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, secret = line.partition(":")
        complaint = _complaint(secret) if name and colon else "not a name, a colon and a hash"
        if not complaint and name in found:
            complaint = "a name that was there before"
        if complaint:
            complaints.append(f"line {number}: {complaint}")
        else:
            found[name] = secret
    return found, complaints


def _complaint(secret: str) -> str:
    bcrypt = _BCRYPT.fullmatch(secret)
    if bcrypt is not None:
        rounds = int(bcrypt[1])
        if not 4 <= rounds <= MOST_ROUNDS:
            return f"a bcrypt cost of {rounds} is not between 4 and {MOST_ROUNDS}"
        return ""
    if _SHA.fullmatch(secret):
        return ""
    if secret.startswith(_CRYPT):
        problem = problemOf(secret)
        return f"{problem}; htpasswd -B makes better ones" if problem else ""
    for start, kind in _OTHERS.items():
        if secret.startswith(start):
            return f"{kind} is not understood: make the entry anew with htpasswd -B"
    return "neither bcrypt nor {SHA}: make the entry anew with htpasswd -B"


@implementer(ICredentialsChecker)
class HtpasswdChecker:
    """
    Checks names and passwords. The avatar id is the name.
    """

    credentialInterfaces = (IUsernamePassword,)

    def __init__(self, checks: PasswordChecks, entries: Mapping[str, str] | None = None) -> None:
        """
        @param checks: compares hashes; see L{htpasswdChecks}.
        @param entries: hashes by user name.
        """
        self._checks = checks
        self.use(entries or {})

    def use(self, entries: Mapping[str, str]) -> None:
        """
        Check by other entries from now on.
        """
        self._entries = dict(entries)
        self._decoys = DummySecrets(self._entries.values())

    def requestAvatarId(self, credentials: Any) -> Any:
        """
        See C{ICredentialsChecker.requestAvatarId}.

        @raise UnauthorizedLogin: if the name is not there, or the password is wrong.
        """
        name = credentials.username.decode("utf-8", "surrogateescape")
        secret = self._entries.get(name)
        isKnown = secret is not None
        if secret is None:
            secret = self._decoys.secretFor(name)
        outcome = self._compare(secret, credentials.password)
        if isinstance(outcome, Deferred):
            return outcome.addCallback(_judged, isKnown, credentials.username)
        return _judged(outcome, isKnown, credentials.username)

    def _compare(self, secret: str, password: bytes) -> bool | Deferred[bool]:
        if secret.startswith("{SHA}"):
            digest = base64.b64encode(hashlib.sha1(password).digest())
            return hmac.compare_digest(b"{SHA}" + digest, secret.encode("ascii"))
        if not secret:
            return False  # a file without entries
        return self._checks.check(secret, password.decode("utf-8", "surrogateescape"))


def _judged(isSame: bool, isKnown: bool, name: bytes) -> bytes:
    if not (isSame and isKnown):
        raise UnauthorizedLogin("unknown user or wrong password")
    return name
