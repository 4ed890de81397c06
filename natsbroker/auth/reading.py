"""Users, accounts and the authorization block, read from the configuration."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.settings.authorization import (
    CONNECTION_TYPES,
    GLOBAL_ACCOUNT,
    MOST_BCRYPT_ROUNDS,
    AccountLimits,
    AccountSettings,
    AuthCallout,
    AuthorizationSettings,
    MessageTraces,
    Permissions,
    SubjectPermission,
    User,
)
from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.subjects.permissions import ResponsePermission
from natsbroker.wire.nkeys import Role, isKey

if TYPE_CHECKING:
    from natsbroker.accounts.reading import ImportExportReader

EMPTY_ALLOW = (
    "an empty list allows nothing, but in nats-server everything; "
    'leave it out to allow everything, or deny ">" to allow nothing'
)


def permissionsFrom(
    block: ParsedBlock, findings: Diagnostics, hasQueues: bool = True
) -> Permissions:
    """
    Read a C{permissions} block. An empty C{allow} is an error: nats-server 2.15 takes it for no
    restriction, which is hardly ever meant.

    @param hasQueues: whether entries for subscriptions may name a queue.
    """
    publish = _direction(block, "publish", findings, False)
    subscribe = _direction(block, "subscribe", findings, hasQueues)
    responses = _responses(block)
    if responses is not None:
        publish = publish or SubjectPermission()
        if publish.allow is None:
            publish = SubjectPermission((), publish.deny)
    return Permissions(publish, subscribe, responses)


def _direction(
    block: ParsedBlock, name: str, findings: Diagnostics, hasQueues: bool
) -> SubjectPermission | None:
    if name not in block:
        return None
    inner = block.block(name)
    if inner is None:
        return SubjectPermission(_subjects(block, name, findings, hasQueues))
    if not inner.positions:
        return None
    allow = _subjects(inner, "allow", findings, hasQueues) if "allow" in inner else None
    deny = _subjects(inner, "deny", findings, hasQueues) if "deny" in inner else ()
    return SubjectPermission(allow, deny)


def _subjects(
    block: ParsedBlock, name: str, findings: Diagnostics, hasQueues: bool
) -> tuple[str, ...]:
    subjects = block.texts(name)
    if not subjects and name != "deny":
        findings.errorAt(block, name, EMPTY_ALLOW)
    for subject in subjects:
        wrong = _complaint(subject, hasQueues)
        if wrong:
            findings.errorAt(block, name, wrong)
    return subjects


def _complaint(entry: str, queues: bool) -> str:
    if _valid(entry):
        return ""
    words = entry.split()
    if not queues or len(words) != 2:
        return f'subject "{entry}" is not a valid subject'
    if not _valid(words[0]):
        return f'subject "{words[0]}" is not a valid subject'
    if not _valid(words[1]):
        return f'queue "{words[1]}" is not a valid queue'
    return ""


def _valid(subject: str) -> bool:
    return isValidSubject(subject.encode("utf-8", "surrogateescape"))


def _responses(block: ParsedBlock) -> ResponsePermission | None:
    inner = block.block("allow_responses")
    if inner is None:
        return ResponsePermission() if block.flag("allow_responses") else None
    default = ResponsePermission()
    return ResponsePermission(
        max=inner.integer("max", default.max),
        expires=inner.seconds("expires", default.expires),
    )


LONG_TIMEOUT = 60.0
"""Seconds above which an authorization timeout earns a warning, as in nats-server."""

_BCRYPT = re.compile(r"\$2[aby]\$([0-9]{2})\$")


class AuthorizationReader:
    def __init__(self, findings: Diagnostics) -> None:
        self._findings = findings
        self._names: set[str] = set()
        self._kinds: frozenset[str] = frozenset()

    @cached_property
    def _exports(self) -> ImportExportReader:
        from natsbroker.accounts.reading import ImportExportReader

        return ImportExportReader(self._findings)

    def read(self, root: ParsedBlock) -> tuple[AuthorizationSettings, dict[str, AccountSettings]]:
        """Read the blocks in the file's order, so that the second of two names is reported."""
        sections = {**root.mapping("services", object), **root.mapping("plugins", object)}
        self._kinds = frozenset(name.upper() for name in sections)
        if _later(root, "authorization", "accounts"):
            accounts = self._accounts(root)
            authorization = self._authorization(root)
        else:
            authorization = self._authorization(root)
            accounts = self._accounts(root)
        self._checkSingles(root, accounts)
        if accounts and not self._findings.errors:
            self._exports.check(accounts, not root.flag("no_system_account"))
        return authorization, accounts

    def _authorization(self, root: ParsedBlock) -> AuthorizationSettings:
        """Read an authorization block. An absent C{timeout} is 0."""
        block = root.block("authorization")
        if block is None:
            return AuthorizationSettings(timeout=0.0)
        default = self._permissions(block, "default_permissions")
        self._checkSecret(block, "pass")
        self._checkSecret(block, "token")
        self._checkTimeout(block)
        callout = block.block("auth_callout")
        given: dict[str, Any] = {
            "timeout": 0.0,
            **block.fieldsOf(AuthorizationSettings),
            "users": self._users(block, GLOBAL_ACCOUNT, default),
            "default_permissions": default,
        }
        return AuthorizationSettings(
            **given,
            defined=True,
            auth_callout=None if callout is None else calloutFrom(callout, self._findings),
            options=block.others,
            isOutside="pass" in block.outside,
        )

    def _checkSingles(self, root: ParsedBlock, accounts: dict[str, AccountSettings]) -> None:
        block = root.block("authorization")
        if block is None:
            return
        single, token = block.text("user"), block.text("token")
        if token and (single or block.text("pass")):
            self._exclusive(block, "Cannot have a user/pass and token")
        others = "a users array" if "users" in block else ""
        if not others and any(account.users for account in accounts.values()):
            others = "accounts"
        if others and single:
            self._exclusive(block, f"Can not have a single user/pass and {others}")
        if others and token:
            self._exclusive(block, f"Can not have a token and {others}")

    def _accounts(self, root: ParsedBlock) -> dict[str, AccountSettings]:
        accounts: dict[str, AccountSettings] = {}
        for name in root.texts("accounts"):
            if name == GLOBAL_ACCOUNT:
                self._findings.errorAt(root, "accounts", f'"{name}" is a Reserved Account')
            elif name in accounts:
                message = f"Duplicate AccountSettings Entry: {name}"
                self._findings.errorAt(root, "accounts", message)
            else:
                accounts[name] = AccountSettings(name)
        for name, block in root.named("accounts"):
            if name == GLOBAL_ACCOUNT:
                self._exclusive(block, f'"{name}" is a Reserved Account')
            else:
                accounts[name] = self._account(name, block)
        return accounts

    def _account(self, name: str, block: ParsedBlock) -> AccountSettings:
        default = self._permissions(block, "default_permissions")
        key, limits = block.text("nkey"), block.blockOrEmpty("limits")
        if "nkey" in block and not isKey(key, Role.ACCOUNT):
            message = "Not a valid public nkey for an account"
            self._findings.errorAt(block, "nkey", message)
        return AccountSettings(
            name,
            users=self._users(block, name, default),
            limits=AccountLimits(**limits.fieldsOf(AccountLimits, zeros=True)),
            default_permissions=default,
            exports=self._exports.exports(name, block),
            imports=self._exports.imports(name, block),
            mappings=self._exports.mappings(block),
            jetstream=block.flag("jetstream") or block.block("jetstream") is not None,
            jetstreamLimits=block.blockOrEmpty("jetstream").values,
            trace=self._traces(block),
        )

    def _traces(self, block: ParsedBlock) -> MessageTraces:
        inner = block.block("msg_trace")
        if inner is None:
            traces, place, key = MessageTraces(block.text("msg_trace")), block, "msg_trace"
        else:
            sampling = inner.integer("sampling", 100)
            traces, place, key = MessageTraces(inner.text("dest"), sampling), inner, "dest"
            if "sampling" in inner and not traces.dest:
                message = "Trace destination sampling ignored since no destination was set"
                self._findings.warnAt(inner, "sampling", message)
        if traces.dest and not isValidLiteral(traces.dest.encode("utf-8", "surrogateescape")):
            message = f'Trace destination "{traces.dest}" is not valid'
            self._findings.errorAt(place, key, message)
        return traces

    def _permissions(self, block: ParsedBlock, name: str) -> Permissions | None:
        inner = block.block(name)
        return None if inner is None else permissionsFrom(inner, self._findings)

    def _users(
        self, block: ParsedBlock, account: str, default: Permissions | None
    ) -> tuple[User, ...]:
        users = [self._user(entry, account, default) for entry in block.blocks("users")]
        return tuple(user for user in users if user is not None)

    def _user(self, entry: ParsedBlock, account: str, default: Permissions | None) -> User | None:
        key, name = entry.text("nkey"), entry.text("user")
        if key and not isKey(key, Role.USER):
            self._exclusive(entry, "Not a valid public nkey for a user")
            return None
        if key and (name or entry.text("pass")):
            self._exclusive(entry, "Nkey users do not take usernames or passwords")
            return None
        if not key and not name:
            self._exclusive(entry, "User entry requires a user")
            return None
        self._checkNew(entry, "nkey" if key else "user")
        self._checkSecret(entry, "pass")
        permissions = self._permissions(entry, "permissions") or default
        known = {
            "user": key or name,
            "password": entry.text("pass"),
            "account": account,
            "permissions": permissions,
            "allowed_connection_types": self._connectionTypes(entry),
            "nkey": bool(key),
            "isOutside": "pass" in entry.outside,
        }
        return User(**entry.fieldsOf(User) | known)

    def _checkNew(self, entry: ParsedBlock, kind: str) -> None:
        name = entry.text(kind)
        if name in self._names:
            message = f'Duplicate {kind} "{name}" detected'
            self._findings.error(message, entry.path, entry.place(kind))
        self._names.add(name)

    def _connectionTypes(self, entry: ParsedBlock) -> frozenset[str] | None:
        name = "allowed_connection_types"
        if name not in entry:
            return None
        types = frozenset(text.upper() for text in entry.texts(name))
        for unknown in sorted(types - CONNECTION_TYPES - self._kinds):
            message = f'unknown connection type "{unknown}"'
            self._findings.errorAt(entry, name, message)
        return types or None

    def _checkSecret(self, block: ParsedBlock, name: str) -> None:
        """Refuse a bcrypt hash that is so slow that logins would become an attack."""
        match = _BCRYPT.match(block.text(name))
        if match and int(match[1]) > MOST_BCRYPT_ROUNDS:
            message = f"bcrypt cost {int(match[1])} is more than {MOST_BCRYPT_ROUNDS}"
            self._findings.errorAt(block, name, message)

    def _checkTimeout(self, block: ParsedBlock) -> None:
        timeout = block.seconds("timeout")
        if timeout > LONG_TIMEOUT:
            message = (
                f"{timeout:g} seconds is long, consider less than {LONG_TIMEOUT:g}; "
                'a duration such as "1m" needs quotes'
            )
            self._findings.warnAt(block, "timeout", message)

    def _exclusive(self, block: ParsedBlock, message: str) -> None:
        self._findings.error(message, block.path, block.position)


def _later(root: ParsedBlock, name: str, other: str) -> bool:
    order = list(root.values)
    return name in root and other in root and order.index(name) > order.index(other)


def calloutFrom(block: ParsedBlock, findings: Diagnostics) -> AuthCallout:
    issuer, xkey = block.text("issuer"), block.text("xkey")

    def error(message: str, name: str) -> None:
        findings.error(message, block.pathTo(name) if name else block.path, block.place(name))

    if not issuer:
        error("Authorization callouts require an issuer to be specified", "")
    elif not isKey(issuer, Role.ACCOUNT):
        error("Expected callout user to be a valid public account nkey", "issuer")
    if xkey and not isKey(xkey, Role.CURVE):
        error("Expected callout xkey to be a valid public xkey", "xkey")
    users = block.texts("auth_users")
    if not users:
        error("Authorization callouts require authorized users to be specified", "")
    account = block.text("account") or GLOBAL_ACCOUNT
    return AuthCallout(issuer, account, users, xkey, block.texts("allowed_accounts"))
