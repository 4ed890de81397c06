"""
What the settings say of leafnodes, as the network layer wants it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import Settings
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.errors import Unauthorized
from natsbroker.leafnodes.settings import Leafnodes
from natsbroker.leafnodes.settingsmapper import (
    acceptingTLSFrom,
    authorizerFrom,
    diallingTLSFrom,
    identityFrom,
    limitsFrom,
)
from natsbroker.wire.grants import ConnectRequest
from tests.interop.certificates import writeCertificates
from tests.leafnodes.keys import KEY
from tests.server.support import settingsOf

TEXT = """
    server_name: n1, max_payload: 5, ping_interval: "10s", max_pending: 1000, max_subscriptions: 9
    accounts { A { limits { max_payload: 3 } }, B {} }
    leafnodes {
        listen: "127.0.0.1:7422"
        %s
    }
"""


def settings(text: str = "") -> tuple[Settings, Leafnodes]:
    """Settings, and their block."""
    made = settingsOf(TEXT % text)
    assert made.leafnodes is not None
    return made, made.leafnodes


class TestPlace:
    """Limits and address of the broker."""

    def test_limits(self) -> None:
        """Those of clients, where leafnodes have none."""
        limits = limitsFrom(*settings('write_deadline: "3s", authorization { timeout: 7 }'))
        assert (limits.ping_interval, limits.max_pending, limits.max_payload) == (10.0, 1000, 5)
        assert (limits.write_deadline, limits.handshake) == (3.0, 7.0)

    def test_identity(self) -> None:
        """Where we listen, or what is advertised."""
        assert identityFrom(*settings(), "ID", 99).ip == "127.0.0.1:99"
        assert identityFrom(*settings("advertise: 'h:5'"), "ID", 99).ip == "h:5"
        assert identityFrom(Settings(), Leafnodes(), "ID", 0).ip == ""
        anywhere = identityFrom(Settings(), Leafnodes(), "ID", 7).ip
        assert anywhere.endswith(":7") and not anywhere.startswith("0.0.0.0")


class TestAuthorizer:
    """Who is let in."""

    def grant(self, text: str, **options: str) -> Any:
        """What somebody may do."""
        made, block = settings(text)
        checks = PasswordChecks(lambda *_: None, None)  # type: ignore[arg-type]
        authorizer = authorizerFrom(made, block, checks)
        assert authorizer is not None
        return authorizer.grantFor(ConnectRequest(options=options))

    def test_clients(self) -> None:
        """Without users of their own, leafnodes are let in as clients are."""
        checks = PasswordChecks(lambda *_: None, None)  # type: ignore[arg-type]
        assert authorizerFrom(*settings(), checks) is None

    def test_single(self) -> None:
        """The only user comes to its account."""
        text = "authorization { user: u, pass: p, account: A }"
        grant = self.grant(text, **{"user": "u", "pass": "p"})
        assert (grant.account, grant.user, grant.maxPayload) == ("A", "u", 3)
        with pytest.raises(Unauthorized):
            self.grant(text, **{"user": "u", "pass": "x"})

    def test_users(self) -> None:
        """Each user has an account."""
        text = "authorization { users: [ {user: u, pass: p, account: B}, {user: v, pass: q} ] }"
        assert self.grant(text, **{"user": "u", "pass": "p"}).account == "B"
        assert self.grant(text, **{"user": "v", "pass": "q"}).account == "$G"
        with pytest.raises(Unauthorized):
            self.grant(text, user="w")

    def test_key(self) -> None:
        """The owner of the key must sign."""
        with pytest.raises(Unauthorized):
            self.grant(f"authorization {{ nkey: {KEY}, account: A }}", nkey=KEY)

    def test_open(self) -> None:
        """Where nobody must say who it is, leafnodes may have an account all the same."""
        assert self.grant("authorization { account: B }").account == "B"


@pytest.mark.parametrize(
    "text, isRequired",
    [("url: 'nats://h'", False), ("url: 'tls://h'", True), ("url: h, tls {}", True)],
)
def test_diallingTLS(text: str, isRequired: bool) -> None:
    """TLS is done if either side asks for it."""
    _, block = settings(f"remotes: [ {{ {text} }} ]")
    tls = diallingTLSFrom(block.remotes[0])
    assert tls.isRequired is isRequired and not tls.settings.handshake_first


class TestAcceptingTLS:
    """TLS with those who dial us."""

    def test_none(self) -> None:
        """Without a block there is none."""
        assert acceptingTLSFrom(settings()[1]) is None

    def test_files(self, tmp_path: Path) -> None:
        """The certificate is read, and a wrong file named."""
        writeCertificates(tmp_path)
        certificate, key = tmp_path / "server.pem", tmp_path / "server-key.pem"
        text = f"tls {{ cert_file: '{certificate}', key_file: '{key}', first: '9ms' }}"
        _, block = settings(text)
        tls = acceptingTLSFrom(block)
        assert tls is not None and tls.settings == block.tls
        key.write_text("x")
        with pytest.raises(TLSSettingsError, match="key_file"):
            acceptingTLSFrom(block)
