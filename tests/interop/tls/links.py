"""
Log lines of TLS links between servers, and a wait for them.
"""

from __future__ import annotations

import time

from tests.interop.servers import PATIENCE
from tests.interop.tls.dialled import CASES
from tests.interop.tls.impostors import Impostor

#: What is on this machine, and shows a certificate.
DIALLED = {
    name: case
    for name, case in CASES.items()
    if case.host in ("localhost", "127.0.0.1") and "greeting" not in case.more
}


#: What nats-server takes: Go has nothing against RSA keys of 1024 bits.
TAKEN_BY_REAL = {"short key"}


def wait(impostors: dict[str, Impostor]) -> None:
    """Wait until each impostor has received data, or has lost its client."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if all(impostor.told or impostor.isOver for impostor in impostors.values()):
            return
        time.sleep(0.05)
