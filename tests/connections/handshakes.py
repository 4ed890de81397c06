"""
TLS handshakes in memory, with certificates made for them.
"""

from __future__ import annotations

from pathlib import Path

from OpenSSL import SSL

from natsbroker.connections.tlsrecords import SealedConnection


def clientContext(folder: Path | None = None) -> SSL.Context:
    """The context of a client, with a certificate if a folder with one is given."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    if folder is not None:
        context.use_certificate_file(str(folder / "client.pem"))
        context.use_privatekey_file(str(folder / "client-key.pem"))
    return context


class Handshake:
    """
    Two ends of a connection in memory.
    """

    def __init__(self, server: SSL.Context, client: SSL.Context, name: bytes = b"") -> None:
        self.server = SealedConnection(server, None)
        self.server.set_accept_state()
        self.client = SSL.Connection(client, None)
        self.client.set_connect_state()
        if name:
            self.client.set_tlsext_host_name(name)

    def run(self) -> Handshake:
        """
        Do the handshake.

        @raise SSL.Error: if either end refuses.
        """
        waiting = [self.client, self.server]
        for _ in range(10):
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except SSL.WantReadError:
                    pass
            self.exchange()
        assert waiting == []
        return self

    def exchange(self) -> None:
        """Carry bytes in both directions."""
        for source, target in ((self.client, self.server), (self.server, self.client)):
            while True:
                try:
                    target.bio_write(source.bio_read(1 << 16))
                except SSL.WantReadError:
                    break

    def refused(self) -> bool:
        """Whether the handshake fails."""
        try:
            self.run()
        except SSL.Error:
            return True
        return False
