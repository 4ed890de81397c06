"""
An OCSP responder over HTTP, in a thread.
"""

from __future__ import annotations

import base64
import datetime
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from cryptography.x509 import ocsp

from tests.ocsp.authorities import GOOD, Issued, responded


class Responder:
    """
    An OCSP responder.

    @ivar revoked: serial numbers of the revoked certificates.
    @ivar known: certificates that it can answer about.
    @ivar asked: the number of requests.
    """

    def __init__(self) -> None:
        self.signer: Any = None
        self.known: dict[int, Issued] = {}
        self.statuses: dict[int, ocsp.OCSPCertStatus] = {}
        self.asked = 0
        responder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])))

            def do_GET(self) -> None:
                self._answer(base64.b64decode(unquote(self.path.rpartition("/")[2])))

            def _answer(self, request: bytes) -> None:
                body = responder.answer(request)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Responder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, issued: Issued, status: ocsp.OCSPCertStatus = GOOD) -> Issued:
        """Add a certificate that it can answer about."""
        serial = issued.certificate.serial_number
        self.known[serial], self.statuses[serial] = issued, status
        return issued

    def answer(self, request: bytes) -> bytes:
        """
        @return: a response with the present time.
        """
        self.asked += 1
        serial = ocsp.load_der_ocsp_request(request).serial_number
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        certificate = self.known[serial].certificate
        return responded(certificate, self.signer, self.statuses[serial], now)
