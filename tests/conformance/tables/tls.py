"""
Case 57: TLS on the client port.
"""

from __future__ import annotations

from tests.conformance.rows import CON, Row
from tests.conformance.steps import StartTls
from tests.conformance.transcripts import Alive, Closed, Expect, Info, Open, Send, Wait


def tls(more: str = "") -> str:
    """
    @return: a configuration with TLS on the client port.
    """
    return f"""
tls {{
    cert_file: "$DIR/server.pem"
    key_file: "$DIR/server-key.pem"
    {more}
}}
"""


VERIFY = 'ca_file: "$DIR/ca.pem"\n verify: true'

REQUIRED = Info({"tls_required": True}, absent=("tls_verify", "tls_available"))
AVAILABLE = Info({"tls_available": True}, absent=("tls_required", "tls_verify"))

ROWS = [
    Row(
        57,
        "INFO in clear then handshake",
        (Open(info=REQUIRED), StartTls(), Send(CON + b"PING\r\n"), Expect(b"PONG\r\n"), Alive()),
        tls(),
    ),
    Row(
        57,
        "delivery between two TLS clients",
        (
            Open(info=REQUIRED),
            StartTls(),
            Send(CON + b"SUB foo 1\r\n"),
            Alive(),
            Open("b", info=REQUIRED),
            StartTls("b"),
            Send(CON + b"PUB foo 2\r\nhi\r\n", "b"),
            Alive("b"),
            Expect(b"MSG foo 1 2\r\nhi\r\n"),
            Alive(),
        ),
        tls(),
    ),
    Row(57, "plaintext CONNECT", (Open(info=REQUIRED), Send(CON), Closed()), tls()),
    Row(57, "handshake too late", (Open(info=REQUIRED), Wait(0.5), Closed()), tls("timeout: 0.5")),
    Row(
        57,
        "plaintext where it is allowed",
        (Open(info=AVAILABLE), Send(CON), Alive()),
        tls() + "allow_non_tls: true\n",
    ),
    Row(
        57,
        "TLS where plaintext is allowed",
        (Open(info=AVAILABLE), StartTls(), Send(CON), Alive()),
        tls() + "allow_non_tls: true\n",
    ),
    Row(
        57,
        "client certificate wanted and shown",
        (
            Open(info=Info({"tls_required": True, "tls_verify": True})),
            StartTls(certificate=True),
            Send(CON),
            Alive(),
        ),
        tls(VERIFY),
    ),
    Row(
        57,
        "client certificate wanted and not shown",
        (
            Open(info=Info({"tls_required": True, "tls_verify": True})),
            StartTls(),
            Send(CON + b"PING\r\n"),
            Closed(),
        ),
        tls(VERIFY),
    ),
    Row(
        57,
        "handshake first",
        (Open(info=None), StartTls(), Expect(REQUIRED), Send(CON), Alive()),
        tls("handshake_first: true"),
    ),
    Row(
        57,
        "handshake first with a delay and a quick client",
        (Open(info=None), StartTls(), Expect(REQUIRED), Send(CON), Alive()),
        tls('handshake_first: "300ms"'),
    ),
    Row(
        57,
        "handshake first with a delay and a client that waits for INFO",
        (Open(info=None), Wait(0.3), Expect(REQUIRED), StartTls(), Send(CON), Alive()),
        tls('handshake_first: "300ms"'),
    ),
]
