"""
The monitoring port with TLS, compared with nats-server: client certificates, versions, and reloads.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.conftest import BLOCK, VERIFY, writeFiles
from tests.interop.tls.reloads import reload
from tests.interop.tls.versions import OLD, V
from tests.interop.tls.wire import ANYTHING, contextFor

realAndOurs = pytest.mark.parametrize(
    "flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name
)


def looked(server: Server, context: ssl.SSLContext | None) -> str:
    """
    Read a page.

    @param context: C{None} for clear text.
    @return: the SHA-256 of the server's certificate, or the error instead.
    """
    where = ("localhost", server.monitorPort)
    asking: http.client.HTTPConnection = http.client.HTTPConnection(*where, timeout=PATIENCE)
    if context is not None:
        asking = http.client.HTTPSConnection(*where, timeout=PATIENCE, context=context)
    try:
        asking.request("GET", "/healthz")
        connection: Any = asking.sock
        shown = connection.getpeercert(True) if context is not None else b""
        answer = asking.getresponse()
        if answer.status != 200 or b'"ok"' not in answer.read():
            return str(answer.status)
    except (OSError, http.client.HTTPException):
        return "refused"
    finally:
        asking.close()
    return hashlib.sha256(shown or b"").hexdigest()


@realAndOurs
def test_versions(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """The versions and suites are those of the client port, and no page is served in clear text."""
    writeFiles(tmp_path)
    text = (BLOCK % "").replace("$DIR", str(tmp_path)) + '\nhttps: "127.0.0.1:-1"\n'
    server = startServer(flavour, text)
    shown = looked(server, contextFor(tmp_path))
    assert len(shown) == 64
    for version in (V.TLSv1_2, V.TLSv1_3):
        assert looked(server, contextFor(tmp_path, versions=(version, version))) == shown
    for version in OLD:
        context = contextFor(versions=(version, version), ciphers=ANYTHING)
        assert looked(server, context) == "refused"
    weak = contextFor(versions=(V.TLSv1_2, V.TLSv1_2), ciphers="AES128-SHA256:AES256-SHA")
    assert looked(server, weak) == "refused"
    assert looked(server, None) in ("400", "refused")


@realAndOurs
def test_noCertificate(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """Monitoring requires no client certificate, also where clients need one."""
    writeFiles(tmp_path)
    text = (BLOCK % VERIFY).replace("$DIR", str(tmp_path)) + '\nhttps: "127.0.0.1:-1"\n'
    server = startServer(flavour, text)
    assert len(looked(server, contextFor(tmp_path))) == 64


@realAndOurs
def test_reload(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """A reload changes the certificate of the monitoring port."""
    writeFiles(tmp_path)
    text = (BLOCK % VERIFY).replace("$DIR", str(tmp_path)) + '\nhttps: "127.0.0.1:-1"\n'
    server = startServer(flavour, text)
    before = looked(server, contextFor(tmp_path))
    ours = authority("CN=new authority")
    ours.write(tmp_path, "ca")
    issue(ours, names=["localhost"]).write(tmp_path, "server")
    reload(server)
    after = looked(server, contextFor(tmp_path))
    assert len(after) == 64 and after != before
