"""The request and the answer of an authorizer. A grant is data, so the lane can check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
    Verdict,
)
from natsbroker.wire.values import Kind

#: The account of connections to which no other is given.
GLOBAL_ACCOUNT = "$G"


#: The permission of a user that may only answer requests.
_NOWHERE = PermissionSet((), ())


class Verb(Enum):
    #: Publish to a subject.
    PUBLISH = "publish"

    #: Subscribe to a pattern, perhaps in a queue.
    SUBSCRIBE = "subscribe"

    #: Be given a message that a subscription matches.
    HEAR = "hear"


@dataclass(frozen=True, slots=True)
class Security:
    """
    @ivar cipher: the standard's name of the cipher suite; empty if that is not known.
    @ivar chain: the verified certificates of the peer and of its authorities (C{cryptography} X.509
        certificates); empty without.
    @ivar shown: the certificates that the peer sent, its own verified one first.
    """

    version: str = ""
    cipher: str = ""
    chain: tuple[Any, ...] = ()
    shown: tuple[Any, ...] = ()
    isFirst: bool = False


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """
    @ivar options: the options of CONNECT, with the wire's spelling; empty without CONNECT. Text in
        them has no lone surrogates, so it can always be encoded.
    @ivar certificate: the peer's TLS certificate (a C{cryptography} X.509 certificate) after it was
        verified; C{None} without.
    @ivar connectionType: C{STANDARD}, C{WEBSOCKET}, C{LEAFNODE} and so on, as users'
        C{allowed_connection_types} name them; C{IN_PROCESS} for a client inside this process.
    @ivar proxy: the key of the trusted proxy that it came through; empty for none.
    @ivar granted: the grant that it has, if it is being reconsidered; C{None} at a login.
    """

    kind: Kind = Kind.CLIENT
    options: Mapping[str, Any] = field(default_factory=dict)
    host: str = ""
    nonce: str = ""
    certificate: Any = None
    connectionType: str = "STANDARD"
    cid: int = 0
    tls: Security | None = None
    granted: Grant | None = None
    proxy: str = ""

    def text(self, name: str) -> str:
        """One of the options as text; empty if it is absent or not a text."""
        value = self.options.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Grant:
    """
    @ivar user: the name in logs and monitoring; never a secret. Empty for nobody.
    @ivar publish: the subjects that it may publish to; C{None} for all.
    @ivar subscribe: the subjects that it may subscribe to; C{None} for all.
    @ivar responses: the permission to answer delivered requests at reply subjects that C{publish}
        does not allow; C{None} for none.
    @ivar maxPayload: the largest payload in bytes; C{None} for the server's limit, negative for no
        limit.
    @ivar maxSubscriptions: the largest number of subscriptions; C{None} for the server's limit.
    @ivar expires: when the grant ends, as seconds since the epoch; C{None} for never.
    @ivar issuer: the key that signed for the user, or the account that has the user; empty for
        none.
    @ivar jwt: the user's JWT if it may be shown, which is so if it cannot be used without the
        user's key.
    @ivar proxy: as in its C{ConnectRequest}; authorizers leave it empty.
    @ivar memo: data of the authorizer, for its own use when it reconsiders the connection.
    @raise TypeError: if a value is of another type.
    """

    account: str = GLOBAL_ACCOUNT
    user: str = ""
    publish: PermissionSet | None = None
    subscribe: SubscribePermissions | None = None
    responses: ResponsePermission | None = None
    maxPayload: int | None = None
    maxSubscriptions: int | None = None
    expires: float | None = None
    nameTag: str = field(default="", compare=False)
    issuer: str = field(default="", compare=False)
    tags: tuple[str, ...] = field(default=(), compare=False)
    jwt: str = field(default="", compare=False, repr=False)
    proxy: str = field(default="", compare=False)
    memo: object = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                wanted = " or ".join(
                    "None" if kind is _NOTHING else kind.__name__ for kind in kinds
                )
                raise TypeError(f"{name} of a grant is {wanted}, not {type(value).__name__}")

    @property
    def publishing(self) -> PermissionSet | None:
        """
        The subjects of messages that are not responses: none for a connection that may only
        respond, C{None} for all.
        """
        if self.publish is None and self.responses is not None:
            return _NOWHERE
        return self.publish

    def may(self, verb: Verb, subject: bytes, queue: bytes = b"") -> Verdict:
        """
        Whether the owner may do something. This decides for every kind of connection, and for the
        services of the broker that act for one. Tests compare the lane with it.

        @param subject: a pattern for a subscription.
        @param queue: the queue group of the subscription; empty for none.
        """
        if verb is Verb.PUBLISH:
            publishing = self.publishing
            isAllowed = publishing is None or publishing.allows(subject)
        elif self.subscribe is None:
            isAllowed = True
        elif verb is Verb.SUBSCRIBE:
            return self.subscribe.verdict(subject, queue)
        else:
            isAllowed = self.subscribe.mayDeliver(subject, queue)
        return Verdict.ALLOWED if isAllowed else Verdict.DENIED


_NOTHING = type(None)

#: The types of a grant's fields.
_KINDS: dict[str, tuple[type, ...]] = {
    "account": (str,),
    "user": (str,),
    "nameTag": (str,),
    "issuer": (str,),
    "tags": (tuple,),
    "jwt": (str,),
    "proxy": (str,),
    "publish": (PermissionSet, _NOTHING),
    "subscribe": (SubscribePermissions, _NOTHING),
    "responses": (ResponsePermission, _NOTHING),
    "maxPayload": (int, _NOTHING),
    "maxSubscriptions": (int, _NOTHING),
    "expires": (int, float, _NOTHING),
}
