"""
The configurations that rows ask for, in the nats-server.conf language that both servers read.

Promises: the same file for every server that is compared; each setting is a name, the text of the
file, and the credentials that the load generator then needs.

Must never know: which server reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.certificate import writeCertificate

__all__ = ["MAX_PENDING", "SETTINGS", "Setting"]

MAX_PENDING = 8 << 20
"""What a stalled subscriber may hold, in bytes: small, so that the limit is reached in seconds."""

STALLED = f"""
max_pending: {MAX_PENDING}
"""

PERMISSIONS = """
authorization {
  users: [
    {
      user: bench
      password: bench
      permissions: {
        publish: { allow: ["load.>", "memory.>", "svc.*", "_INBOX.>"], deny: ["load.secret.>"] }
        subscribe: { allow: ["load.>", "memory.>", "svc.*", "_INBOX.>"], deny: ["load.secret.>"] }
      }
    }
    {
      user: other
      password: other
      permissions: { publish: "elsewhere.>", subscribe: "elsewhere.>" }
    }
  ]
}
"""

TLS = """
tls {{
  cert_file: "{folder}/certificate.pem"
  key_file: "{folder}/key.pem"
  timeout: 10
}}
"""


@dataclass(frozen=True)
class Setting:
    """
    One configuration.

    @ivar text: the configuration, with C{{folder}} for the place of the certificate; empty for a
        server without any.
    @ivar load: what the load generator needs to be let in.
    @ivar encrypted: whether a certificate has to be there.
    @ivar forbidden: a subject to which the generator's user must not be able to publish, if any.
    """

    text: str = ""
    load: tuple[str, ...] = ()
    encrypted: bool = False
    forbidden: str = ""

    def write(self, folder: Path) -> Path | None:
        """
        @param folder: where the file and what it names are written.
        @return: the configuration file, or C{None} when there is none.
        """
        if not self.text:
            return None
        text = self.text
        if self.encrypted:
            writeCertificate(folder / "certificate.pem", folder / "key.pem")
            text = text.format(folder=folder)
        path = folder / "server.conf"
        path.write_text(text, "utf-8")
        return path


SETTINGS: Mapping[str, Setting] = {
    "plain": Setting(),
    "permissions": Setting(
        PERMISSIONS, ("--user", "bench", "--password", "bench"), forbidden="load.secret.x"
    ),
    "tls": Setting(TLS, encrypted=True),
    "stalled": Setting(STALLED),
    "stalled-tls": Setting(STALLED + TLS, encrypted=True),
}
