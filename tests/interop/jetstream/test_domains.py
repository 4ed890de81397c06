"""
A bucket of one JetStream domain, with a mirror in another one behind a leafnode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.programs import DOMAINS_JS
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

HUB = """
server_name: HUB
jetstream {{ domain: HUB, store_dir: "{store}" }}
leafnodes {{ listen: "127.0.0.1:-1" }}
"""

LEAF = """
server_name: LEAF
jetstream {{ domain: LEAF, store_dir: "{store}" }}
leafnodes {{ remotes: [ {{ url: "leaf://127.0.0.1:{port}" }} ] }}
"""

USED = {"history": ["age", "name", "v"], "keys": ["age", "name"]}


@pytest.mark.parametrize(
    ("hub", "leaf"),
    [(REAL, REAL), (OURS_FAST, OURS_FAST), (REAL, OURS_FAST), (OURS_FAST, REAL)],
    ids=lambda flavour: flavour.name,
)
def test_mirrorAcrossDomains(hub: Flavour, leaf: Flavour, tmp_path: Path) -> None:
    """A value that is put into the mirror is stored in the origin and copied back."""
    for name in ("hub", "leaf"):
        (tmp_path / name).mkdir()
    config = HUB.format(store=tmp_path / "hub")
    there = Server(hub, tmp_path / "hub", config, ["-m", "-1", "-D"]).start()
    try:
        varz: Any = there.monitor("/varz")
        port = varz["leaf"]["port"]
        config = LEAF.format(store=tmp_path / "leaf", port=port)
        here = Server(leaf, tmp_path / "leaf", config, ["-D"]).start()
        try:
            lines = DOMAINS_JS.run(there.url, here.url)
        finally:
            here.stop()
    finally:
        there.stop()
    mirrored, *first, remote, last, seen = lines
    assert mirrored == {"direct": True, "name": "KV_TEST", "api": "$JS.HUB.API"}
    assert [*first, last] == [USED, USED]
    assert remote == {"prefix": "$KV.TEST"}
    names = ["derek", "rip", "ivan"]
    assert seen == {"test": names, "mirror": names, "origin": names[1:]}
