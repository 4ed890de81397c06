"""
What the settings say of leafnodes, as the network layer wants it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nacl.signing import VerifyKey

from natsbroker.auth.nkeys import decodeSignature
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import Settings
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.errors import Unauthorized
from natsbroker.leafnodes.settings import Leafnodes
from natsbroker.leafnodes.settingsmapper import (
    acceptingTLSFrom,
    authorizerFrom,
    identityFrom,
    limitsFrom,
    remoteFrom,
    termsFrom,
)
from natsbroker.leafnodes.terms import LeafURL
from natsbroker.links.compression import Compression
from natsbroker.wire.grants import ConnectRequest
from natsbroker.wire.nkeys import Role, decodeKey
from tests.interop.certificates import writeCertificates
from tests.leafnodes.keys import KEY, SEED
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


class TestTerms:
    """How the broker takes part."""

    def test_terms(self) -> None:
        """Limits and what is asked of others."""
        terms = termsFrom(*settings("min_version: v2.9.1, isolate: true"))
        assert (terms.minVersion, terms.isIsolated, terms.maxPayload) == ((2, 9, 1), True, 5)
        assert terms.headers and not terms.hasTLS and terms.handshake == 2.0

    def test_compression(self) -> None:
        """The block's is for those who connect, a remote's for its connection."""
        made = settings("compression: best, remotes: [ {url: h, compression: off}, {url: i} ]")
        assert termsFrom(*made).compression == Compression("s2_best")
        remotes = [remoteFrom(each, made[1]).compression for each in made[1].remotes]
        assert remotes == [Compression("off"), Compression("s2_auto", (0.01, 0.05, 0.1))]

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


class TestRemotes:
    """Remotes that are dialled."""

    def remote(self, text: str) -> Any:
        """How somebody is dialled."""
        _, block = settings(f"remotes: [ {{ {text} }} ]")
        return remoteFrom(block.remotes[0], block)

    def test_remote(self) -> None:
        """Everything that the settings say."""
        terms = self.remote(
            "urls: ['nats://u:p@h:1', 'nats://t@i'], deny_imports: x, hub: true, no_randomize: true"
        )
        assert terms.urls == (LeafURL("h", 1, "u", "p"), LeafURL("i", 7422, "t", None))
        assert (terms.account, terms.isHub, terms.denyImports) == ("$G", True, (b"x",))
        assert not terms.isShuffled and terms.learns and terms.credentials("n") == {}

    @pytest.mark.parametrize(
        "text, isRequired",
        [("url: 'nats://h'", False), ("url: 'tls://h'", True), ("url: h, tls {}", True)],
    )
    def test_tls(self, text: str, isRequired: bool) -> None:
        """TLS is done if either side asks for it."""
        tls = self.remote(text).tls
        assert tls is not None and tls.isRequired is isRequired and not tls.isFirst

    def test_key(self) -> None:
        """A seed signs the nonce."""
        said = self.remote(f"url: h, nkey: {SEED}").credentials("nonce")
        key = VerifyKey(decodeKey(said["nkey"], Role.USER))
        assert key.verify(b"nonce", decodeSignature(said["sig"])) == b"nonce"

    def test_credentials(self, tmp_path: Path) -> None:
        """So does the seed in a file of credentials, which has a JWT, too."""
        path = tmp_path / "u.creds"
        path.write_text(
            "-----BEGIN NATS USER JWT-----\nJ.W.T\n------END NATS USER JWT------\n\nimportant\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
        )
        said = self.remote(f"url: h, creds: '{path}'").credentials("nonce")
        assert said["jwt"] == "J.W.T" and "nkey" not in said and said["sig"]

    @pytest.mark.parametrize(
        "text", [None, "nothing", "---a---\nx\n---b---\n---c---\ny\n---d---\n"]
    )
    def test_badCredentials(self, tmp_path: Path, text: str | None) -> None:
        """A file that is none is named, and nothing of it is said."""
        path = tmp_path / "u.creds"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ValueError, match=r"u\.creds"):
            self.remote(f"url: h, creds: '{path}'").credentials("nonce")


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
        assert tls is not None and tls.isFirst and tls.fallback == 0.009
        key.write_text("x")
        with pytest.raises(TLSSettingsError, match="key_file"):
            acceptingTLSFrom(block)
