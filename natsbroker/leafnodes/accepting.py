"""
A leafnode connection that the peer dialled: its login and the changes of its grant. Before that
only CONNECT is accepted. The authorizer of clients decides, unless leafnodes have users of their
own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.advisories import LeafRefused
from natsbroker.clients.login import Login
from natsbroker.connections.labels import claimedUser
from natsbroker.errors import logText
from natsbroker.leafnodes.registry import LeafLink, LeafPeer, LeafRegistry
from natsbroker.leafnodes.rules import encoded, hubRules, permissionsOf, spokeRules
from natsbroker.wire import ops
from natsbroker.wire.compression import OFF, UNSUPPORTED
from natsbroker.wire.connect import infoLine, namesAccount, parseConnect
from natsbroker.wire.dialects.leaf import FROM_LEAF, FROM_NEW_LEAF
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.serverinfo import LeafConnect, ServerDocument, parseDocument, parseLeafConnect
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})")

#: The longest delay of a timer, in seconds.
_DAY = 86_400.0


class AcceptedLeaf(LeafLink):
    def __init__(self, leafs: LeafRegistry, peer: LeafPeer) -> None:
        super().__init__(leafs, peer, Kind.SPOKE, leafs.block.compression)
        self._isMet = False
        if self.compression.wanted.isOffered:
            self.isQuiet = True
            self.decoder.dialect = FROM_NEW_LEAF
        nonce = base64.urlsafe_b64encode(leafs.clients.nonceBytes(11)).rstrip(b"=")
        self._nonce = nonce.decode("ascii")
        self._options: dict[str, Any] | None = None
        self._connect = LeafConnect()
        self._login: Login | None = None
        self._expiry: Any = None
        self.decoder.authorized = False
        self.handlers[ops.CONNECT] = self._connected
        self.handlers[ops.INFO] = self.parsing(parseDocument, self._informed)

    @property
    def user(self) -> str:
        return super().user or claimedUser(self._options or {})

    @property
    def version(self) -> str:
        return self._connect.version

    def greet(self) -> None:
        mode = self.compression.mode
        shown = {} if mode == UNSUPPORTED else {"compression": mode}
        document = self.leafs.document(client_id=self.number, nonce=self._nonce, **shown)
        self.say(infoLine(document))

    def secured(self) -> None:
        self.expect(self.context.settings.authorization.timeout)

    def _connected(self, argument: bytes) -> None:
        if self._options is not None:
            return
        try:
            options, connect = parseConnect(argument), parseLeafConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        self._options, self._connect = options, connect
        self.name = connect.name
        self.protocol = connect.protocol
        self._agreeOnCompression(connect.compress_mode)
        self._ask(self._letIn)

    def _agreeOnCompression(self, claimed: str) -> None:
        """A peer that wants S2 has said so before its CONNECT."""
        self.isQuiet = False
        self.decoder.dialect = FROM_LEAF
        if not self._isMet:
            self.compression.select(claimed if claimed == OFF else UNSUPPORTED)

    def _ask(self, decided: Callable[[Grant | None], None]) -> None:
        peer = self.peer
        request = ConnectRequest(
            kind=Kind.SPOKE,
            options=self._options or {},
            host=peer.host,
            nonce=self._nonce,
            certificate=peer.certificate,
            connectionType=peer.connectionType,
            cid=self.number,
            tls=peer.tls,
            granted=self.grant,
        )
        login = self._login = Login(
            lambda grant: self._inBatch(lambda: self._answered(decided, grant)),
            self.leafs.clients.logins,
            self.leafs.clients.proxies,
        )
        login.ask(self.leafs.authorizerFor(self.isOverWebSocket), request)
        if login.waiting:
            self.isHeld = True
            self._hold()
            self.expect(self.context.settings.authorization.timeout)

    def _answered(self, decided: Callable[[Grant | None], None], grant: Grant | None) -> None:
        wasHeld, self.isHeld = self.isHeld, False
        decided(grant)
        self._login = None
        if wasHeld and not self.reason:
            self.agreed()
            self._resume()

    def _letIn(self, grant: Grant | None) -> None:
        if grant is None or namesAccount(self._options or {}):
            self._refuse()
            return
        error = self._problem()
        if error is not None:
            if error[0] is errors.LEAF_TOO_OLD:
                self.say(self._permissions(grant))
            self.close(*error)
            return
        connect = self._connect
        if connect.is_hub:
            self.kind = Kind.HUB
        self.cluster = connect.cluster
        self.remoteAccount = connect.remote_account
        self.isIsolated = self.isIsolated or connect.isolate
        bus = self.admit(grant)
        if bus is None:
            return
        self.decoder.authorized = True
        self.leafs.established(self)
        self.say(self._permissions(grant))
        self.begin(bus, self._rulesFor(grant), connect.headers)
        self._watchExpiry(grant)

    def _refuse(self) -> None:
        options = self._options or {}
        who = f'User "{options["user"]}"' if options.get("user") else "no user"
        _log.error("{link} - authentication error - {who}", link=str(self), who=logText(who))
        error = errors.AUTHORIZATION
        if self._denial in (errors.PROXY_NOT_TRUSTED, errors.PROXY_REQUIRED):
            error = self._denial
        self._keepalive.estimate(self.context.reactor.seconds() - self.started)
        self.leafs.clients.notify(LeafRefused(self.number, self.peer.host, error.reason))
        self.close(error)

    def _problem(self) -> tuple[Any, ...] | None:
        connect = self._connect
        if connect.lang:
            return (errors.WRONG_LEAF_PORT,)
        if " " in connect.cluster:
            return (errors.CLUSTER_BLANKS,)
        if connect.cluster and connect.cluster == self.leafs.cluster():
            return (errors.SAME_CLUSTER,)
        if connect.gateway:
            return (errors.GATEWAY_ON_LEAF, connect.gateway)
        least = _numbers(self.leafs.block.min_version)
        if _numbers(connect.version) < least:
            return (errors.LEAF_TOO_OLD, ".".join(map(str, least)))
        return None

    def _permissions(self, grant: Grant) -> bytes:
        return infoLine(
            self.leafs.document(
                client_id=self.number,
                connect_info=True,
                remote_account=grant.account,
                **permissionsOf(grant),
            )
        )

    def _rulesFor(self, grant: Grant) -> Any:
        refused = [encoded(subject) for subject in self._connect.deny_pub]
        refused += self.leafs.denialsFor(grant.account, self._connect.domain)
        try:
            return hubRules(grant, refused)
        except ValueError as error:
            _log.error("{link} - {why}", link=str(self), why=logText(str(error)))
            return spokeRules({"allow": ()}, {"allow": ()})

    def _informed(self, document: ServerDocument) -> None:
        """Let the peer choose the compression before CONNECT. The rest of its INFO is ignored."""
        if self._options is None and self._select(document.compression):
            self._isMet = True
            self.decoder.dialect = FROM_LEAF
            if self.compression.isOn:
                self._switch()
                self.greet()

    def reauthorize(self) -> None:
        if self.grant is not None and not self.reason and self._login is None:
            self._ask(self._letStay)

    def _letStay(self, grant: Grant | None) -> None:
        before, traffic = self.grant, self.traffic
        if grant is None:
            self.close(self._denial)
        elif before is None or traffic is None:
            return
        elif grant.account != before.account:
            self.close(errors.AUTH_GONE)
        elif grant != before or grant.expires != before.expires:
            self.grant = traffic.target.grant = grant
            self.limitPayload(grant)
            self.say(self._permissions(grant))
            traffic.permit(self._rulesFor(grant))
            self._watchExpiry(grant)

    @property
    def _denial(self) -> errors.WireError:
        return errors.AUTHORIZATION if self._login is None else self._login.denial

    def _watchExpiry(self, grant: Grant) -> None:
        self._stopExpiry()
        if grant.expires is not None:
            reactor: Any = self.context.reactor
            left = max(grant.expires - reactor.seconds(), 0.0)
            self._expiry = reactor.callLater(min(left, _DAY), self._expired)

    def _expired(self) -> None:
        self._expiry = None
        grant = self.grant
        if grant is None or grant.expires is None:
            return
        if grant.expires > self.context.reactor.seconds():
            self._watchExpiry(grant)
        else:
            self._inBatch(lambda: self.close(errors.AUTH_EXPIRED))

    def _stopExpiry(self) -> None:
        timer, self._expiry = self._expiry, None
        if timer is not None:
            timer.cancel()

    def failed(self, text: bytes) -> None:
        """Close on a loop; otherwise the peer decides when to connect again."""
        if b"Loop detected" in text:
            self.close(errors.PEER_ERROR)

    def ended(self) -> None:
        self._stopExpiry()
        login, self._login = self._login, None
        if login is not None:
            login.cancel()
        super().ended()


def _numbers(version: str) -> tuple[int, int, int]:
    match = _VERSION.match(version)
    if match is None:
        return 0, 0, 0
    return int(match[1]), int(match[2]), int(match[3])
