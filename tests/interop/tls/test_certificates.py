"""
The uses of client certificates, compared with nats-server.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.interop.servers import OURS_FAST, REAL, Flavour, Server
from tests.interop.tls.authority import Issued, authority, issue, lookalike
from tests.interop.tls.conftest import BLOCK, VERIFY, Serve, writeFiles
from tests.interop.tls.pins import pinOf
from tests.interop.tls.wire import CONNECT, Wire, contextFor, isAccepted, shakeHands

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class TestVerify:
    """Listeners that require a client certificate."""

    CONFIG = BLOCK % VERIFY

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(
        ("shown", "taken"), [("client", True), ("", False), ("stranger", False)]
    )
    def test_shown(
        self, serve: Serve, files: Path, version: ssl.TLSVersion, shown: str, taken: bool
    ) -> None:
        """
        A client with a certificate of the authority is accepted. A client without one, or with one
        of another authority, is refused.
        """
        context = contextFor(files, shown, (version, version))
        assert isAccepted(serve(self.CONFIG).port, context) is taken

    @pytest.mark.parametrize(
        "how", ["expired", "not yet", "self-signed", "for servers", "lookalike", "below nobody"]
    )
    def test_bad(self, serve: Serve, tmp_path: Path, how: str) -> None:
        """
        A client's certificate is refused if it has expired, is self-signed, is not for clients, or
        has only the authority's name.
        """
        ours = authority()
        ours.write(tmp_path, "ca")
        issue(ours, names=["localhost"]).write(tmp_path, "server")
        between = authority("CN=between", ours)
        made = {
            "expired": lambda: issue(ours, "CN=c", days=(-9, -1)),
            "not yet": lambda: issue(ours, "CN=c", days=(1, 9)),
            "self-signed": lambda: issue(None, "CN=c"),
            "for servers": lambda: issue(ours, "CN=c", usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
            "lookalike": lambda: issue(lookalike(ours), "CN=c"),
            "below nobody": lambda: issue(between, "CN=c"),
        }[how]()
        made.write(tmp_path, "client")
        issue(between, "CN=c").write(tmp_path, "good", between)
        port = serve(self.CONFIG.replace("$DIR", str(tmp_path))).port
        assert isAccepted(port, contextFor(tmp_path, "good"))
        assert not isAccepted(port, contextFor(tmp_path, "client"))

    @pytest.mark.parametrize("version", VERSIONS)
    def test_noResumption(self, serve: Serve, files: Path, version: ssl.TLSVersion) -> None:
        """
        A session of a server without client certificates cannot be resumed at a server that
        requires them. A session with a certificate does not accept a client without one
        (CVE-2025-68121).
        """
        lax, strict = serve(BLOCK % ""), serve(self.CONFIG)
        context = contextFor(files, "", (version, version))
        with shakeHands(lax.port, context) as wire:
            assert wire.ask(CONNECT % b"") == b"PONG\r\n"
            assert isinstance(wire.socket, ssl.SSLSocket)
            session = wire.socket.session
        with Wire(strict.port) as wire:
            wire.info()
            try:
                wire.socket = context.wrap_socket(
                    wire.socket, server_hostname="localhost", session=session
                )
            except OSError:
                return
            assert not wire.socket.session_reused
            assert wire.ask(CONNECT % b"") == b""


class TestPinned:
    """Listeners with pinned keys."""

    def test_keys(self, serve: Serve, files: Path) -> None:
        """
        A certificate with the pinned key is accepted, and another one of the same authority is
        refused.
        """
        pin = pinOf(files / "client.pem")
        port = serve(BLOCK % f'{VERIFY} pinned_certs: ["{pin.upper()}"]').port
        assert isAccepted(port, contextFor(files, "client"))
        assert not isAccepted(port, contextFor(files, "second"))

    def test_withoutVerifying(self, serve: Serve, files: Path) -> None:
        """
        With pinned keys, a client without a certificate is refused even if the server does not
        verify certificates.
        """
        port = serve(BLOCK % f'pinned_certs: ["{pinOf(files / "client.pem")}"]').port
        assert not isAccepted(port, contextFor(files))
        assert not isAccepted(port, contextFor(files, "client"))


#: An attribute that Go does not print, and one whose value ends early in C.
EMAIL = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "{n}"),
        x509.NameAttribute(NameOID.COMMON_NAME, "bob"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "bob@{n}"),
    ]
)
LONG = ",".join(f"OU={'x' * 60}{place}" for place in range(40))


@dataclass(frozen=True)
class Naming:
    """
    A client with a certificate, and the users, one of which it may name. C{{n}} distinguishes rows.

    @ivar subject: the distinguished name in the certificate.
    """

    users: tuple[str, ...]
    subject: str | x509.Name = "CN=bob,O={n}"
    emails: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def certificate(self, signer: Issued, number: str) -> Issued:
        """
        @return: the certificate.
        """
        return issue(
            signer,
            self._subject(number),
            emails=[email.replace("{n}", number) for email in self.emails],
            names=[name.replace("{n}", number) for name in self.names],
            urls=[url.replace("{n}", number) for url in self.urls],
        )

    def _subject(self, number: str) -> x509.Name:
        if isinstance(self.subject, str):
            return x509.Name.from_rfc4514_string(self.subject.replace("{n}", number))
        return x509.Name(
            [x509.NameAttribute(a.oid, str(a.value).replace("{n}", number)) for a in self.subject]
        )


EVERY: dict[str, Any] = {
    "emails": ("a@{n}", "b@{n}"),
    "names": ("x.{n}", "y.{n}"),
    "urls": ("u://{n}/a",),
}

NAMINGS = [
    # The order of the kinds of names.
    Naming(("CN=bob,O={n}", "u://{n}/a", "y.{n}", "x.{n}", "b@{n}", "a@{n}"), **EVERY),
    Naming(("CN=bob,O={n}", "u://{n}/a", "y.{n}", "x.{n}", "b@{n}"), **EVERY),
    Naming(("CN=bob,O={n}", "u://{n}/a", "y.{n}", "x.{n}"), **EVERY),
    Naming(("CN=bob,O={n}", "u://{n}/a", "y.{n}"), **EVERY),
    Naming(("CN=bob,O={n}", "u://{n}/a"), **EVERY),
    Naming(("CN=bob,O={n}",), **EVERY),
    Naming(("bob",), **EVERY),
    Naming(("*.{n}",), names=("*.{n}",)),
    Naming(("a.{n}",), names=("*.{n}",)),
    Naming(("A@{n}",), emails=("a@{n}",)),
    # Distinguished names.
    Naming(("CN=bob,O={n}", "O={n},CN=bob")),
    Naming(("O={n},CN=bob",)),
    Naming(("CN=bob,OU=x,O={n}",)),
    Naming(("CN=bob,O={n}",), "CN=bob,OU=x,OU=y,O={n}"),
    Naming(("OU=y,CN=bob,O={n},OU=x",), "CN=bob,OU=x,OU=y,O={n}"),
    Naming(("CN=bob+UID=7,O={n}",), "CN=bob+UID=7,O={n}"),
    Naming(("O={n},CN=bob+UID=7",), "CN=bob+UID=7,O={n}"),
    Naming(("CN=bob,UID=7,O={n}",), "CN=bob+UID=7,O={n}"),
    Naming(("UID=7,CN=bob,O={n}",), "CN=bob,UID=7,O={n}"),
    Naming(("CN=bob,CN=bob,O={n}",)),
    Naming(("CN=bob,O={n}",), "CN=bob,CN=bob,O={n}"),
    Naming(("CN=bob,CN=bob,O={n}",), "CN=bob,CN=bob,O={n}"),
    Naming(("CN=bob,O={n},O={n}",), "CN=bob,CN=bob,O={n}"),
    Naming(("CN=bob,O={n},DC=example,DC=com",), "CN=bob,O={n},DC=example,DC=com"),
    Naming(("CN=bob,O={n},DC=com,DC=example",), "CN=bob,O={n},DC=example,DC=com"),
    Naming(("CN=bob,O={n}",), "CN=bob,O={n},DC=example,DC=com"),
    Naming(("CN=bob,O={n}", "CN=bob,O={n},DC=com,DC=example"), "CN=bob,O={n},DC=example,DC=com"),
    Naming(("CN=bob,OU=b+OU=a,O={n},C=CH",), "C=CH,O={n},OU=b+OU=a,CN=bob"),
    Naming(("CN=bob,O={n}",), "CN=bob\\00evil,O={n}"),
    Naming(("CN=bob",), "CN=bob\\00,O={n}"),
    Naming(("CN=bob\\,jr,O={n}",), "CN=bob\\,jr,O={n}"),
    Naming(("CN=b\\6fb,O={n}",)),
    Naming(("CN=Bob,O={n}",)),
    Naming(("CN=bob, O={n}",)),
    Naming(("CN=b\xf6b,O={n}",), "CN=b\xf6b,O={n}"),
    Naming((f"CN=bob,O={{n}},{LONG}",), f"CN=bob,O={{n}},{LONG}"),
    Naming((f"CN=bob,O={{n}},{LONG}",), f"CN=bob,O={{n}},{LONG},OU=y"),
    Naming(("CN=bob,O={n}",), EMAIL),
    Naming(("CN=,O={n}",), "O={n}"),
    Naming(("=",), "O={n}"),
]


class Mapping:
    """Two servers that have the users of all rows, and the certificates."""

    def __init__(self, place: Path) -> None:
        self.place = place
        ours = authority()
        ours.write(place, "ca")
        issue(ours, names=["localhost"]).write(place, "server")
        self.users: dict[str, int] = {}
        for row, naming in enumerate(NAMINGS):
            naming.certificate(ours, f"n{row}").write(place, f"n{row}")
            for user in naming.users:
                self.users.setdefault(user.replace("{n}", f"n{row}"), len(self.users))
        text = (
            BLOCK % 'ca_file: "$DIR/ca.pem", verify_and_map: true' + "authorization { users = [\n"
        )
        for user, number in self.users.items():
            text += f"{{ user: {json.dumps(user, ensure_ascii=False)}, "
            text += f"permissions: {{ publish: [u.{number}] }} }}\n"
        self.config = (text + "] }\nallow_non_tls: true\n").replace("$DIR", str(place))
        self.servers = {kind.name: self._start(kind) for kind in (REAL, OURS_FAST)}

    def _start(self, flavour: Flavour) -> Server:
        place = self.place / flavour.name
        place.mkdir()
        return Server(flavour, place, self.config).start()

    def userOf(self, flavour: Flavour, row: int) -> list[str]:
        """
        @return: the user of the login; empty if it is refused.
        """
        context = contextFor(self.place, f"n{row}")
        asked = b"".join(b"PUB u.%d 0\r\n\r\n" % number for number in self.users.values())
        with shakeHands(self.servers[flavour.name].port, context) as wire:
            answer = wire.ask(CONNECT % b"" + asked)
        if not answer.endswith(b"PONG\r\n"):
            assert answer == b"-ERR 'Authorization Violation'\r\n"
            return []
        return [user for user, number in self.users.items() if b'"u.%d"' % number not in answer]


@pytest.fixture(scope="module")
def mapping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping]:
    made = Mapping(tmp_path_factory.mktemp("mapping"))
    yield made
    for server in made.servers.values():
        server.stop()


class TestMapped:
    """The certificate names the user (C{verify_and_map})."""

    @pytest.mark.parametrize("row", range(len(NAMINGS)))
    def test_same(self, mapping: Mapping, row: int) -> None:
        """Both servers find the same user for a certificate, or none (CVE-2026-33248)."""
        theirs, ours = (mapping.userOf(flavour, row) for flavour in (REAL, OURS_FAST))
        assert len(theirs) <= 1
        assert ours == theirs

    def test_rowsTellTheRulesApart(self, mapping: Mapping) -> None:
        """There are enough rows with a user and enough without."""
        matches = [bool(mapping.userOf(OURS_FAST, row)) for row in range(len(NAMINGS))]
        assert matches.count(True) > 10 and matches.count(False) > 10

    @pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
    @pytest.mark.parametrize("password", [b"", b',"pass":""', b',"pass":"x"'])
    def test_byName(self, mapping: Mapping, flavour: Flavour, password: bytes) -> None:
        """
        A user without a password that certificates name cannot log in in clear text with its name
        and an empty password.
        """
        with Wire(mapping.servers[flavour.name].port) as wire:
            wire.info()
            wire.send(CONNECT % (b',"user":"CN=bob,O=n10"' + password))
            assert wire.rest() == b"-ERR 'Authorization Violation'\r\n"

    @pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
    def test_otherName(self, mapping: Mapping, flavour: Flavour) -> None:
        """The name in CONNECT does not replace the user of the certificate."""
        context = contextFor(mapping.place, "n10")
        target = mapping.users["CN=bob,OU=x,O=n12"]
        with shakeHands(mapping.servers[flavour.name].port, context) as wire:
            said = CONNECT % b',"user":"CN=bob,OU=x,O=n12"' + b"PUB u.%d 0\r\n\r\n" % target
            assert b"Permissions Violation" in wire.ask(said)


def test_files(tmp_path: Path) -> None:
    """The client certificates of the tests have different keys."""
    writeFiles(tmp_path)
    names = ("client", "second", "stranger", "server")
    assert len({pinOf(tmp_path / f"{name}.pem") for name in names}) == 4
