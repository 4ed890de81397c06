"""
The configurations that rows ask for, in the nats-server.conf language that both servers read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.certificate import writeCertificate

__all__ = ["MAX_PENDING", "SETTINGS", "Setting"]

MAX_PENDING = 8 << 20
"""
The most bytes that a stalled subscriber may hold: few, so that the limit is reached in seconds.
"""

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


WEBSOCKET = """
websocket { listen: "127.0.0.1:-1", no_tls: true }
"""

WEBSOCKET_TLS = """
websocket {{
  listen: "127.0.0.1:-1"
  tls {{ cert_file: "{folder}/certificate.pem", key_file: "{folder}/key.pem", timeout: 10 }}
}}
"""

ROUTE = """
cluster { name: bench, listen: "127.0.0.1:-1" }
"""

ROUTE_FAR = """
cluster {{ name: bench, listen: "127.0.0.1:-1", routes: ["nats-route://127.0.0.1:{link}"] }}
"""

GATEWAY = """
gateway { name: near, listen: "127.0.0.1:-1" }
"""

GATEWAY_FAR = """
gateway {{
  name: far, listen: "127.0.0.1:-1"
  gateways: [ {{name: near, url: "nats://127.0.0.1:{link}"}} ]
}}
"""

LEAF = """
leafnodes { listen: "127.0.0.1:-1" }
"""

LEAF_FAR = """
leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{link}" }} ] }}
"""

STREAMING = """
streaming {{ store: file, dir: "{folder}/store" }}
"""

JETSTREAM = """
jetstream {{ store_dir: "{folder}/store" }}
"""

JETSTREAM_SYNCED = """
jetstream {{ store_dir: "{folder}/store", sync_interval: always }}
"""

JETSTREAM_RELAXED = """
jetstream {{ store_dir: "{folder}/store", sync_interval: "2m" }}
"""


ACCOUNTS = """
accounts {{
  A {{ jetstream: enabled, users: [ {{ user: a, password: a }} ] }}
  B {{ jetstream: enabled, users: [ {{ user: b, password: b }} ] }}
}}
"""
"""Two accounts for L{benchmarks.workers}: clients of one have nothing to do with the other's."""


@dataclass(frozen=True)
class Setting:
    """
    One configuration.

    @ivar text: the configuration, with C{{folder}} for the place of the certificate or the store;
        empty for a server without any.
    @ivar theirs: the configuration of nats-server, where that has to be another.
    @ivar far: the configuration of a second server, which has a link to the first one, with
        C{{link}} for the port at which that listens for links; empty where there is only one.
    @ivar load: what the load generator needs to be let in.
    @ivar encrypted: whether a certificate has to be there.
    @ivar forbidden: a subject to which the generator's user must not be able to publish, if any.
    """

    text: str = ""
    load: tuple[str, ...] = ()
    encrypted: bool = False
    forbidden: str = ""
    theirs: str = ""
    far: str = ""

    @property
    def stores(self) -> bool:
        """
        Whether the servers store messages on the disk.
        """
        return "/store" in self.text

    def writeFar(self, folder: Path, link: int) -> Path:
        """
        @param folder: of the second server.
        @param link: where the first one listens for links.
        @return: the second server's configuration file.
        """
        return written(folder, self.far.format(folder=folder, link=link))

    def write(self, folder: Path, isOurs: bool = True) -> Path | None:
        """
        @param folder: where the file and what it names are written.
        @param isOurs: whether our own server will read it.
        @return: the configuration file, or C{None} when there is none.
        """
        if not self.text:
            return None
        text = self.text if isOurs or not self.theirs else self.theirs
        if self.encrypted:
            writeCertificate(folder / "certificate.pem", folder / "key.pem")
        if self.encrypted or self.theirs:
            text = text.format(folder=folder)
        return written(folder, text)


def written(folder: Path, text: str) -> Path:
    """
    @return: the configuration file in C{folder}, now with this text.
    """
    path = folder / "server.conf"
    path.write_text(text, "utf-8")
    return path


SETTINGS: Mapping[str, Setting] = {
    "plain": Setting(),
    "permissions": Setting(
        PERMISSIONS, ("--user", "bench", "--password", "bench"), forbidden="load.secret.x"
    ),
    "tls": Setting(TLS, encrypted=True),
    "websocket": Setting(WEBSOCKET, ("--websocket",)),
    "websocket-tls": Setting(WEBSOCKET_TLS, ("--websocket",), encrypted=True),
    "stalled": Setting(STALLED),
    "route": Setting(ROUTE, far=ROUTE_FAR),
    "gateway": Setting(GATEWAY, far=GATEWAY_FAR),
    "leaf": Setting(LEAF, far=LEAF_FAR),
    "stream": Setting(STREAMING, theirs=JETSTREAM),
    "stream-synced": Setting(STREAMING, theirs=JETSTREAM_SYNCED),
    "jetstream": Setting(JETSTREAM, theirs=JETSTREAM),
    "jetstream-synced": Setting(JETSTREAM, theirs=JETSTREAM_SYNCED),
    "jetstream-relaxed": Setting(JETSTREAM_RELAXED, theirs=JETSTREAM_RELAXED),
    "accounts": Setting(ACCOUNTS.replace("jetstream: enabled, ", "").format()),
    "accounts-tls": Setting(ACCOUNTS.replace("jetstream: enabled, ", "") + TLS, encrypted=True),
    "accounts-jetstream": Setting(
        ACCOUNTS + JETSTREAM_RELAXED, theirs=ACCOUNTS + JETSTREAM_RELAXED
    ),
    "stalled-tls": Setting(STALLED + TLS, encrypted=True),
}
