"""
C{$SYS.REQ.CLAIMS.*} and C{$SYS.REQ.ACCOUNT.*.CLAIMS.*}: reading and changing the JWTs of accounts,
with nats-server's subjects and answers.

A JWT is stored and used only if it is signed by a trusted key, valid, and about the account in the
subject. It is on disk before the answer, and applies to open connections. Stricter than nats-server
2.15, on purpose: that also stores (and does not use) JWTs of other operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.logger import Logger

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.directory import AccountDirectory
from natsbroker.auth.operator.folders import Deletion, FolderError
from natsbroker.auth.operator.resolvers import FolderResolver
from natsbroker.auth.operator.tokens import SignedJWT, decodeAny, expiryIn
from natsbroker.errors import logText
from natsbroker.interfaces import IMessageBus
from natsbroker.runtime.responder import Answer, Describe, RequestResponder
from natsbroker.wire.nkeys import Role, isKey
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger()

_OK = 200
_ERROR = 500

#: Where the account's key stands in the subjects of an update, which has an old and a new form.
_UPDATES = {b"$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": 3, b"$SYS.ACCOUNT.*.CLAIMS.UPDATE": 2}
_LOOKUP = b"$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"
_LOOKED_UP = 3


class ClaimsService:
    def __init__(
        self,
        bus: IMessageBus,
        directory: AccountDirectory,
        describe: Describe,
        folder: FolderResolver | None = None,
        now: Callable[[], float] = lambda: 0.0,
        late: Callable[[bytes], Any] = lambda answer: answer,
        isSpeaking: Callable[[], bool] = lambda: True,
        server: bytes = b"",
    ) -> None:
        """
        @param folder: without it, an update applies to accounts in use, until the broker ends.
        @param late: delays an empty answer, so that those of other servers come first.
        @param isSpeaking: whether this broker answers operators, of several that are one server.
        @param server: which these put into lookups of each other, and all of them answer.
        """
        self._directory = directory
        self._describe = describe
        self._folder = folder
        self._system = bus.account
        self._now = now
        self._late = late
        self._isSpeaking = isSpeaking
        self._server = server
        self._kind = "jwt update cache" if self._isCache else "jwt update"
        self.answering = answering = RequestResponder(bus)
        for pattern, place in _UPDATES.items():
            answering.on(pattern, self._once(self._updater(place)))
        if folder is None:
            return
        answering.on(b"$SYS.REQ.CLAIMS.UPDATE", self._once(self._updateAny))
        answering.on(b"$SYS.REQ.CLAIMS.LIST", self._once(self._list))
        answering.on(b"$SYS.REQ.CLAIMS.DELETE", self._once(self._delete))
        if not self._isCache:
            answering.on(_LOOKUP, self._lookUp)
            # The members of a group at one server are chosen before those at others, and brokers of
            # one server have the same JWTs.
            group = b"" if server else b"responder"
            answering.on(b"$SYS.REQ.CLAIMS.PACK", self._pack, group)

    @property
    def _isCache(self) -> bool:
        return self._folder is not None and self._folder.folder.isCache

    def close(self) -> None:
        self.answering.close()

    def _once(self, answer: Answer) -> Answer:
        """Act on a request, and answer it if this broker speaks for the server."""

        def act(message: Message) -> Deferred[Any]:
            acting = maybeDeferred(answer, message)
            return acting.addCallback(lambda made: made if self._isSpeaking() else None)

        return act

    def _updater(self, place: int) -> Callable[[Message], Deferred[Any]]:
        def update(message: Message) -> Deferred[Any]:
            account = decoded(message.subject.split(b".")[place])
            return ensureDeferred(self._updated(account, message.payload))

        return update

    def _updateAny(self, message: Message) -> Deferred[Any]:
        return ensureDeferred(self._updated(None, message.payload))

    async def _updated(self, account: str | None, payload: bytes) -> Any:
        shown = account or "n/a"
        try:
            text = payload.decode("ascii").strip()
            if not text:
                raise FieldError("request body is empty")
            subject = AccountClaims.decode(text).token.subject
            if account is not None and subject != account:
                raise FieldError("subject does not match jwt content")
            shown = subject
            if self._isCache and subject not in self._directory:
                return self._done(subject, f"{self._kind} skipped")
            self._directory.verified(subject, text)
        except (FieldError, UnicodeDecodeError) as error:
            return self._refused(shown, f"{self._kind} resulted in error - {error}")
        if self._folder is not None:
            try:
                await self._folder.save(subject, text)
            except (FolderError, OSError) as error:
                return self._refused(shown, f"{self._kind} resulted in error - {error}")
        isInUse = self._directory.update(subject, text)
        isDone = isInUse or self._folder is not None
        if self._isCache:
            return self._done(subject, "jwt updated cache")
        return self._done(subject, "jwt updated" if isDone else "jwt update skipped")

    def _done(self, account: str, text: str) -> dict[str, Any]:
        _log.debug("{text} - {account}", text=text, account=account)
        data = {"account": account} if account else {}
        return {"server": self._describe(), "data": {**data, "code": _OK, "message": text}}

    def _refused(self, account: str, text: str) -> dict[str, Any]:
        _log.error("{text}", text=logText(text))
        named = {"account": account} if account else {}
        return {
            "server": self._describe(),
            "error": {**named, "code": _ERROR, "description": text},
        }

    def _lookUp(self, message: Message) -> Any:
        if not self._isSpeaking() and message.payload != self._server:
            return None
        account = decoded(message.subject.split(b".")[_LOOKED_UP])
        folder = self._folder
        if folder is None or account not in folder.folder:
            return self._late(b"")
        return folder.folder[account].encode("ascii")

    def _list(self, message: Message) -> dict[str, Any]:
        return {"server": self._describe(), "data": [account for account, _ in self._current()]}

    def _pack(self, message: Message) -> bytes:
        """
        Send each JWT as a message, and an empty message at the end. Send none if the other server
        has the same JWTs.
        """
        if self._folder is not None and message.payload != self._folder.folder.digest:
            for account, text in self._current():
                self.answering.say(message.reply, f"{account}|{text}".encode("ascii"))
        return b""

    def _current(self) -> list[tuple[str, str]]:
        if self._folder is None:
            return []
        folder, now = self._folder.folder, self._now()
        tokens = [(account, folder[account]) for account in folder]
        return [(account, text) for account, text in tokens if not _isOver(text, now)]

    def _delete(self, message: Message) -> Deferred[Any]:
        return ensureDeferred(self._deleted(message.payload))

    async def _deleted(self, payload: bytes) -> Any:
        folder = self._folder
        by = ""
        try:
            token = decodeAny(payload.decode("ascii").strip())
            by = token.subject
            accounts = self._deletable(token)
        except (FieldError, UnicodeDecodeError) as error:
            return self._refused("", f"delete accounts request by {by} failed - {error}")
        problems = []
        for account in accounts:
            try:
                if folder is not None:
                    await folder.delete(account)
                self._directory.delete(account)
            except (FolderError, OSError) as error:
                problems.append(str(error))
        count = len(accounts) - len(problems)
        if problems:
            text = f"deleted {count} accounts, failed for {len(problems)}"
            return self._refused("", f"{text} - " + "\n".join(problems))
        return self._done("", f"deleted {count} accounts")

    def _deletable(self, token: SignedJWT) -> tuple[str, ...]:
        if self._folder is None or self._folder.folder.deletion is Deletion.REFUSED:
            raise FieldError("delete must be enabled in server config")
        if token.subject != token.issuer:
            raise FieldError("not self signed")
        if token.issuer not in self._directory.trust.keys:
            raise FieldError("not trusted")
        if not token.isTimely(self._now()):
            raise FieldError("expired")
        accounts = token.nats.texts("accounts")
        if not all(isKey(account, Role.ACCOUNT) for account in accounts):
            raise FieldError("malformed request")
        if self._system in accounts:
            raise FieldError("not allowed to delete system account")
        return accounts


def _isOver(text: str, now: float) -> bool:
    try:
        return 0 < expiryIn(text) < now
    except FieldError:
        return False
