"""
Compressed leafnode connections between natsbroker and nats-server, as hub and as spoke.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.compressed import MONITORED, exchange, shows
from tests.interop.leafnodes.brokers import Broker, Ends
from tests.interop.servers import OLD, OURS_FAST, OURS_PURE, REAL, Flavour

OFF, NOT, UNCOMPRESSED, FAST = "off", "not supported", "s2_uncompressed", "s2_fast"

#: By the time that a PING takes, which may be long on a busy machine.
AUTO = "{mode: s2_auto, rtt_thresholds: [10s, 20s, 30s]}"

#: The hub's mode and the spoke's, and the level at which each of them sends.
MODES = [
    ("", "", UNCOMPRESSED, UNCOMPRESSED),
    ("s2_fast", "s2_fast", FAST, FAST),
    ("s2_better", "s2_best", "s2_better", "s2_best"),
    ("accept", AUTO, FAST, UNCOMPRESSED),
    (AUTO, "accept", UNCOMPRESSED, FAST),
    ("s2_best", "accept", "s2_best", "s2_best"),
    ("accept", "accept", OFF, OFF),
    ("{mode: s2_auto, rtts: ['0', '0', '10s']}", "fast", "s2_better", FAST),
    ("off", "s2_auto", OFF, OFF),
    ("s2_auto", "off", OFF, OFF),
    ('"not supported"', "s2_auto", NOT, NOT),
    ("s2_auto", '"not supported"', NOT, NOT),
]

PAIRS = [(OURS_FAST, REAL), (REAL, OURS_FAST)]


def named(pair: tuple[Flavour, Flavour]) -> str:
    """The name of a pair of servers."""
    return "-".join(flavour.name for flavour in pair)


class Pair:
    """A hub, a spoke, and a client of each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.servers: list[Broker] = []
        self.ends: Ends | None = None

    def begin(
        self,
        pair: tuple[Flavour, Flavour],
        above: str,
        below: str,
        more: tuple[str, str] = ("", ""),
    ) -> None:
        """
        @param above: the hub's C{compression}; empty for none.
        @param below: the spoke's C{compression}.
        @param more: text for the C{leafnodes} block of the hub, and for the remote.
        """
        words = [f"compression: {mode}," if mode else "" for mode in (above, below)]
        hub = Broker(pair[0], self._directory, "hub", words[0] + more[0], top=MONITORED)
        self.servers.append(hub)
        # With the port that the kernel chose in the file, so that it can be read once more.
        hub.start().restart()
        remote = hub.remote(more=words[1] + more[1])
        spoke = Broker(pair[1], self._directory, "spoke", remote, False, top=MONITORED)
        self.servers.append(spoke)
        spoke.start()
        self.ends = Ends([(hub, "a"), (spoke, "b")])
        self.ends.form()

    def exchange(self, rounds: int = 2) -> None:
        """Check that all payloads pass in both directions."""
        assert self.ends is not None
        exchange(self.ends, rounds)
        assert [complaint for server in self.servers for complaint in server.complaints()] == []

    def shows(self, *levels: str) -> None:
        """Wait until hub and spoke send at these levels."""
        for server, level in zip(self.servers, levels, strict=True):
            shows(server, "leafz", {level})


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Pair]:
    """A hub and a spoke that are stopped afterwards; their logs are shown if the test fails."""
    made = Pair(tmp_path)
    yield made
    if made.ends is not None:
        made.ends.close()
    for server in made.servers:
        server.stop()
        print(f"log of {server.flavour.name}:\n{server.log()}")


@pytest.mark.parametrize("pair", PAIRS, ids=named)
@pytest.mark.parametrize("above, below, hub, spoke", MODES)
def test_modes(
    two: Pair, pair: tuple[Flavour, Flavour], above: str, below: str, hub: str, spoke: str
) -> None:
    """Each side sends at the level that follows from both modes, and all payloads arrive."""
    two.begin(pair, above, below)
    two.shows(hub, spoke)
    two.exchange()


@pytest.mark.parametrize("pair", [(OURS_FAST, OLD), (OLD, OURS_FAST)], ids=named)
def test_withOldServer(two: Pair, pair: tuple[Flavour, Flavour]) -> None:
    """A server without compression is accepted as a leafnode without it."""
    two.begin(pair, "" if pair[0] is OLD else "s2_fast", "" if pair[1] is OLD else "s2_auto")
    (ours,) = (server for server in two.servers if server.flavour is OURS_FAST)
    shows(ours, "leafz", {NOT})
    two.exchange(1)


@pytest.mark.parametrize(
    "pair", [(OURS_FAST, OURS_PURE), (OURS_PURE, REAL), (REAL, OURS_PURE)], ids=named
)
def test_pure(two: Pair, pair: tuple[Flavour, Flavour]) -> None:
    """Without the compiled lane the results are the same."""
    two.begin(pair, "s2_fast", "s2_fast")
    two.shows(FAST, FAST)
    two.exchange(1)


@pytest.mark.parametrize("pair", [*PAIRS, (OURS_FAST, OURS_FAST)], ids=named)
@pytest.mark.parametrize("isFirst", [False, True])
def test_tls(two: Pair, pair: tuple[Flavour, Flavour], isFirst: bool, tmp_path: Path) -> None:
    """A compressed link is encrypted, whether INFO or the handshake comes first."""
    writeCertificates(tmp_path)
    first = "handshake_first: true" if isFirst else ""
    own = f"cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem'"
    more = (f"tls {{ {own}, {first} }}", f"tls {{ ca_file: '{tmp_path}/ca.pem', {first} }}")
    two.begin(pair, "s2_fast", "s2_better", more)
    two.shows(FAST, "s2_better")
    two.exchange(1)


@pytest.mark.parametrize("pair", PAIRS, ids=named)
@pytest.mark.parametrize(
    "before, after, level",
    [
        ("s2_fast", "s2_best", "s2_best"),
        ("s2_fast", AUTO, UNCOMPRESSED),
        ("s2_fast", "off", OFF),
        ("off", "s2_fast", FAST),
    ],
)
def test_reload(
    two: Pair, pair: tuple[Flavour, Flavour], before: str, after: str, level: str
) -> None:
    """A reload changes existing connections, with natsbroker as hub and as spoke."""
    isHub = pair[0] is OURS_FAST
    two.begin(pair, before if isHub else "s2_fast", "s2_fast" if isHub else before)
    hub, spoke = two.servers
    ours = hub if isHub else spoke
    ours.reconfigure(f"compression: {after}" if isHub else hub.remote(more=f"compression: {after}"))
    ours.signal("HUP")
    ours.waitForLog("Compression value is: {" + after.removeprefix("{mode: ").partition(",")[0])
    shows(ours, "leafz", {level})
    assert two.ends is not None
    two.ends.form()
    exchange(two.ends, 1)
