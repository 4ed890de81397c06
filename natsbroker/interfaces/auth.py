"""
The contracts of authorization: who a connection is, and what it may do.

Promises: an authorizer hands over data (a grant) when something changes; it is never asked for a
single message.
Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from natsbroker.wire.grants import Grant, Hello


class IAuthorizer(Interface):
    """
    Decides who may connect, to which account, and what they may publish and subscribe.
    """

    required = Attribute(
        "Whether a client must say who it is: INFO then has C{auth_required}, and any operation "
        "before CONNECT is refused."
    )

    deadline = Attribute(
        "Whether a client that says nothing at all is closed at the authentication timeout. It is "
        "true with C{required}, and also where who says anything without CONNECT is taken for a "
        "guest who is known by name."
    )

    nonce = Attribute("Whether INFO must carry a nonce for the client to sign.")

    def grantFor(hello: Hello) -> Grant | Deferred[Grant]:
        """
        Say what a connection may do. Called once for every CONNECT; for a connection that begins
        without CONNECT although C{required} is false; and again for every connection after a
        revocation was announced.

        @param hello: all that is known of the connection.
        @return: the grant, at once or later. A grant that comes after the authentication timeout
            is not used.
        @raise natsbroker.errors.Unauthorized: to deny; its text is logged for debugging. Any
            other exception, or a result that is no grant, denies too and is logged: a broken
            authorizer lets nobody in.
        """

    def watchRevocations(revoked: Callable[..., None]) -> Callable[[], None]:
        """
        Register a callable to be called when grants that were given may no longer hold: without
        arguments for all, or with the name of the account whose they are.

        @return: a callable without arguments that ends the registration.
        """


class IAccountResolver(Interface):
    """
    Where the JWTs of accounts are found, in operator mode.
    """

    def fetch(account: str) -> str | Deferred[str]:
        """
        Find the JWT of an account. It is verified by whoever asked.

        @param account: a public key of an account, nothing else.
        @return: the text of the JWT, at once or later.
        @raise LookupError: if there is none. Any other exception is logged.
        """
