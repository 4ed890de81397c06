"""
The login of a client and its place in an account, with nats-server's order of checks at CONNECT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.accounts.account import Bus
from natsbroker.advisories import ClientDisconnected
from natsbroker.clients.context import ClientContext
from natsbroker.clients.login import Login
from natsbroker.clients.publishing import PublishRules
from natsbroker.clients.subscriptions import SubscriptionTable
from natsbroker.wire.connect import namesAccount
from natsbroker.wire.grants import ConnectRequest, Grant

_log = Logger()

#: Subject, queue and sid of each subscription that another grant ended; C{None} for others.
EndedSubscriptions = Iterator["tuple[bytes, bytes, bytes] | None"]


class LoginRefused(Exception):
    def __init__(self, error: errors.WireError) -> None:
        super().__init__(error.reason)
        self.error = error


class LoginState(Enum):
    #: The client has sent no credentials yet.
    NEW = "new"

    #: The authorizer was asked because of a CONNECT, or of a guest's first operation.
    ASKED = "asked"

    #: The client has a grant.
    ADMITTED = "admitted"

    #: The authorizer was asked whether the grant still holds.
    REVIEWED = "reviewed"


_OF_PROXIES = (errors.PROXY_NOT_TRUSTED, errors.PROXY_REQUIRED)


@dataclass(eq=False, slots=True)
class Admission:
    """
    @ivar login: the question to the authorizer; C{None} while none is open.
    @ivar grant: what the client may do; C{None} before it is let in. With it come the bus of its
        account, the rules for publishing, and the subscriptions.
    @ivar crowded: the grant whose account had no room.
    @ivar refusal: the authorizer's text in the last denial.
    """

    context: ClientContext
    session: Any
    state: LoginState = field(default=LoginState.NEW, init=False)
    login: Login | None = field(default=None, init=False)
    grant: Grant | None = field(default=None, init=False)
    bus: Bus | None = field(default=None, init=False)
    rules: PublishRules | None = field(default=None, init=False)
    subscriptions: SubscriptionTable | None = field(default=None, init=False)
    crowded: Grant | None = field(default=None, init=False)
    refusal: errors.Unauthorized | None = field(default=None, init=False)

    def ask(
        self, state: LoginState, request: ConnectRequest, answered: Callable[[Grant | None], None]
    ) -> bool:
        """
        @param answered: called once, perhaps before this returns; calls L{decide}.
        @return: whether the answer is still to come.
        """
        self.state = state
        login = self.login = Login(answered, self.context.logins, self.context.proxies)
        login.ask(self.context.authorizer, request)
        return login.waiting

    def withdraw(self) -> Login | None:
        login, self.login = self.login, None
        return login

    def decide(self, grant: Grant | None, options: Mapping[str, Any]) -> EndedSubscriptions | None:
        """
        @return: the effects on subscriptions, as a generator to exhaust; C{None} if the client was
            let in.
        @raise LoginRefused: if it is not let in.
        """
        login = self.withdraw()
        denial = errors.AUTHORIZATION if login is None else login.denial
        self.refusal = None if login is None else login.refusal
        if self.state is LoginState.ASKED:
            return self._admit(grant, options, denial)
        return self._review(grant, denial)

    def _admit(
        self, grant: Grant | None, options: Mapping[str, Any], denial: errors.WireError
    ) -> EndedSubscriptions | None:
        if grant is None and denial in _OF_PROXIES:
            raise LoginRefused(denial)
        if grant is None or namesAccount(options):
            raise LoginRefused(errors.AUTHORIZATION)
        before = self.grant
        if before is not None:
            if (before.account, before.user) == (grant.account, grant.user):
                return self._adopt(grant)
            self.leave("Reconnected")
        try:
            bus = self.context.accounts.admit(grant)
        except KeyError:
            _log.error(
                "{client} - Unknown account {name}", client=str(self.session), name=grant.account
            )
            raise LoginRefused(errors.AUTHORIZATION) from None
        except errors.ConnectionLimit as limit:
            self.crowded = grant
            raise LoginRefused(limit.error) from None
        self._use(grant)
        self.bus = bus
        self.subscriptions = SubscriptionTable(bus, self.session, grant)
        return None

    def _review(self, grant: Grant | None, denial: errors.WireError) -> EndedSubscriptions | None:
        before = self.grant
        if grant is None:
            raise LoginRefused(denial)
        if before is None:
            raise LoginRefused(errors.AUTHORIZATION)
        if before.account != grant.account or (before.user and not grant.user):
            raise LoginRefused(errors.AUTH_GONE)
        if before.user not in ("", grant.user):
            raise LoginRefused(errors.AUTHORIZATION)
        return self._adopt(grant)

    def _adopt(self, grant: Grant) -> EndedSubscriptions:
        """Use another grant of the same user. A guest may become a user of the same account."""
        self._use(grant)
        if self.bus is not None:
            self.bus.refresh()
        return iter(()) if self.subscriptions is None else self.subscriptions.permit(grant)

    def _use(self, grant: Grant) -> None:
        context = self.context
        isSystem = context.accounts.isSystem(grant.account)
        self.grant = grant
        self.rules = PublishRules(grant, isSystem, context.reactor.seconds)
        self.state = LoginState.ADMITTED

    def end(self) -> None:
        """Forget a session that is over, after it has left."""
        self.session = None

    def leave(self, reason: str) -> None:
        grant, self.grant = self.grant, None
        if grant is None:
            return
        self.state = LoginState.NEW
        subscriptions, self.subscriptions = self.subscriptions, None
        if subscriptions is not None:
            subscriptions.clear()
        self.context.accounts.dismiss(grant)
        cid = self.session.cid
        self.context.notify(ClientDisconnected(cid, grant.account, grant.user, reason))
