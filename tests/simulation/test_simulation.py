"""
Clusters of three brokers in simulated networks: some hundred histories, and tests that the checks
find violations. C{python -m tests.simulation} runs any number.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from natsbroker.accounts.delivery import Delivery
from natsbroker.links.interest import InterestAdvertiser, RemoteInterest
from natsbroker.routes.classic import ClassicMember, ClassicTraffic
from natsbroker.routes.modern import ModernTraffic, RouteAccount
from natsbroker.routes.sids import LocalSids
from natsbroker.wire import reach
from natsbroker.wire.dialects import cluster
from natsbroker.wire.values import Kind, Message
from tests.simulation import world
from tests.simulation.__main__ import main, report
from tests.simulation.faults import double, lose
from tests.simulation.running import run

pytestmark = pytest.mark.slow

#: How many histories are run here, and how many in a part.
HISTORIES, PART = 120, 20

#: The histories within which each defect must be found.
PATIENCE = 25

PRINT_TRACES = "from tests.simulation.running import run; print([run(s).trace for s in (3, 4)])"


@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_histories(first: int) -> None:
    """The histories have no violations."""
    for seed in range(first, first + PART):
        assert "\n".join(report(seed)) == ""


def test_repeatable() -> None:
    """A seed always gives the same run, whatever the hash seed of Python."""
    traces = str([run(seed).trace for seed in (3, 4)])
    for hashes in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PRINT_TRACES],
            env={"PYTHONHASHSEED": hashes, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == traces


def test_seeds() -> None:
    """Different seeds make different runs."""
    assert run(3).trace != run(4).trace


def test_commandLine(capsys: pytest.CaptureFixture[str]) -> None:
    """A history can be run again by its seed."""
    assert main(["--seed", "5"]) == 0
    assert capsys.readouterr().out == "seed 5: nothing wrong\n"


def twice(patch: pytest.MonkeyPatch) -> None:
    """Send each message over a route twice."""
    double(patch, RouteAccount)


def silentEnd(patch: pytest.MonkeyPatch) -> None:
    """Do not send the end of interest to other members."""
    patch.setattr(InterestAdvertiser, "interestLost", lambda *change: None)


def silentWeight(patch: pytest.MonkeyPatch) -> None:
    """Do not send the growth of a queue group to other members."""
    patch.setattr(InterestAdvertiser, "interestWeightChanged", lambda *change: None)


def staleRoute(patch: pytest.MonkeyPatch) -> None:
    """Keep the interest of a peer after its route is gone."""
    patch.setattr(RemoteInterest, "clear", lambda self: None)


def onceTold(patch: pytest.MonkeyPatch) -> None:
    """Send no interest to a peer that connects again."""
    tell, told = ModernTraffic.tell, set()

    def first(self: Any, accounts: Any) -> None:
        key = id(self._buses), self._link.remoteId
        tell(self, [] if key in told else accounts)
        told.add(key)

    patch.setattr(ModernTraffic, "tell", first)


def passedOn(patch: pytest.MonkeyPatch) -> None:
    """Pass messages from a route on to other members."""
    further = {**reach.REACH, Kind.ROUTE: reach.REACH[Kind.ROUTE] | {Kind.ROUTE}}
    patch.setattr("natsbroker.accounts.delivery.REACH", further)


def bothSides(patch: pytest.MonkeyPatch) -> None:
    """Send a message to a queue group's members elsewhere, although one is local."""
    deliver = Delivery._deliverToGroup

    def greedy(self: Any, kind: Any, group: Any, message: Any, links: Any, path: Any) -> int:
        name, here, there = group
        deliver(self, kind, (name, (), there), message, links, path)
        return deliver(self, kind, (name, here, ()), message, links, path)

    patch.setattr(Delivery, "_deliverToGroup", greedy)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """Lose every tenth message over routes."""
    lose(patch, RouteAccount)


def twiceClassic(patch: pytest.MonkeyPatch) -> None:
    """Send each message over a classic route twice."""
    double(patch, ClassicMember)


def forgetfulClassic(patch: pytest.MonkeyPatch) -> None:
    """Lose every tenth message over classic routes."""
    lose(patch, ClassicMember)


def toEverybody(patch: pytest.MonkeyPatch) -> None:
    """Deliver a message for a queue group to plain subscribers too."""
    patch.setattr("natsbroker.routes.classic.GroupMessage", Message)


def toGroupsToo(patch: pytest.MonkeyPatch) -> None:
    """Deliver a message for plain subscribers to queue groups too."""
    patch.setattr("natsbroker.routes.classic.cluster.isDirected", lambda sid: True)
    patch.setattr(LocalSids, "group", lambda self, sid: b"q")


def anyGroup(patch: pytest.MonkeyPatch) -> None:
    """Deliver a message for one queue group to another."""
    group = LocalSids.group

    def other(self: Any, sid: bytes) -> bytes:
        return {b"q": b"r", b"r": b"q"}.get(group(self, sid), b"")

    patch.setattr(LocalSids, "group", other)


def sameSid(patch: pytest.MonkeyPatch) -> None:
    """Give all members of a queue group the same sid."""
    sidFor = cluster.sidFor
    one = lambda number, member, queue: sidFor(number, 1, queue)  # noqa: E731
    patch.setattr("natsbroker.routes.sids.cluster.sidFor", one)


def deafToEnds(patch: pytest.MonkeyPatch) -> None:
    """Ignore the end of a classic member's interest."""
    patch.setattr(ClassicTraffic, "_unsubscribed", lambda self, line: None)


def staleSids(patch: pytest.MonkeyPatch) -> None:
    """Send no interest to a classic peer that connects again."""
    tell, told = ClassicTraffic.tell, set()

    def first(self: Any, accounts: Any) -> None:
        key = id(self._buses), self._link.remoteId
        tell(self, [] if key in told else accounts)
        told.add(key)

    patch.setattr(ClassicTraffic, "tell", first)


ANYWHERE = (silentEnd, silentWeight, staleRoute, passedOn, bothSides)

MODERN = (twice, onceTold, forgetful)

CLASSIC = (
    twiceClassic,
    forgetfulClassic,
    toEverybody,
    toGroupsToo,
    anyGroup,
    sameSid,
    deafToEnds,
    staleSids,
)


@pytest.mark.parametrize(
    "choices, defect",
    [
        *((world.CHOICES[:3], defect) for defect in (*ANYWHERE, *MODERN)),
        *((world.CLASSIC_CHOICES[:1], defect) for defect in (*ANYWHERE, *CLASSIC)),
    ],
    ids=lambda choices: choices.__name__ if callable(choices) else choices[0].blocks[0],
)
def test_defects(
    choices: tuple[world.Choice, ...],
    defect: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: Any,
) -> None:
    """Each of these defects is found, in each dialect that may have it."""
    monkeypatch.setattr(world, "CHOICES", choices)
    defect(monkeypatch)
    assert any(run(seed).wrong for seed in range(PATIENCE))
