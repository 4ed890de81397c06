"""
Users, permissions and accounts, spelled like the configuration file. Secrets never appear in the
C{repr}. docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from natsbroker.subjects.permissions import ResponsePermission

if TYPE_CHECKING:
    from natsbroker.config.settings.accounts import Export, Import, SubjectMapping

GLOBAL_ACCOUNT = "$G"
"""The account of everybody who is not given another one."""

SYSTEM_ACCOUNT = "$SYS"
"""The account of the broker's own events, unless C{system_account} names another."""

CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)
"""The kinds of connection that a user may be limited to."""

MOST_BCRYPT_ROUNDS = 14
"""The highest cost of a bcrypt hash; a login at 14 takes seconds of a core."""

UNLIMITED = -1
"""The value of an account limit that is not set."""


@dataclass(frozen=True, slots=True)
class SubjectPermission:
    """
    The subjects of one direction, publish or subscribe.

    @ivar allow: C{None} allows all; an empty tuple allows none.
    @ivar deny: takes precedence. To subscribe, an entry may be C{"subject queue"}.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """
    @ivar allow_responses: if it is set and C{publish.allow} was not configured, C{publish.allow} is
        the empty tuple.
    """

    publish: SubjectPermission | None = None
    subscribe: SubjectPermission | None = None
    allow_responses: ResponsePermission | None = None


@dataclass(frozen=True, slots=True)
class User:
    """
    A user of C{authorization.users} or C{accounts.NAME.users}.

    @ivar permissions: the user's own, or the default of its block; C{None} for no restriction.
    @ivar nkey: whether the user signs and has no password.
    @ivar proxy_required: whether it must come through a trusted proxy.
    @ivar isOutside: whether the password is in the environment and not in the file.
    """

    user: str
    password: str = field(default="", repr=False)
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    allowed_connection_types: frozenset[str] | None = None
    nkey: bool = False
    proxy_required: bool = False
    isOutside: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits that all members of an account share; C{UNLIMITED} for none."""

    max_connections: int = UNLIMITED
    max_subscriptions: int = UNLIMITED
    max_payload: int = UNLIMITED
    max_leafnodes: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class MessageTraces:
    """
    @ivar dest: the subject of the events; empty for none.
    @ivar sampling: how many messages in a hundred.
    """

    dest: str = ""
    sampling: int = 100


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """
    @ivar default_permissions: already applied to users without their own.
    @ivar mappings: the first that matches applies.
    @ivar jetstream: whether it has JetStream: this broker's, or that of servers that have it,
        through the system account.
    @ivar jetstreamLimits: the keys of its C{jetstream} block.
    @ivar trace: where messages with a C{traceparent} header are traced.
    """

    name: str
    users: tuple[User, ...] = ()
    limits: AccountLimits = field(default_factory=AccountLimits)
    default_permissions: Permissions | None = None
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    jetstream: bool = False
    jetstreamLimits: Mapping[str, Any] = field(default_factory=dict)
    trace: MessageTraces = field(default_factory=MessageTraces)


@dataclass(frozen=True, slots=True)
class AuthCallout:
    issuer: str
    account: str = GLOBAL_ACCOUNT
    auth_users: tuple[str, ...] = ()
    xkey: str = ""
    allowed_accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """
    @ivar proxy_required: of the single user or the token; users of the array say it themselves.
    @ivar defined: whether the block, C{--user}, C{--pass} or C{--auth} is there.
    @ivar isOutside: whether C{password} is in the environment and not in the file.
    """

    defined: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    timeout: float = 2.0
    users: tuple[User, ...] = ()
    default_permissions: Permissions | None = None
    auth_callout: AuthCallout | None = None
    proxy_required: bool = False
    plugin: str = ""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    isOutside: bool = field(default=False, compare=False)
