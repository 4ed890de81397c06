"""
Asking auth callout services.

A service has as long as a client has to log in; no answer, a late one and nonsense all
deny; questions are signed by this server, and sealed where the service has a key for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker.accounts.requests import newInbox
from natsbroker.accounts.requests import request as sendRequest
from natsbroker.auth.callout.messages import (
    AuthorizationResponse,
    CalloutUser,
    questionOf,
    readAnswer,
)
from natsbroker.auth.callout.xkeys import CurveKeys, SealError
from natsbroker.auth.nkeys import Role, Signer
from natsbroker.auth.operator.tokens import encodeToken
from natsbroker.auth.responder import Describe
from natsbroker.errors import NoResponders, RequestTimeout, Unauthorized, logText
from natsbroker.interfaces import IMessageBus
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.headers import Headers

__all__ = ["SUBJECT", "CalloutService", "Callouts", "guarded"]

_log = Logger(namespace="natsbroker")

Checked = TypeVar("Checked")

#: Where services listen.
SUBJECT = b"$SYS.REQ.USER.AUTH"

_AUDIENCE = "nats-authorization-request"
_XKEY = "Nats-Server-Xkey"


@dataclass(frozen=True, slots=True)
class CalloutService:
    """
    A service that decides.

    @ivar account: the account that it is asked in.
    @ivar issuer: the public key of the account that signs for it.
    @ivar xkey: the key that questions are sealed for; empty for questions in the clear.
    """

    account: str
    issuer: str
    xkey: str = ""


def guarded(grant: Grant, service: CalloutService) -> Grant:
    """
    A grant whose owner does not ask the service itself, if it could.
    """
    if grant.account != service.account:
        return grant
    publish = grant.publish
    if publish is None:
        # Without rules, leave to answer means leave for nothing else.
        publish = PermissionSet(None if grant.responses is None else ())
    return replace(grant, publish=PermissionSet(publish.allow, {*publish.deny, SUBJECT}))


class Callouts:
    """
    Asks in the name of a server.
    """

    def __init__(
        self,
        signer: Signer,
        curve: CurveKeys,
        describe: Describe,
        busFor: Callable[[str], IMessageBus],
        clock: IReactorTime,
        timeout: Callable[[], float],
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """
        @param signer: signs as the server.
        @param curve: seals and opens as the server.
        @param describe: says who the server is.
        @param busFor: gives the bus of an account; raises C{KeyError} if there is none.
        @param timeout: how many seconds a service has.
        @param random: gives unpredictable bytes.
        """
        self._signer = signer
        self._curve = curve
        self._describe = describe
        self._busFor = busFor
        self._clock = clock
        self._timeout = timeout
        self._random = random

    def now(self) -> float:
        """
        The time, in seconds since the epoch.
        """
        return self._clock.seconds()

    def ask(
        self, service: CalloutService, request: ConnectRequest, applicant: CalloutUser
    ) -> Deferred[AuthorizationResponse]:
        """
        Ask a service about somebody.

        @return: fires with the answer, or fails with L{Unauthorized} if it lets nobody in.
        """
        key = Signer(Role.USER, self._random(32)).publicKey
        try:
            bus = self._busFor(service.account)
            data, headers = self._question(service, request, applicant, key)
        except (KeyError, SealError) as error:
            text = f'No valid account "{service.account}" for auth callout request: {error}'
            raise self.denied(text) from error
        asking = sendRequest(bus, self._clock, SUBJECT, data, self._timeout(), headers, _inbox)
        return asking.addCallbacks(
            lambda message: self._read(service, message.payload, key),
            lambda why: self._silent(service, why),
        )

    def denied(self, text: str) -> Unauthorized:
        """
        A denial that operators see, because a service that does not work keeps everybody out.
        """
        _log.warn("{text}", text=logText(text))
        return Unauthorized(text)

    def checked(self, check: Callable[[], Checked]) -> Checked:
        """
        Check something of an answer.

        @raise Unauthorized: if it is not right; operators see that.
        """
        try:
            return check()
        except Unauthorized as error:
            raise self.denied(str(error)) from error

    def _question(
        self, service: CalloutService, request: ConnectRequest, applicant: CalloutUser, key: str
    ) -> tuple[bytes, Headers | None]:
        now = self.now()
        server = {**self._describe(), **({"xkey": self._curve.publicKey} if service.xkey else {})}
        nats = questionOf(server, key, request, applicant)
        expires = int(now + self._timeout())
        text = encodeToken(
            "authorization_request",
            service.issuer,
            nats,
            self._signer,
            now,
            aud=_AUDIENCE,
            exp=expires,
        )
        if not service.xkey:
            return text.encode("ascii"), None
        sealed = self._curve.seal(text.encode("ascii"), service.xkey, self._random)
        return sealed, Headers([(_XKEY, self._curve.publicKey)])

    def _read(self, service: CalloutService, data: bytes, key: str) -> AuthorizationResponse:
        def unseal(sealed: bytes) -> bytes:
            return self._curve.open(sealed, service.xkey)

        server = self._signer.publicKey
        return self.checked(
            lambda: readAnswer(
                data,
                service.account,
                key,
                server,
                self.now(),
                unseal if service.xkey else None,
            )
        )

    def _silent(self, service: CalloutService, why: Any) -> Any:
        why.trap(NoResponders, RequestTimeout)
        raise self.denied(
            "Authorization callout response not received in time on account "
            f'"{service.account}": {why.getErrorMessage()}'
        )


def _inbox() -> bytes:
    """
    Where answers go, as permissions of services expect it.
    """
    return b"$SYS." + newInbox()
