"""
Users of an htpasswd file.

Supported are bcrypt and C{{SHA}} (C{htpasswd -B} and C{-s}) and, with libpass, the MD5 and SHA-2 of
C{-m}, C{-2} and C{-5}. Other lines are logged without their text, and accept nobody. Passwords are
compared as those of the configuration: in constant time, hashes in threads and a bounded number at
a time; unknown names take the same path.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from twisted.application.service import Service
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.auth.checkers import CheckerAuthenticator
from natsbroker.auth.passwords import DummySecrets, PasswordChecks, RunInThread, checkHash, isHash
from natsbroker.auth.watchedfile import WatchedFile
from natsbroker.config.settings.authorization import MOST_BCRYPT_ROUNDS
from natsbroker.errors import BrokerError
from natsbroker.interfaces import IReadiness

try:
    from passlib import hash as _hashes
except ImportError:
    _hashes = None

#: The most rounds of C{$5$} and C{$6$}; a login with that many takes a tenth of a second of a core.
MOST_CRYPT_ROUNDS = 100_000

#: More bytes of a password than libpass takes.
_LONGEST = 4096

_SALT = r"[^$\n:]"
_CHARACTER = r"[./A-Za-z0-9]"
_FORM = re.compile(
    rf"\$(?:(apr1|1)\${_SALT}{{1,8}}\${_CHARACTER}{{22}}"
    rf"|(5)\$(?:rounds=(\d{{1,9}})\$)?{_SALT}{{1,16}}\${_CHARACTER}{{43}}"
    rf"|(6)\$(?:rounds=(\d{{1,9}})\$)?{_SALT}{{1,16}}\${_CHARACTER}{{86}})",
    re.ASCII,
)

_NAMES = {
    "apr1": "apr_md5_crypt",
    "1": "md5_crypt",
    "5": "sha256_crypt",
    "6": "sha512_crypt",
}


def isCrypt(secret: str) -> bool:
    return _FORM.fullmatch(secret) is not None


def problemOf(secret: str) -> str:
    match = _FORM.fullmatch(secret)
    if match is None:
        return "a damaged hash"
    if int(match[3] or match[5] or 0) > MOST_CRYPT_ROUNDS:
        return f"more than {MOST_CRYPT_ROUNDS} rounds"
    if _hashes is None:
        return "a hash that needs libpass (pip install natsbroker[htpasswd])"
    return ""


def checkCrypt(expected: str, given: str) -> bool:
    """Whether a hash is that of a password. Takes long enough to need a thread."""
    match = _FORM.fullmatch(expected)
    password = given.encode("utf-8", "surrogateescape")
    if match is None or _hashes is None or len(password) > _LONGEST or b"\0" in password:
        return False
    form: Any = getattr(_hashes, _NAMES[match[1] or match[2] or match[4]])
    return bool(form.verify(password, expected))


_BCRYPT = re.compile(r"\$2[aby]\$(\d{2})\$[./A-Za-z0-9]{53}", re.ASCII)
_SHA = re.compile(r"\{SHA\}[A-Za-z0-9+/]{27}=", re.ASCII)

#: The beginnings of hashes that need a library.
_CRYPT = ("$apr1$", "$1$", "$5$", "$6$")

#: The beginnings of hashes of other kinds, and the names of these.
_OTHERS = {
    "$2": "a damaged bcrypt hash",
    "{": "an unknown scheme",
}


def htpasswdChecks(runInThread: RunInThread, clock: IReactorTime | None = None) -> PasswordChecks:
    return PasswordChecks(
        runInThread,
        clock,
        lambda secret: isHash(secret) or isCrypt(secret),
        lambda expected, given: (checkHash if isHash(expected) else checkCrypt)(expected, given),
    )


def parseHtpasswd(text: str) -> tuple[dict[str, str], list[str]]:
    """Hashes by user name, and a message for each line that accepts nobody."""
    secrets: dict[str, str] = {}
    complaints = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, secret = line.partition(":")
        complaint = _complaint(secret) if name and colon else "expected a name, a colon and a hash"
        if not complaint and name in secrets:
            complaint = "the name is on an earlier line already"
        if complaint:
            complaints.append(f"line {number}: {complaint}")
        else:
            secrets[name] = secret
    return secrets, complaints


def _complaint(secret: str) -> str:
    bcrypt = _BCRYPT.fullmatch(secret)
    if bcrypt is not None:
        rounds = int(bcrypt[1])
        if not 4 <= rounds <= MOST_BCRYPT_ROUNDS:
            return f"a bcrypt cost of {rounds} is not between 4 and {MOST_BCRYPT_ROUNDS}"
        return ""
    if _SHA.fullmatch(secret):
        return ""
    if secret.startswith(_CRYPT):
        problem = problemOf(secret)
        return f"{problem}; htpasswd -B makes better ones" if problem else ""
    for start, kind in _OTHERS.items():
        if secret.startswith(start):
            return f"{kind} is not understood: make the entry again with htpasswd -B"
    return "neither bcrypt nor {SHA}: make the entry again with htpasswd -B"


@implementer(ICredentialsChecker)
class HtpasswdChecker:
    credentialInterfaces = (IUsernamePassword,)

    def __init__(self, checks: PasswordChecks, entries: Mapping[str, str] | None = None) -> None:
        self._checks = checks
        self.use(entries or {})

    def use(self, entries: Mapping[str, str]) -> None:
        self._entries = dict(entries)
        self._dummySecrets = DummySecrets(self._entries.values())

    def requestAvatarId(self, credentials: Any) -> Any:
        name = credentials.username.decode("utf-8", "surrogateescape")
        secret = self._entries.get(name)
        isKnown = secret is not None
        if secret is None:
            secret = self._dummySecrets.secretFor(name)
        outcome = self._compare(secret, credentials.password)
        if isinstance(outcome, Deferred):
            return outcome.addCallback(_avatarId, isKnown, credentials.username)
        return _avatarId(outcome, isKnown, credentials.username)

    def _compare(self, secret: str, password: bytes) -> bool | Deferred[bool]:
        if secret.startswith("{SHA}"):
            digest = base64.b64encode(hashlib.sha1(password).digest())
            return hmac.compare_digest(b"{SHA}" + digest, secret.encode("ascii"))
        if not secret:
            return False  # a file without entries
        return self._checks.check(secret, password.decode("utf-8", "surrogateescape"))


def _avatarId(isSame: bool, isKnown: bool, name: bytes) -> bytes:
    if not (isSame and isKnown):
        raise UnauthorizedLogin("unknown user or wrong password")
    return name


_log = Logger()

#: The most lines of a file that are logged one by one.
_MOST_WARNINGS = 10


@implementer(IReadiness)
class HtpasswdAuthenticator(CheckerAuthenticator, Service):
    """
    Accepts the users in a file, which it watches while it runs; a change applies to open
    connections.

    @cvar INTERVAL: seconds between two checks of the file; a change applies after two.
    """

    INTERVAL = 1.0

    def __init__(
        self, path: str, runInThread: RunInThread, clock: IReactorTime, avatars: Any = None
    ) -> None:
        self._checker = HtpasswdChecker(htpasswdChecks(runInThread, clock))
        super().__init__([self._checker], avatars)
        self.file = WatchedFile(path, runInThread, self._take)
        self._loop = LoopingCall(self.file.look)
        self._loop.clock = clock

    def whenPrepared(self) -> Deferred[None]:
        return self.file.load().addErrback(self._unprepared)

    def _unprepared(self, failure: Failure) -> None:
        failure.trap(OSError, ValueError)
        why = getattr(failure.value, "strerror", None) or str(failure.value)
        raise BrokerError(f"authorization: cannot read {self.file.path}: {why}")

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        # The file has just been read, so the first check comes after an interval.
        self._loop.start(self.INTERVAL, now=False)

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._loop.running:
            self._loop.stop()

    def _take(self, text: str) -> None:
        entries, complaints = parseHtpasswd(text)
        for complaint in complaints[:_MOST_WARNINGS]:
            _log.warn("{path}: {complaint}", path=self.file.path, complaint=complaint)
        if len(complaints) > _MOST_WARNINGS:
            more = len(complaints) - _MOST_WARNINGS
            _log.warn("{path}: {more} more lines cannot be used", path=self.file.path, more=more)
        self._checker.use(entries)
        self.revoke()
