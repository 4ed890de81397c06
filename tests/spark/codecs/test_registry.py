"""
A schema registry by HTTP.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.spark.codecs import registry
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.codecs.registry import RegistryAccess, SchemaRegistry
from natsbroker.spark.errors import ConnectionFailed, DataSourceError, OptionError
from tests.interop.certificates import writeCertificates
from tests.spark.registries import certified, registryServer


def test_askedOnce(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A schema, or its absence, is requested once while it is in the cache. The cache has a limited
    size.
    """
    monkeypatch.setattr(registry, "_MOST", 2)
    with registryServer() as server:
        for number in range(3):
            server.answers[f"/schemas/ids/{number}"] = {"schema": f"s{number}"}
        client = SchemaRegistry(RegistryAccess(server.url))
        for number in (0, 1, 1, 2, 0):
            assert client.schema(number).text == f"s{number}"
        for _ in range(2):
            with pytest.raises(BadPayload, match="there is no /schemas/ids/9"):
                client.schema(9)
        assert [path[-1] for path, _ in server.asked] == ["0", "1", "2", "0", "9"]


def test_retried(tmp_path: Path) -> None:
    """A failing request is repeated, with credentials, a limited number of times."""
    secret = tmp_path / "auth"
    secret.write_text("anna:pw\n")
    pauses: list[float] = []
    with registryServer() as server:
        access = RegistryAccess(server.url + "/", str(secret))
        client = SchemaRegistry(access, pauses.append)
        server.answers["/subjects/a%2Fb/versions/latest"] = {"id": 7, "schema": ""}
        server.failures = [500, 429]
        assert client.latest("a/b") == 7
        assert [header for _, header in server.asked] == ["Basic YW5uYTpwdw=="] * 3
        assert pauses == [0.5, 1.0]
        server.failures = [503] * 4
        with pytest.raises(ConnectionFailed, match="ids/1: 503"):
            client.schema(1)
        server.failures = [401]
        with pytest.raises(DataSourceError, match="401"):
            client.schema(1)
        server.answers["/schemas/ids/1"] = ["?"]
        with pytest.raises(DataSourceError, match="is malformed"):
            client.schema(1)
        with pytest.raises(OptionError, match="no subject b"):
            client.latest("b")
    with pytest.raises(ConnectionFailed, match="refused"):
        client.schema(2)


def test_tls(tmp_path: Path) -> None:
    """
    Over TLS, the registry must have a certificate of the given authority, and clients show theirs.
    """
    writeCertificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "client.pem", "client-key.pem"))
    both = tmp_path / "both.pem"
    both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
    with registryServer(certified(tmp_path)) as server:
        server.answers["/schemas/ids/1"] = {"schema": "s"}

        def asked(**files: str) -> str:
            access = RegistryAccess(server.url, **files)
            return SchemaRegistry(access, lambda pause: None).schema(1).text

        assert asked(ca=ca, cert=cert, key=key) == asked(ca=ca, cert=str(both)) == "s"
        assert len(server.asked) == 2
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            asked(cert=cert, key=key)
        # With TLS 1.3 what a client sees of the refusal depends on when it writes.
        with pytest.raises(ConnectionFailed, match="ids/1: "):
            asked(ca=ca)
        assert len(server.asked) == 2


def test_badAccess(tmp_path: Path) -> None:
    """A place that is no registry is refused, and no password is repeated."""
    for access, why in (
        (RegistryAccess("ftp://h"), "not a URL"),
        (RegistryAccess("http://u:secret@h"), "must not contain a password"),
        (RegistryAccess("http://h", str(tmp_path / "none")), "none: No such file"),
        (RegistryAccess("https://h", "", str(tmp_path / "ca")), "ca: No such file"),
        (RegistryAccess("https://h", key="k"), "a key needs its certificate"),
        (RegistryAccess("https://h", cert=__file__), "test_registry.py: .*PEM"),
        (RegistryAccess("https://h", cert="c", key="k"), "c with k: No such file"),
    ):
        with pytest.raises(OptionError, match=why) as caught:
            SchemaRegistry(access)
        assert "secret" not in str(caught.value)
