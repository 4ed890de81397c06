"""
The answers of the API, key by key as nats-server sends them.
"""

from __future__ import annotations

from natsbroker.interfaces.records import SubjectTally
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.answers import (
    SUBJECTS_LIMIT,
    SubjectsPage,
    accountInfo,
    page,
    pauseState,
    sourceInfo,
    storedMessage,
    tiersInfo,
)
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.model.streamconfig import (
    External,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.wire.timestamps import ZERO_TIME

_ZERO = '"0001-01-01T00:00:00Z"'


def test_sourceInfo() -> None:
    """
    A source that never answered has C{"active":-1}, and every key stands in nats-server's order.
    """
    assert encode(sourceInfo(StreamSource("M"))) == b'{"name":"M","lag":0,"active":-1}'
    source = StreamSource(
        "M",
        filter_subject="f",
        subject_transforms=(SubjectTransformConfig("a", "b"),),
        external=External("$JS.x.API"),
    )
    info = sourceInfo(source, lag=5, active=7, seq=9, error=errors.STREAM_NOT_FOUND())
    assert " ".join(info) == (
        "name external lag seq active error filter_subject subject_transforms"
    )
    assert info["external"] == {"api": "$JS.x.API", "deliver": ""}
    assert info["subject_transforms"] == [{"src": "a", "dest": "b"}]


def test_pauseState() -> None:
    """A pause until a past time shows C{paused} as false, with that time."""
    assert pauseState(ZERO_TIME, 5) == {"paused": False, "pause_until": "0001-01-01T00:00:00Z"}
    assert pauseState(5, 5)["paused"] is False
    assert list(pauseState(7, 5).items()) == [
        ("paused", True),
        ("pause_until", "1970-01-01T00:00:00.000000007Z"),
        ("pause_remaining", 2),
    ]


def test_page() -> None:
    """
    A page shows an offset beyond its end as the end. If there are no streams, their names are null.
    """
    assert list(page(["a", "b", "c"], 1, 1, "streams").items()) == [
        ("total", 3),
        ("offset", 1),
        ("limit", 1),
        ("streams", ["b"]),
    ]
    assert page([], 400, 1024, "streams", isNullable=True)["streams"] is None
    assert page(["a"], 400, 1024, "consumers") == {
        "total": 1,
        "offset": 1,
        "limit": 1024,
        "consumers": [],
    }


def test_subjectsPage() -> None:
    """
    A page of subjects shows the offset of the request. If no subject matches, all numbers are zero.
    """
    nothing = SubjectsPage(7)
    assert nothing.paging == {"total": 0, "offset": 0, "limit": 0}
    assert not nothing.shown
    page = SubjectsPage(2)
    for names in (b"a", b"bc", b"d"):
        page.add({bytes((name,)): SubjectTally(name, 1, 2) for name in names})
    assert page.paging == {"total": 4, "offset": 2, "limit": SUBJECTS_LIMIT}
    assert encode(["a", page.shown, "b"]) == b'["a",{"c":99,"d":100},"b"]'
    behind = SubjectsPage(9)
    behind.add({b"a": SubjectTally(2, 1, 2)})
    assert (behind.paging["total"], bool(behind.shown)) == (1, False)


def test_storedMessage() -> None:
    """A stored message has headers and body in base64. Empty ones are left out."""
    assert encode(storedMessage("a", 3, 0)) == (
        b'{"subject":"a","seq":3,"time":"1970-01-01T00:00:00Z"}'
    )
    assert list(storedMessage("a", 3, 0, b"NATS/1.0\r\n\r\n", b"x").items()) == [
        ("subject", "a"),
        ("seq", 3),
        ("hdrs", "TkFUUy8xLjANCg0K"),
        ("data", "eA=="),
        ("time", "1970-01-01T00:00:00Z"),
    ]


def test_accountInfo() -> None:
    """The account's info has its keys in nats-server's order."""
    info = accountInfo(
        memory=1,
        storage=2,
        reservedMemory=3,
        reservedStorage=4,
        streams=5,
        consumers=6,
        limits=JetStreamLimits(),
        domain="d",
        requests=9,
        inflight=2,
    )
    assert " ".join(info) == (
        "memory storage reserved_memory reserved_storage streams consumers limits domain api"
    )
    assert list(info.values())[:6] == [1, 2, 3, 4, 5, 6]
    assert list(info["api"].items()) == [
        ("level", 5),
        ("total", 9),
        ("errors", 0),
        ("inflight", 2),
    ]


def test_tiersInfo() -> None:
    """The usage of an account is shown under the tier R1, even if only other tiers have limits."""
    used = dict.fromkeys(
        ("memory", "storage", "reserved_memory", "reserved_storage", "streams", "consumers"), 2
    )
    three = {"R3": JetStreamLimits(max_streams=5)}
    tiers = tiersInfo(AccountAllowance(tiers={"R1": JetStreamLimits(), **three}), used)
    assert list(tiers) == ["R1", "R3"]
    assert (tiers["R1"]["streams"], tiers["R1"]["limits"]["max_streams"]) == (2, -1)
    assert (tiers["R3"]["streams"], tiers["R3"]["limits"]["max_streams"]) == (0, 5)
    allowance = AccountAllowance(tiers=three)
    assert list(tiersInfo(allowance, dict.fromkeys(used, 0))) == ["R3"]
    tiers = tiersInfo(allowance, used)
    assert (list(tiers), tiers["R1"]["limits"]["max_streams"]) == (["R1"], 0)
