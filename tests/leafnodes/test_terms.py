"""
The terms of leafnodes, made from the settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import JetStream, Settings, TLSSettings
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.errors import Unauthorized
from natsbroker.leafnodes.terms import (
    acceptingTLSFrom,
    authorizerFrom,
    connectOptions,
    diallingTLSFrom,
    identityFrom,
    infoDocument,
    leafSettings,
)
from natsbroker.links.identity import LinkIdentity
from natsbroker.wire.grants import ConnectRequest
from tests.interop.certificates import writeCertificates
from tests.leafnodes.keys import KEY
from tests.server.support import settingsOf

IDENTITY = LinkIdentity("ID", "n", "h", 7422, "h:7422")


def test_info() -> None:
    """INFO has the address for leafnodes, and whether TLS and a login are required."""
    settings = Settings(leafnodes=Leafnodes(tls=TLSSettings()))
    said = infoDocument(IDENTITY, settings, "C1", client_id=4)
    assert (said["cluster"], said["client_id"], said["ip"]) == ("C1", 4, "h:7422")
    assert said["tls_required"] and not said["tls_verify"] and said["auth_required"]
    assert said["headers"] and said["max_payload"] == Settings().max_payload


def test_connect() -> None:
    """CONNECT has the login, the account and the options of the remote."""
    url = RemoteURL("h", 1, "u", "p")
    remote = RemoteLeaf(("h:1",), hub=True, deny_imports=("x",), request_isolation=True)
    said = connectOptions(IDENTITY, Settings(), "C1", remote, url, "off")
    assert (said["user"], said["pass"], said["auth_token"]) == ("u", "p", "")
    assert said["is_hub"] and said["deny_pub"] == ["x"] and said["isolate"]
    assert (said["remote_account"], said["compress_mode"]) == ("$G", "off")


def test_domain() -> None:
    """INFO and CONNECT have the JetStream domain, if there is one."""
    settings = Settings(jetstream=JetStream(domain="hub"))
    remote, url = RemoteLeaf(("h:1",)), RemoteURL("h", 1)
    assert infoDocument(IDENTITY, settings, "C1")["domain"] == "hub"
    assert connectOptions(IDENTITY, settings, "C1", remote, url, "")["domain"] == "hub"
    assert not infoDocument(IDENTITY, Settings(), "C1")["domain"]


TEXT = """
    server_name: n1, max_payload: 5, ping_interval: "10s", max_pending: 1000, max_subscriptions: 9
    accounts { A { limits { max_payload: 3 } }, B {} }
    leafnodes {
        listen: "127.0.0.1:7422"
        %s
    }
"""


def settings(text: str = "") -> tuple[Settings, Leafnodes]:
    """Settings, and their leafnodes block."""
    made = settingsOf(TEXT % text)
    assert made.leafnodes is not None
    return made, made.leafnodes


class TestPlace:
    """The limits and the address of the broker."""

    def test_limits(self) -> None:
        """The limits of clients apply unless the leafnodes block has its own."""
        limits = leafSettings(*settings('write_deadline: "3s", authorization { timeout: 7 }'))
        assert (limits.ping_interval, limits.max_pending, limits.max_payload) == (10.0, 1000, 5)
        assert (limits.write_deadline, limits.authorization.timeout) == (3.0, 7.0)

    def test_identity(self) -> None:
        """The identity has the address of the listener, or the advertised one."""
        assert identityFrom(*settings(), "ID", 99).ip == "127.0.0.1:99"
        assert identityFrom(*settings("advertise: 'h:5'"), "ID", 99).ip == "h:5"
        assert identityFrom(Settings(), Leafnodes(), "ID", 0).ip == ""
        anywhere = identityFrom(Settings(), Leafnodes(), "ID", 7).ip
        assert anywhere.endswith(":7") and not anywhere.startswith("0.0.0.0")


class TestAuthorizer:
    """The logins of leafnodes."""

    def grant(self, text: str, **options: str) -> Any:
        """The grant of a leafnode."""
        made, block = settings(text)
        checks = PasswordChecks(lambda *_: None, None)  # type: ignore[arg-type]
        authorizer = authorizerFrom(made, block, checks)
        assert authorizer is not None
        return authorizer.grantFor(ConnectRequest(options=options))

    def test_clients(self) -> None:
        """Without users in the block, leafnodes use the users of clients."""
        checks = PasswordChecks(lambda *_: None, None)  # type: ignore[arg-type]
        assert authorizerFrom(*settings(), checks) is None

    def test_singleUser(self) -> None:
        """The single user of a block belongs to the block's account."""
        text = "authorization { user: u, pass: p, account: A }"
        grant = self.grant(text, **{"user": "u", "pass": "p"})
        assert (grant.account, grant.user, grant.maxPayload) == ("A", "u", 3)
        with pytest.raises(Unauthorized):
            self.grant(text, **{"user": "u", "pass": "x"})

    def test_users(self) -> None:
        """Each user of a block belongs to its own account."""
        text = "authorization { users: [ {user: u, pass: p, account: B}, {user: v, pass: q} ] }"
        assert self.grant(text, **{"user": "u", "pass": "p"}).account == "B"
        assert self.grant(text, **{"user": "v", "pass": "q"}).account == "$G"
        with pytest.raises(Unauthorized):
            self.grant(text, user="w")

    def test_key(self) -> None:
        """A user with an nkey must sign the nonce."""
        with pytest.raises(Unauthorized):
            self.grant(f"authorization {{ nkey: {KEY}, account: A }}", nkey=KEY)

    def test_noLogin(self) -> None:
        """A block without users may still name an account."""
        assert self.grant("authorization { account: B }").account == "B"


@pytest.mark.parametrize(
    "text, isRequired",
    [("url: 'nats://h'", False), ("url: 'tls://h'", True), ("url: h, tls {}", True)],
)
def test_diallingTLS(text: str, isRequired: bool) -> None:
    """A remote is dialled with TLS if either side requires it."""
    _, block = settings(f"remotes: [ {{ {text} }} ]")
    tls = diallingTLSFrom(block.remotes[0])
    assert tls.isRequired is isRequired and not tls.settings.handshake_first


class TestAcceptingTLS:
    """TLS with leafnodes that dial us."""

    def test_noTLSBlock(self) -> None:
        """There is no TLS without a TLS block."""
        assert acceptingTLSFrom(settings()[1]) is None

    def test_files(self, tmp_path: Path) -> None:
        """The certificate is read, and a missing file is named in the error."""
        writeCertificates(tmp_path)
        certificate, key = tmp_path / "server.pem", tmp_path / "server-key.pem"
        text = f"tls {{ cert_file: '{certificate}', key_file: '{key}', first: '9ms' }}"
        _, block = settings(text)
        tls = acceptingTLSFrom(block)
        assert tls is not None and tls.settings == block.tls
        key.write_text("x")
        with pytest.raises(TLSSettingsError, match="key_file"):
            acceptingTLSFrom(block)
