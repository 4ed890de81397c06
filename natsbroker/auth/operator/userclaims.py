"""
The JWT of a user.

What L{UserClaims.decode} returns has a true signature, is about a user's key, and makes
sense; nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.auth.fields import FieldError
from natsbroker.auth.nkeys import Role, isKey
from natsbroker.auth.operator.terms import NO_LIMIT, UserPermissionLimits, check, readTerms
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken

__all__ = ["UserClaims"]


@dataclass(frozen=True, slots=True)
class UserClaims:
    """
    What an account says about one of its users.

    @ivar token: the JWT.
    @ivar issuerAccount: the account's public key, if a signing key issued it; else empty.
    @ivar tags: as they stand there.
    @ivar terms: what the user may do.
    """

    token: SignedJWT
    issuerAccount: str
    tags: tuple[str, ...]
    terms: UserPermissionLimits

    @classmethod
    def decode(cls, text: str) -> UserClaims:
        """
        Read a JWT.

        @raise FieldError: if it is not a user's, or makes no sense.
        """
        token = decodeToken(text, "user")
        nats = token.nats
        # A limit that is not there is zero, but none in version 1: as nats-server reads them.
        terms = readTerms(nats, absent=NO_LIMIT if token.isOld else 0)
        claims = cls(token, nats.text("issuer_account"), nats.texts("tags"), terms)
        if not isKey(token.subject, Role.USER):
            raise FieldError("its subject is not a user's public key")
        if claims.issuerAccount and not isKey(claims.issuerAccount, Role.ACCOUNT):
            raise FieldError("issuer_account is not an account's public key")
        check(claims.terms)
        return claims

    @property
    def account(self) -> str:
        """
        The public key of the account.
        """
        return self.issuerAccount or self.token.issuer
