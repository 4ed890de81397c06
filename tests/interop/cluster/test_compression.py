"""
Compressed routes between natsbroker and nats-server, dialled from either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.cluster.members import CONFIG, Mesh, formed
from tests.interop.compressed import MONITORED, exchange, shows
from tests.interop.conftest import showLogs
from tests.interop.servers import OLD, OURS_FAST, OURS_PURE, REAL, Flavour

TEMPLATE = CONFIG.replace("$TOP", MONITORED)

OFF, NOT, UNCOMPRESSED, FAST = "off", "not supported", "s2_uncompressed", "s2_fast"

#: By the time that a PING takes, which may be long on a busy machine.
AUTO = "{mode: s2_auto, rtt_thresholds: [10s, 20s, 30s]}"

#: Our mode and nats-server's, and the level at which each of us sends.
MODES = [
    ("accept", "s2_fast", FAST, FAST),
    ("accept", "s2_better", "s2_better", "s2_better"),
    ("accept", "accept", OFF, OFF),
    ("s2_fast", "accept", FAST, FAST),
    ("s2_better", "s2_fast", "s2_better", FAST),
    ("s2_best", "s2_best", "s2_best", "s2_best"),
    (AUTO, AUTO, UNCOMPRESSED, UNCOMPRESSED),
    (AUTO, "accept", UNCOMPRESSED, FAST),
    ("accept", AUTO, FAST, UNCOMPRESSED),
    ("{mode: auto, rtt_thresholds: ['0', '10s']}", "s2_best", FAST, "s2_best"),
    ("off", "s2_fast", OFF, OFF),
    ("s2_fast", "off", OFF, OFF),
    ('"not supported"', "s2_fast", NOT, NOT),
]

PAIRS = [(OURS_FAST, REAL), (REAL, OURS_FAST)]

#: Makes a cluster with a C{compression} for each member.
Form = Callable[..., Mesh]


def named(pair: tuple[Flavour, Flavour]) -> str:
    """The name of a pair of servers."""
    return "-".join(flavour.name for flavour in pair)


@pytest.fixture
def form(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Form]:
    """Make a cluster for one test."""
    made: list[Mesh] = []

    def start(pair: tuple[Flavour, Flavour], ours: str, theirs: str, more: str = "") -> Mesh:
        wanted = {
            f"n{place}": f"compression: {ours if flavour is not REAL else theirs}, {more}"
            for place, flavour in enumerate(pair)
            if flavour is not OLD
        }
        mesh = formed(pair, tmp_path, wanted, TEMPLATE)
        made.append(mesh)
        for member in mesh.members:
            showLogs(request.node, member)
        return mesh

    yield start
    for mesh in made:
        mesh.close()


@pytest.mark.parametrize("pair", PAIRS, ids=named)
@pytest.mark.parametrize("ours, theirs, we, they", MODES)
def test_modes(
    form: Form, pair: tuple[Flavour, Flavour], ours: str, theirs: str, we: str, they: str
) -> None:
    """Each side sends at the level that follows from both modes, and all payloads arrive."""
    mesh = form(pair, ours, theirs)
    for member in mesh.members:
        shows(member, "routez", {they if member.flavour is REAL else we})
    exchange(mesh)
    assert mesh.complaints() == []


@pytest.mark.parametrize("mode", ["accept", "s2_fast", "s2_auto"])
@pytest.mark.parametrize("pair", [(OURS_FAST, OLD), (OLD, OURS_FAST)], ids=named)
def test_withOldServer(form: Form, pair: tuple[Flavour, Flavour], mode: str) -> None:
    """A server without compression is accepted as a member without it."""
    mesh = form(pair, mode, "")
    for member in mesh.members:
        if member.flavour is not OLD:
            shows(member, "routez", {NOT})
    exchange(mesh, 1)
    assert mesh.complaints() == []


@pytest.mark.parametrize(
    "pair", [(OURS_FAST, OURS_PURE), (OURS_PURE, REAL), (REAL, OURS_PURE)], ids=named
)
def test_pure(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """Without the compiled lane the results are the same."""
    mesh = form(pair, "s2_fast", "s2_fast")
    for member in mesh.members:
        shows(member, "routez", {FAST})
    exchange(mesh, 1)
    assert mesh.complaints() == []


@pytest.mark.parametrize("pair", [*PAIRS, (OURS_FAST, OURS_FAST)], ids=named)
@pytest.mark.parametrize("more", ["pool_size: -1", "accounts: [A]"])
def test_pools(form: Form, pair: tuple[Flavour, Flavour], more: str) -> None:
    """Every connection of a pool is compressed, also a single one and those of accounts."""
    mesh = form(pair, "s2_fast", "s2_fast", more)
    for member in mesh.members:
        shows(member, "routez", {FAST})
    exchange(mesh, 1)
    assert mesh.complaints() == []


@pytest.mark.parametrize("pair", [*PAIRS, (OURS_FAST, OURS_FAST)], ids=named)
def test_tls(form: Form, pair: tuple[Flavour, Flavour], tmp_path: Path) -> None:
    """A compressed link is encrypted."""
    writeCertificates(tmp_path)
    files = {"cert_file": "server.pem", "key_file": "server-key.pem", "ca_file": "ca.pem"}
    tls = ", ".join(f"{key}: '{tmp_path}/{name}'" for key, name in files.items())
    mesh = form(pair, "s2_best", "s2_fast", f"tls {{ {tls} }}")
    exchange(mesh, 1)
    assert mesh.complaints() == []


@pytest.mark.parametrize("pair", PAIRS, ids=named)
@pytest.mark.parametrize(
    "before, after, level",
    [
        ("s2_fast", "s2_best", "s2_best"),
        ("s2_auto", "s2_fast", FAST),
        ("s2_fast", AUTO, UNCOMPRESSED),
        ("s2_fast", "off", OFF),
        ("off", "s2_fast", FAST),
        ("s2_better", "accept", FAST),
    ],
)
def test_reload(
    form: Form, pair: tuple[Flavour, Flavour], before: str, after: str, level: str
) -> None:
    """A reload changes the compression of existing routes, in place or by reconnecting."""
    mesh = form(pair, before, "s2_fast")
    place = pair.index(OURS_FAST)
    ours = mesh.members[place]
    # With the port that the kernel chose in the file, so that it can be read once more.
    ours.restart()
    mesh.connect(place)
    mesh.form()
    ours.reconfigure(f"compression: {after}")
    ours.signal("HUP")
    ours.waitForLog("Reloaded server configuration")
    shows(ours, "routez", {level})
    mesh.form()
    exchange(mesh, 1)
