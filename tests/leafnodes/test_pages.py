"""
What the monitoring pages say of leafnodes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.leafnodes.pairs import HUB, SPOKE, Leafy
from tests.server.support import Host, settingsOf


def page(host: Host, path: str) -> Any:
    """A page."""
    answer = host.broker.monitoring.answer(path, {})
    assert answer is not None
    return json.loads(b"".join(answer.body))


def test_hub() -> None:
    """Leafnodes are listed and counted."""
    host = Leafy(HUB).start()
    host.peer()
    (row,) = page(host, "/leafz")["leafs"]
    assert (row["name"], row["is_spoke"], row["account"]) == ("peer", False, "A")
    varz = page(host, "/varz")
    assert varz["leafnodes"] == 1
    assert (varz["leaf"]["host"], varz["leaf"]["auth_timeout"]) == ("127.0.0.1", 2)
    assert varz["slow_consumer_stats"]["leafs"] == 0


def test_spoke() -> None:
    """Remotes are shown without secrets."""
    host = Leafy(SPOKE.replace("}", ", deny_exports: x}")).start()
    host.answer()
    (row,) = page(host, "/leafz")["leafs"]
    assert (row["is_spoke"], row["account"]) == (True, "B")
    varz = page(host, "/varz")
    assert varz["leaf"] == {
        "remotes": [{"local_account": "B", "urls": ["10.0.0.1:7422"], "deny": {"exports": ["x"]}}]
    }
    assert "u:p@" not in json.dumps(varz)


@pytest.mark.parametrize("kind", [Leafy, Host])
def test_none(kind: type[Host]) -> None:
    """Without leafnodes there are none, whether or not the settings have a block for them."""
    host = kind("").start()
    assert page(host, "/leafz")["leafnodes"] == 0
    varz = page(host, "/varz")
    assert (varz["leaf"], varz["leafnodes"]) == ({}, 0)
    assert varz["slow_consumer_stats"]["leafs"] == 0


def test_addedByReload() -> None:
    """Remotes that come with a reload are shown, although there were no leafnodes before."""
    accounts = "port: 4222, server_name: n1, accounts { A {}, B {} }"
    host = Host(accounts).start()
    host.broker.reload(settingsOf(f"{accounts}\nleafnodes {{ {SPOKE} }}"))
    (remote,) = page(host, "/varz")["leaf"]["remotes"]
    assert remote["urls"] == ["10.0.0.1:7422"]
