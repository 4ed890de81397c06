"""
Who may connect and what they may do, as frozen values.

This module promises plain, comparable, immutable data about users, permissions
and accounts, spelled like the configuration file.  It must never know how a
password is checked, how a subject is matched, or where the data came from.

Secrets (passwords, tokens, the options of an authorization plugin) never appear
in the C{repr} of these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsbroker.accounts.settings import Export, Import, SubjectMapping

GLOBAL_ACCOUNT = "$G"
"""The account of everybody who is not given another one."""

SYSTEM_ACCOUNT = "$SYS"
"""The account of the broker's own events, unless C{system_account} names another."""

UNLIMITED = -1
"""The value of an account limit that is not set."""


@dataclass(frozen=True, slots=True)
class SubjectPermission:
    """
    What one direction (publish or subscribe) allows and denies.

    @ivar allow: the subjects that are allowed, or L{None} when everything that
        is not denied is allowed.  An empty tuple allows nothing.
    @ivar deny: the subjects that are denied; a denial beats an allowance.
        In the subscribe direction an entry may be C{"subject queue"}.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponsePermission:
    """
    Leave to publish to the reply subject of a message that was delivered.

    @ivar max: how many responses each reply subject may get; negative means any number.
    @ivar expires: for how many seconds; negative means for ever.
    """

    max: int = 1
    expires: float = 120.0


@dataclass(frozen=True, slots=True)
class Permissions:
    """
    What a user may publish and subscribe.

    @ivar publish: L{None} when nothing is restricted.
    @ivar subscribe: L{None} when nothing is restricted.
    @ivar allow_responses: L{None} when replies get no leave of their own.  When it is
        set and C{publish.allow} was not configured, C{publish.allow} is the empty tuple.
    """

    publish: SubjectPermission | None = None
    subscribe: SubjectPermission | None = None
    allow_responses: ResponsePermission | None = None


@dataclass(frozen=True, slots=True)
class User:
    """
    A user with a password or a key, from C{authorization.users} or C{accounts.NAME.users}.

    @ivar user: the name; for a user with a key, the public key.
    @ivar password: in plain text or as a bcrypt hash (C{$2a$}, C{$2b$}, C{$2y$}).
    @ivar account: the name of the account that the user belongs to.
    @ivar permissions: the user's own, or the default of the block it stands in, or
        L{None} for no restriction.
    @ivar allowed_connection_types: upper-case kinds (C{STANDARD}, C{WEBSOCKET}, ...) or
        L{None} for every kind.
    @ivar nkey: the user signs with its key and has no password.
    """

    user: str
    password: str = field(default="", repr=False)
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    allowed_connection_types: frozenset[str] | None = None
    nkey: bool = False


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """
    Limits that the members of an account share; L{UNLIMITED} where not set.

    @ivar max_payload: bytes.
    """

    max_connections: int = UNLIMITED
    max_subscriptions: int = UNLIMITED
    max_payload: int = UNLIMITED
    max_leafnodes: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """
    A subject space of its own and the users who live in it.

    @ivar default_permissions: already applied to the users that have none of their own.
    @ivar exports: what others may import.
    @ivar imports: what it has of others.
    @ivar mappings: where its subjects lead; the first that matches decides.
    @ivar jetstream: its requests to JetStream go to the servers that have it, through the system
        account.
    """

    name: str
    users: tuple[User, ...] = ()
    limits: AccountLimits = field(default_factory=AccountLimits)
    default_permissions: Permissions | None = None
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    jetstream: bool = False


@dataclass(frozen=True, slots=True)
class AuthCallout:
    """
    A service that decides who may connect.

    @ivar issuer: the public key of the account that signs its answers.
    @ivar account: the account that it is asked in.
    @ivar auth_users: the names, or keys, of the users that it is not asked about.
    @ivar xkey: the public key that questions are sealed for; empty for questions in the clear.
    @ivar allowed_accounts: whose users it has a say in, beside the global account's; empty for
        all.
    """

    issuer: str
    account: str = GLOBAL_ACCOUNT
    auth_users: tuple[str, ...] = ()
    xkey: str = ""
    allowed_accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """
    The top-level C{authorization} block.

    @ivar defined: whether the block (or one of C{--user}, C{--pass}, C{--auth}) is there.
    @ivar user: the only user, with C{password}; empty when there is none.
    @ivar password: plain text or bcrypt.
    @ivar token: plain text or bcrypt; empty when there is none.
    @ivar timeout: how many seconds a client has to authenticate.
    @ivar users: the users of the block; they belong to the global account.
    @ivar default_permissions: already applied to C{users}.
    @ivar auth_callout: the service that decides, or L{None} without.
    @ivar plugin: the name of the authorization plugin, or empty for the built-in one.
    @ivar options: every key of the block that is not ours, for the plugin.
    """

    defined: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    timeout: float = 2.0
    users: tuple[User, ...] = ()
    default_permissions: Permissions | None = None
    auth_callout: AuthCallout | None = None
    plugin: str = ""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
