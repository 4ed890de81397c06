"""
Super-clusters of two by two brokers with two leafnodes in simulated networks, and tests that the
checks find violations. C{python -m tests.simulation --kind super} runs any number of histories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from natsbroker.accounts.delivery import Delivery
from natsbroker.accounts.gateways import GatewayOutput, GatewayTargets
from natsbroker.gateways.advertiser import GatewayAdvertiser
from natsbroker.gateways.outbound import GatewayAccount
from natsbroker.gateways.policies import ListeningPolicy, SwitchingPolicy
from natsbroker.wire import reach
from natsbroker.wire.values import Kind
from tests.simulation.__main__ import main, report
from tests.simulation.faults import double, lose
from tests.simulation.history import SUPER, stepsOf
from tests.simulation.running import PROBES, run
from tests.simulation.superworld import CLUSTERS, LEAFS, SuperWorld

pytestmark = pytest.mark.slow

#: How many histories are run here, and how many in a part.
HISTORIES, PART = 20, 10

#: The histories within which each defect must be found.
PATIENCE = 25


@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_histories(first: int) -> None:
    """The histories have no violations."""
    for seed in range(first, first + PART):
        assert "\n".join(report(seed, SUPER)) == ""


def test_commandLine(capsys: pytest.CaptureFixture[str]) -> None:
    """A history can be run again by its seed, and is always the same."""
    assert main(["--kind", "super", "--seed", "5"]) == 0
    assert capsys.readouterr().out == "seed 5: nothing wrong\n"
    assert run(5, kind=SUPER).trace == run(5, kind=SUPER).trace != run(5).trace
    assert stepsOf(5, kind=SUPER) != stepsOf(5)


def test_allPartsAreUsed() -> None:
    """
    The histories include messages between all clusters and leafnodes, and interrupted switches of
    modes.
    """
    passed: set[tuple[int, int]] = set()
    switches = slits = 0
    for seed in range(12):
        world = SuperWorld(seed)
        world.clock.advance(4.0)
        for number in world.numbers:
            world.welcome(number)
        world.clock.advance(1.0)
        world.slit()
        for person in world.here():
            person.subscribe(b"b.c")
        world.clock.advance(world.settle)
        world.heal()
        for person in world.here():
            for subject in (b"x", b"y", b"z", b"v", b"w", b"u", *PROBES):
                person.publish(subject, 0)
                world.clock.advance(world.settle)
        switches += world.switches
        slits += not world.slits
        for person in world.people.values():
            for wish in person.wishes.values():
                homes = (world.people[key[0]].broker for key in wish.got)
                passed.update((home, person.broker) for home in homes)
    everybody = (*CLUSTERS, *LEAFS)
    assert passed == {(one, other) for one in everybody for other in everybody}
    assert switches and slits


def twice(patch: pytest.MonkeyPatch) -> None:
    """Send each message over a gateway twice."""
    double(patch, GatewayAccount)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """Lose every tenth message over gateways."""
    lose(patch, GatewayAccount)


def silentEnd(patch: pytest.MonkeyPatch) -> None:
    """Do not send the end of interest to other clusters."""
    patch.setattr(GatewayAdvertiser, "interestLost", lambda *change: None)


def stubborn(patch: pytest.MonkeyPatch) -> None:
    """Keep refusing a subject to another cluster after new interest in it."""
    patch.setattr(GatewayAdvertiser, "_readmit", lambda self, pattern: False)


def shortList(patch: pytest.MonkeyPatch) -> None:
    """Leave out the first pattern when all interest is sent."""
    sendAll = GatewayAdvertiser.sendAll

    def short(self: Any, now: float) -> None:
        plain = self._plain
        self._plain = dict(list(plain.items())[1:])
        sendAll(self, now)
        self._plain = plain

    patch.setattr(GatewayAdvertiser, "sendAll", short)


def oldTable(patch: pytest.MonkeyPatch) -> None:
    """Keep the interest table of a gateway's former connection."""
    connected, tables = ListeningPolicy.connected, {}

    def remembered(self: Any, gateway: str, account: str, tellsAll: bool) -> Any:
        key = id(self), gateway, account
        if key not in tables:
            tables[key] = connected(self, gateway, account, tellsAll)
        return tables[key]

    patch.setattr(ListeningPolicy, "connected", remembered)


def deafList(patch: pytest.MonkeyPatch) -> None:
    """Lose changes of interest while all interest is sent."""
    gained = SwitchingPolicy.gained

    def deaf(self: Any, table: Any, pattern: bytes, queue: bytes) -> Any:
        return table if table.mode == "transitioning" else gained(self, table, pattern, queue)

    patch.setattr(SwitchingPolicy, "gained", deaf)


def notSpread(patch: pytest.MonkeyPatch) -> None:
    """Do not pass messages from a gateway on to other members."""
    fewer = {**reach.REACH, Kind.GATEWAY: reach.REACH[Kind.GATEWAY] - {Kind.ROUTE}}
    patch.setattr("natsbroker.accounts.delivery.REACH", fewer)


def crossedByMember(patch: pytest.MonkeyPatch) -> None:
    """Send messages from a route to gateways as well."""
    further = {**reach.REACH, Kind.ROUTE: reach.REACH[Kind.ROUTE] | {Kind.GATEWAY}}
    patch.setattr("natsbroker.accounts.delivery.REACH", further)


def bothSides(patch: pytest.MonkeyPatch) -> None:
    """Send a message to a queue group's members elsewhere, although one is local."""
    deliver = Delivery._deliverToGroup

    def greedy(self: Any, kind: Any, group: Any, message: Any, links: Any, path: Any) -> int:
        name, here, there = group
        deliver(self, kind, (name, (), there), message, links, path)
        return deliver(self, kind, (name, here, ()), message, links, path)

    patch.setattr(Delivery, "_deliverToGroup", greedy)


def staleAnswers(patch: pytest.MonkeyPatch) -> None:
    """Keep remembered targets of a subject after interest has changed."""
    changed = GatewayTargets.changed

    def only(self: Any, pattern: bytes) -> None:
        if pattern == b">":
            changed(self, pattern)

    patch.setattr(GatewayTargets, "changed", only)


def untoldLeafs(patch: pytest.MonkeyPatch) -> None:
    """Do not send the interest of other clusters to leafnodes."""
    patch.setattr(GatewayOutput, "known", lambda self: iter(()))


DEFECTS = (
    twice,
    forgetful,
    silentEnd,
    stubborn,
    shortList,
    oldTable,
    deafList,
    notSpread,
    crossedByMember,
    bothSides,
    staleAnswers,
    untoldLeafs,
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects(defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: Any) -> None:
    """Each of these defects is found."""
    defect(monkeypatch)
    assert any(run(seed, kind=SUPER).wrong for seed in range(PATIENCE))
