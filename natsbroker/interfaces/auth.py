"""
The contracts of authorization. An authorizer gives data (a grant) when a connection begins or
changes; it is never called for a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from natsbroker.wire.grants import ConnectRequest, Grant


class IAuthorizer(Interface):
    """Authenticates clients and gives each its account and permissions."""

    required = Attribute(
        "Whether clients must authenticate: INFO has C{auth_required}, and operations before "
        "CONNECT are refused."
    )

    deadline = Attribute(
        "Whether a client that sends no CONNECT is closed at the authentication timeout. That is so"
        " if clients must authenticate, and if one that does not becomes the C{no_auth_user}."
    )

    nonce = Attribute("Whether INFO must carry a nonce for the client to sign.")

    def grantFor(request: ConnectRequest) -> Grant | Deferred[Grant]:
        """
        Decide about a connection. Called for every CONNECT; for a connection that begins without
        CONNECT while C{required} is false; and for every connection after a revocation.

        @param request: all that is known of the connection.
        @return: the grant, at once or later. A grant after the authentication timeout is not used.
        @raise natsbroker.errors.Unauthorized: to deny; its text is in the debug log. Any other
            exception, and a result that is not a grant, deny too and are logged: a broken
            authorizer admits no client.
        """

    def watchRevocations(revoked: Callable[..., None]) -> Callable[[], None]:
        """
        Register a callable to call when grants may have become invalid: without arguments for all
        grants, or with the name of an account.

        @return: a callable without arguments that ends the registration.
        """


class IAccountResolver(Interface):
    """The source of account JWTs in operator mode."""

    def fetch(account: str) -> str | Deferred[str]:
        """
        Find the JWT of an account. The caller verifies it.

        @param account: the public key of the account.
        @return: the encoded JWT, at once or later.
        @raise LookupError: if the account is not known. Any other exception is logged.
        """
