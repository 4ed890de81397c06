"""
The tests for everything that the broker answers and stores. Each service, each store and each
module that writes needs a row here, or a test fails.

B4: work for nobody ends. H1: what must happen later is remembered. H2: a read is one consistent
statement. That of origins (A1) is in L{tests.attacks.test_origins}.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import natsbroker
from tests.attacks.test_origins import SERVING
from tests.listed import Listed, missingFrom, within

ROOT = Path(natsbroker.__file__).parent
TESTS = Path(__file__).parents[1]

_ENDS = within("tests/attacks/test_ends.py", "test_ended")
_POSITIONS = within(
    "tests/jetstream/sources/test_sourcepositions.py", "test_failedWrite", "test_startIsKept"
)
_DEADPULLS = "tests/interop/jetstream/test_deadpulls.py"
_HOLDS = "tests/export/test_holds.py::TestEnd"
_OUTCOMES = "tests/jetstream/streams/test_outcomes.py"
_RANGES = "tests/export/test_ranges.py"
_RECEIVING = "tests/jetstream/snapshots/test_receiving.py"
_SENDING = "tests/jetstream/snapshots/test_sending.py"
_UPKEEP = "tests/jetstream/streams/test_upkeep.py"

#: B4, by the module that serves requests.
ENDS: dict[str, tuple[str, ...] | str] = {
    "runtime/responder.py": within("tests/system/test_requests.py", "test_wanted"),
    "export/service.py": (*_ENDS, f"{_RANGES}::TestGone::test_unsubscribed"),
    "gateways/advicerequests.py": "an answer takes one step",
    "jetstream/api/dispatcher.py": _ENDS,
    "jetstream/api/refusals.py": "an answer takes one step",
    "jetstream/cluster/metarequests.py": "an answer takes one step",
    "jetstream/cluster/peers.py": "other brokers wait for the answer",
    "jetstream/consumers/consumer.py": within(_DEADPULLS, "test_twoAccounts", "test_members"),
    "jetstream/snapshots/receiving.py": within(_RECEIVING, "test_stalled"),
    "jetstream/snapshots/sending.py": within(
        _SENDING, "test_noFlowResponse", "test_noInterest", "test_deletedStream"
    ),
    "jetstream/streams/directget.py": _ENDS,
    "streaming/requests/dispatcher.py": "an answer takes one step",
    "streaming/requests/subscribe.py": within(
        "tests/streaming/test_delivery.py", "TestCatchingUp::test_closedMeanwhile"
    ),
}

#: H1, by the module that writes to a store.
WRITES: dict[str, tuple[str, ...] | str] = {
    "export/holds.py": within(_HOLDS, "test_storeRefuses", "test_endIsKept", "test_logIsGone"),
    "jetstream/api/consumers.py": "who asks has the error",
    "jetstream/api/streams.py": "who asks has the error",
    "jetstream/channels/channelstreams.py": within(
        "tests/jetstream/channels/test_channelstreams.py",
        "test_fullStore",
        "test_storeFailsAtStart",
    ),
    "jetstream/cluster/accountcluster.py": within(
        "tests/jetstream/cluster/test_accountcluster.py", "test_unfinished"
    ),
    "jetstream/consumers/statewriter.py": within(
        "tests/jetstream/consumers/test_statewriter.py", "test_failureIsRetried"
    ),
    "jetstream/snapshots/restoring.py": "who restores has the error",
    "jetstream/sources/mirroring.py": _POSITIONS,
    "jetstream/sources/origins.py": _POSITIONS,
    "jetstream/sources/sourcepositions.py": _POSITIONS,
    "jetstream/sources/sourcing.py": _POSITIONS,
    "jetstream/statecopies.py": "writes for the others",
    "jetstream/streams/lookups.py": "only waits",
    "jetstream/streams/outcomes.py": within(_OUTCOMES, "TestUnknownOutcome::test_twice"),
    "jetstream/streams/streamrecords.py": "only waits",
    "jetstream/streams/recovery.py": (
        *within(_UPKEEP, "TestDeleted::test_stream", "TestSettled::test_afterRestart"),
        *within("tests/jetstream/test_damage.py", "test_damagedConsumerDeleted"),
    ),
    "jetstream/streams/storageuse.py": "publishers have the error",
    "jetstream/streams/stream.py": within(_UPKEEP, "TestDeleted::test_consumer"),
    "jetstream/streams/streamcore.py": within(
        _UPKEEP, "TestSettled::test_laterRemoved", "test_limits"
    ),
    "streaming/channels.py": within("tests/streaming/test_channels.py", "test_cannotBeDeleted"),
    "streaming/filestore/importer.py": within(
        "tests/streaming/filestore/test_importer.py", "TestTwice::test_interrupted"
    ),
    "streaming/ledger.py": within(
        "tests/streaming/test_ledger.py",
        *("TestFailures::test_progress", "TestFailures::test_failedDeletion"),
    ),
    "streaming/model.py": "publishers have the error",
}

_RULES = {"B4": ENDS, "H1": WRITES}
_WRITING = {
    "append",
    "change",
    "delete",
    "discardBefore",
    "drop",
    "hold",
    "put",
    "release",
    "skipTo",
}
_STORES = {"CopiedStates", "files", "log", "memory", "states", "store"}


def _writers() -> Iterator[str]:
    """The modules of services that write to a store."""
    for package in ("export", "jetstream", "streaming"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and node.attr in _WRITING:
                    called = node.value.func if isinstance(node.value, ast.Call) else node.value
                    name = getattr(called, "attr", getattr(called, "id", ""))
                    if name.lstrip("_") in _STORES:
                        yield path.relative_to(ROOT).as_posix()


def test_services() -> None:
    """Each module that serves requests declares how work ends when the requester has gone."""
    assert set(ENDS) == set(SERVING)


def test_writes() -> None:
    """Each module that writes declares how a failed write is handled."""
    assert set(WRITES) == set(_writers())


def test_stores() -> None:
    """
    Each store that is tested with the contract of logs is tested with that of readers too (H2).
    """
    for path in (TESTS / "storage").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert "LogContract" not in bases or "ReadersContract" in bases, path


@pytest.mark.parametrize("rule", _RULES)
def test_tests(rule: str) -> None:
    """Each test that a rule names exists."""
    for name, tests in _RULES[rule].items():
        if isinstance(tests, tuple):
            assert missingFrom(Listed(name, tests)) == []
