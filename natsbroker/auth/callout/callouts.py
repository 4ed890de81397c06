"""
Requests to auth callout services, signed and, where the service has a key, encrypted. A service has
as much time as a client has to log in. A missing, late or invalid answer denies the login.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.accounts.requests import ProgramOrigin, newInbox
from natsbroker.accounts.requests import request as sendRequest
from natsbroker.auth.callout.messages import (
    AuthorizationResponse,
    CalloutUser,
    questionOf,
    readAnswer,
)
from natsbroker.auth.callout.xkeys import CurveKeys, SealError
from natsbroker.auth.nkeys import Signer
from natsbroker.auth.operator.tokens import encodeToken
from natsbroker.auth.proxies import requireProxy
from natsbroker.config.settings.authorization import AuthCallout
from natsbroker.errors import NoResponders, RequestTimeout, Unauthorized, logText
from natsbroker.interfaces import IMessageBus
from natsbroker.runtime.responder import Describe
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.headers import Headers
from natsbroker.wire.nkeys import Role

_log = Logger(namespace="natsbroker")

Checked = TypeVar("Checked")

#: Where services listen.
SUBJECT = b"$SYS.REQ.USER.AUTH"

_AUDIENCE = "nats-authorization-request"
_XKEY = "Nats-Server-Xkey"


def guarded(grant: Grant, service: AuthCallout) -> Grant:
    """Forbid the owner of a grant to publish requests to the service itself."""
    if grant.account != service.account:
        return grant
    publish = grant.publish
    if publish is None:
        # A user without rules who may only answer requests may publish to no other subjects.
        publish = PermissionSet(None if grant.responses is None else ())
    return replace(grant, publish=PermissionSet(publish.allow, {*publish.deny, SUBJECT}))


@dataclass(frozen=True, eq=False)
class Callouts:
    """
    Requests to services. C{busFor} raises C{KeyError}; C{timeout} gives the seconds that a service
    has.
    """

    signer: Signer
    curve: CurveKeys
    describe: Describe
    busFor: Callable[[str], IMessageBus]
    clock: IReactorTime
    timeout: Callable[[], float]
    random: Callable[[int], bytes] = os.urandom

    def now(self) -> float:
        return self.clock.seconds()

    def ask(
        self, service: AuthCallout, request: ConnectRequest, applicant: CalloutUser
    ) -> Deferred[AuthorizationResponse]:
        key = Signer(Role.USER, self.random(32)).publicKey
        try:
            bus = self.busFor(service.account)
            data, headers = self._question(service, request, applicant, key)
        except (KeyError, SealError) as error:
            text = f'No valid account "{service.account}" for auth callout request: {error}'
            raise self.denied(text) from error
        timeout, origin = self.timeout(), ProgramOrigin(service.account)
        asking = sendRequest(bus, self.clock, SUBJECT, data, timeout, headers, _inbox, origin)
        return asking.addCallbacks(
            lambda message: self._read(service, message.payload, key, request),
            lambda why: self._silent(service, why),
        )

    def denied(self, text: str) -> Unauthorized:
        """A denial that is logged, because a failing service locks out every user."""
        _log.warn("{text}", text=logText(text))
        return Unauthorized(text)

    def asked(self, failure: Failure, account: str) -> Failure:
        if isinstance(failure.value, Unauthorized):
            failure.value.asked = account
        return failure

    def checked(self, check: Callable[[], Checked]) -> Checked:
        try:
            return check()
        except Unauthorized as error:
            raise self.denied(str(error)) from error

    def _question(
        self, service: AuthCallout, request: ConnectRequest, applicant: CalloutUser, key: str
    ) -> tuple[bytes, Headers | None]:
        now = self.now()
        server = {**self.describe(), **({"xkey": self.curve.publicKey} if service.xkey else {})}
        nats = questionOf(server, key, request, applicant)
        expires = int(now + self.timeout())
        text = encodeToken(
            "authorization_request",
            service.issuer,
            nats,
            self.signer,
            now,
            aud=_AUDIENCE,
            exp=expires,
        )
        if not service.xkey:
            return text.encode("ascii"), None
        sealed = self.curve.seal(text.encode("ascii"), service.xkey, self.random)
        return sealed, Headers([(_XKEY, self.curve.publicKey)])

    def _read(
        self, service: AuthCallout, data: bytes, key: str, request: ConnectRequest
    ) -> AuthorizationResponse:
        def unseal(sealed: bytes) -> bytes:
            return self.curve.open(sealed, service.xkey)

        server = self.signer.publicKey
        answer = self.checked(
            lambda: readAnswer(
                data,
                service.account,
                key,
                server,
                self.now(),
                unseal if service.xkey else None,
            )
        )
        if answer.user.terms.proxyRequired:
            requireProxy(request)
        return answer

    def _silent(self, service: AuthCallout, why: Any) -> Any:
        why.trap(NoResponders, RequestTimeout)
        raise self.denied(
            "Authorization callout response not received in time on account "
            f'"{service.account}": {why.getErrorMessage()}'
        )


def _inbox() -> bytes:
    """A reply subject that the permissions of services expect, as nats-server's."""
    return b"$SYS." + newInbox()
