"""
Addresses of servers, and the files of TLS.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.spark.errors import OptionError
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from tests.interop.certificates import writeCertificates


class TestAddresses:
    """The addresses in C{servers}."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("nats://example.com", RemoteURL("example.com", 4222)),
            ("example.com:4333", RemoteURL("example.com", 4333)),
            ("tls://example.com:1", RemoteURL("example.com", 1, isTLS=True)),
            ("nats://[::1]:4333", RemoteURL("::1", 4333)),
            ("nats://anna:p%40ss@h", RemoteURL("h", 4222, "anna", "p@ss")),
            ("nats://s3cret@h:1", RemoteURL("h", 1, "s3cret")),
        ],
    )
    def test_reads(self, text: str, expected: RemoteURL) -> None:
        """An address is read, with the parts before its host."""
        assert readAddresses(text) == (expected,)

    def test_readsMany(self) -> None:
        """Addresses are separated by commas. Blanks and empty items are ignored."""
        assert [str(address) for address in readAddresses("a:1, nats://[::1],,b ")] == [
            "a:1",
            "[::1]:4222",
            "b:4222",
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "nats://s3cret@h:port",
            "http://s3cret@h",
            "nats://s3cret@h/x",
            "s3cret@h?x",
            "nats://s3cret@",
        ],
    )
    def test_refuses(self, text: str) -> None:
        """A text that is no address is refused, and a secret in it is not repeated."""
        with pytest.raises(OptionError, match="servers: not an address") as caught:
            readAddresses(text)
        assert "s3cret" not in str(caught.value)

    def test_refusesNone(self) -> None:
        """A list without addresses is refused."""
        with pytest.raises(OptionError, match="name at least one"):
            readAddresses(" , ")

    def test_refusesWebSockets(self) -> None:
        """A kind of address that is not supported is refused by its name."""
        with pytest.raises(OptionError, match="ws:// is not supported yet"):
            readAddresses("ws://h:8080")

    def test_hidesSecrets(self) -> None:
        """A representation shows no password and no token."""
        for text in ("nats://anna:s3cret@h", "nats://s3cret@h"):
            assert "s3cret" not in repr(ServerAccess(readAddresses(text)))

    def test_identity(self) -> None:
        """Credentials in an address are used if the options have none."""
        for text, user, password, token in (
            ("nats://anna:p@h", "anna", "p", ""),
            ("nats://s3cret@h", "", "", "s3cret"),
            ("h", "", "", ""),
        ):
            (address,) = readAddresses(text)
            identity = ServerAccess((address,)).identityAt(address)
            assert (identity.user, identity.password, identity.token) == (user, password, token)
            own = ServerAccess((address,), user="own")
            assert own.identityAt(address) is own


class TestTLS:
    """Files for TLS."""

    def test_context(self, tmp_path: Path) -> None:
        """The certificate and name of the server are verified, with TLS 1.2 or later."""
        writeCertificates(tmp_path)
        ca, cert, key = (str(tmp_path / f"{x}.pem") for x in ("ca", "client", "client-key"))
        context = ServerAccess((), tlsCa=ca, tlsCert=cert, tlsKey=key).context()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert len(context.get_ca_certs()) == 1

    @pytest.mark.parametrize(
        ("tls", "why"),
        [
            (ServerAccess((), tlsCa="/nowhere/ca.pem"), "tlsCa /nowhere/ca.pem: No such file"),
            (ServerAccess((), tlsCert="/nowhere/c.pem"), "tlsCert /nowhere/c.pem: No such file"),
        ],
    )
    def test_missingFile(self, tls: ServerAccess, why: str) -> None:
        """The option whose file cannot be used is named."""
        with pytest.raises(OptionError, match=why):
            tls.context()
