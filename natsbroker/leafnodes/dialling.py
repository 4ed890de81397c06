"""
A leafnode connection that we dialled: INFO, TLS, compression and CONNECT. CONNECT is sent only to a
leafnode port, and in the clear only if neither side asks for TLS. The peer's permissions hold here
too.
"""

from __future__ import annotations

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.config.addresses import RemoteURL
from natsbroker.errors import logText
from natsbroker.leafnodes.registry import LeafLink, LeafPeer, LeafRegistry
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.leafnodes.rules import LeafRules, encoded, spokeRules
from natsbroker.links.identity import NOBODY
from natsbroker.wire import ops
from natsbroker.wire.connect import infoLine
from natsbroker.wire.grants import Grant
from natsbroker.wire.serverinfo import ServerDocument, connectLine, parseDocument
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

#: Seconds for the peer to answer CONNECT.
_ANSWER = 2.0

#: Seconds before the peer is dialled again, by the text of its error.
_PAUSES = {
    b"Loop detected": 30.0,
    b"remote leafnode has same cluster name": 30.0,
    b"connection rejected since minimum version required is": 5.0,
    b"Permissions Violation": 30.0,
}


class DialledLeaf(LeafLink):
    target: LeafRemote

    def __init__(self, leafs: LeafRegistry, target: LeafRemote, peer: LeafPeer) -> None:
        kind = Kind.SPOKE if target.settings.hub else Kind.HUB
        super().__init__(leafs, peer, kind, target.settings.compression)
        self.target = target
        self.isQuiet = self.measures = True
        self._isSwitching = False
        self._document: ServerDocument | None = None
        self._rules: LeafRules | None = None
        self.isIsolated = self.isIsolated or target.settings.isolate
        self.handlers[ops.INFO] = self.parsing(parseDocument, self._informed)

    @property
    def timeoutError(self) -> errors.WireError:
        isSilent = self._document is None or self._isSwitching
        return errors.LEAF_SILENT if isSilent else errors.LEAF_STALE

    def greet(self) -> None:
        self.expect(self.target.settings.first_info_timeout)

    def _informed(self, document: ServerDocument) -> None:
        if self._document is None:
            self._introduced(document)
        elif self._isSwitching:
            self._isSwitching = False
            self._document = document
            self._connect()
        else:
            self._toldMore(document)

    def _introduced(self, document: ServerDocument) -> None:
        if not document.client_id or "leafnode_urls" not in document.raw:
            _log.error(
                "{link} - Attempted to connect to wrong port: no leafnodes there", link=str(self)
            )
            self.close(errors.NO_LEAF_PORT)
            return
        if " " in document.cluster:
            self.close(errors.CLUSTER_BLANKS)
            return
        self._document = document
        self.protocol = document.proto
        self.name = document.server_name or document.server_id
        self.cluster = document.cluster
        self._learn(document)
        tls = self.target.tls
        if self.peer.isSecured or self.isOverWebSocket:
            self._agreeOnCompression()
        elif not (document.tls_required or (tls and tls.isRequired)):
            self.peer.stayPlain()
            self._agreeOnCompression()
        elif self.decoder.pending:
            _log.error("{link} - input in the clear after INFO", link=str(self))
            self.close(errors.TLS_HANDSHAKE, abort=True)
        else:
            self.peer.startTLS()

    def secured(self) -> None:
        if self._document is not None:
            self._inBatch(self._agreeOnCompression)

    def _agreeOnCompression(self) -> None:
        """Send CONNECT; with S2, only after the peer has sent its INFO compressed."""
        document = self._document
        if document is None or not self._select(document.compression):
            return
        if not self.compression.isOn:
            self._connect()
            return
        mode, number = self.compression.mode, document.client_id
        # This INFO, with which a spoke chooses the compression, names no server.
        self.outbox.write(infoLine({**NOBODY, "client_id": number, "compression": mode}))
        self._isSwitching = True
        self._switch()
        self.expect(self.target.settings.first_info_timeout)

    def _connect(self) -> None:
        document, leafs, target = self._document, self.leafs, self.target
        if document is None:
            return
        self.isQuiet = False
        options = leafs.connectOptions(target.settings, target.login(), self.compression.level)
        try:
            options.update(target.credentials(document.nonce))
        except ValueError as error:
            _log.error("{link} - {why}", link=str(self), why=str(error))
            self.close(errors.INTERNAL)
            return
        self.expect(_ANSWER)
        self.outbox.write(connectLine(options))
        if not document.info_on_connect:
            self._finish(document)

    def _toldMore(self, document: ServerDocument) -> None:
        self._learn(document)
        if document.remote_account:
            self.remoteAccount = document.remote_account
        if self.traffic is None:
            if document.connect_info:
                self._finish(document)
        elif document.permitImport is not None or document.permitExport is not None:
            self._permit(document)

    def _finish(self, document: ServerDocument) -> None:
        said = self._document
        if self.traffic is not None or said is None or not self._permit(document):
            return
        bus = self.admit(Grant(self.target.settings.localAccount))
        rules = self._rules
        if bus is not None and rules is not None:
            self.leafs.established(self)
            self.begin(bus, rules, said.headers)

    def _permit(self, document: ServerDocument) -> bool:
        settings, said = self.target.settings, self._document or document
        denied = self.leafs.denialsFor(settings.localAccount, said.domain)
        try:
            rules = spokeRules(
                document.permitImport,
                document.permitExport,
                (*map(encoded, settings.deny_imports), *denied),
                (*map(encoded, settings.deny_exports), *denied),
            )
        except ValueError as error:
            _log.error("{link} - {why}", link=str(self), why=logText(str(error)))
            self.close(errors.BAD_ARGUMENTS)
            return False
        self._rules = rules
        if self.traffic is not None:
            self.traffic.permit(rules)
        return True

    def _learn(self, document: ServerDocument) -> None:
        heard = document.leafnode_urls
        isTLS = False
        if self.isOverWebSocket:
            heard, isTLS = document.ws_connect_urls, self.peer.isSecured
        if self.target.settings.ignore_discovered_servers or not heard:
            return
        urls: list[RemoteURL] = []
        for text in heard:
            host, _, port = text.rpartition(":")
            if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
                place = host.strip("[]"), int(port)
                framed = self.isOverWebSocket
                urls.append(RemoteURL(*place, isTLS=isTLS, isWebSocket=framed))
            else:
                _log.error('Error parsing url "{url}"', url=logText(text))
        self.target.learn(urls)

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        if error is errors.LEAF_LOOP and not self.reason:
            self.target.delay = _PAUSES[b"Loop detected"]
        super().close(error, *arguments, abort=abort)

    def failed(self, text: bytes) -> None:
        for known, pause in _PAUSES.items():
            if known in text:
                self.target.delay = pause
                _log.error(
                    "{link} - Delaying attempt to reconnect for {pause:.0f}s",
                    link=str(self),
                    pause=pause,
                )
        if b"Loop detected" in text:
            super().close(errors.PEER_ERROR)
