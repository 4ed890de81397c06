"""
The checks of schedules.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.jetstream.streams.stream import Stream
from tests.jetstream.support import Stage

_EVERY = {"Nats_Schedule": "@every 1h", "Nats_Schedule_Target": "s.target"}


def _stream(stage: Stage, **config: object) -> Stream:
    return stage.stream(**{"allow_msg_schedules": True, "allow_rollup_hdrs": True, **config})


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Nats_Schedule": "zork"}, 10189),
        ({"Nats_Schedule": "@every 1ms"}, 10189),
        ({"Nats_Schedule": "@every 1h", "Nats_Schedule_Time_Zone": "UTC"}, 10189),
        ({"Nats_Schedule": "@daily", "Nats_Schedule_Time_Zone": "zork"}, 10223),
        ({"Nats_Schedule_Time_Zone": ""}, 10223),
        ({**_EVERY, "Nats_Schedule_TTL": "zork"}, 10191),
        ({**_EVERY, "Nats_Schedule_Rollup": "all"}, 10192),
        ({**_EVERY, "Nats_Schedule_TTL": "5m"}, 10166),
        ({"Nats_Schedule": "@every 1h"}, 10190),
        ({**_EVERY, "Nats_Schedule_Target": "s.a"}, 10190),
        ({**_EVERY, "Nats_Schedule_Target": "s.*"}, 10190),
        ({**_EVERY, "Nats_Schedule_Target": "other"}, 10190),
        ({**_EVERY, "Nats_Schedule_Source": "s.target"}, 10203),
        ({**_EVERY, "Nats_Schedule_Source": "s.a"}, 10203),
        ({**_EVERY, "Nats_Schedule_Source": "s.>"}, 10203),
        ({**_EVERY, "Nats_Schedule_Source": "other"}, 10203),
        ({**_EVERY, "Nats_Rollup": "all"}, 10192),
        ({"Nats_Scheduler": "s.b"}, 10212),
        ({"Nats_Schedule_Next": "purge"}, 10212),
        ({"Nats_Schedule_Next": "zork", "Nats_Scheduler": "s.b"}, 10212),
        ({"Nats_Schedule_Next": "purge", "Nats_Scheduler": "s.a"}, 10212),
        ({"Nats_Schedule_Next": "purge", "Nats_Scheduler": "s.*"}, 10212),
    ],
)
def test_wrongHeaders(headers: dict[str, str], code: int) -> None:
    """A schedule with a forbidden header is refused."""
    stage = Stage()
    _stream(stage)
    assert stage.errorOf(stage.publish(b"s.a", b"x", **headers))[0] == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (_EVERY, 10188),
        ({"Nats_Schedule": "zork"}, 10188),
        ({"Nats_Schedule_Next": "purge", "Nats_Scheduler": "s.b"}, 10188),
        ({"Nats_Scheduler": "s.b"}, 10212),
    ],
)
def test_notAllowed(headers: dict[str, str], code: int) -> None:
    """
    A stream without schedules refuses C{Nats-Schedule}. The other headers of schedules alone have
    no effect.
    """
    stage = Stage()
    stage.stream()
    assert stage.errorOf(stage.publish(b"s.a", b"x", **headers))[0] == code
    assert b'"seq":1' in stage.publish(b"s.a", b"x", Nats_Schedule_Target="zork")


def test_stored() -> None:
    """A new schedule replaces the former schedule of its subject, and is stored as a rollup."""
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"1", **_EVERY)
    stage.publish(b"s.a", b"2", **_EVERY, Nats_Rollup="sub")
    assert stage.stored(stream) == [(2, b"s.a", b"2")]
    stage.publish(b"s.b", b"3", **_EVERY)
    record = stage.wait(stream.get(3))
    assert record is not None
    assert record.headers.endswith(b"Nats-Schedule-Target: s.target\r\nNats-Rollup: sub\r\n\r\n")


def test_end() -> None:
    """
    A message with C{Nats-Schedule-Next: purge} ends the schedule that it names, and is refused if
    that subject has no schedule.
    """
    stage = Stage()
    stream = _stream(stage)
    end = {"Nats_Schedule_Next": "purge", "Nats_Scheduler": "s.a"}
    stage.publish(b"s.a", b"1", **_EVERY)
    assert b'"seq":2' in stage.publish(b"s.cancelled", b"2", **end)
    assert b'"seq":3' in stage.publish(b"s.cancelled", b"3", **end)
    assert [record[0] for record in stage.stored(stream)] == [2, 3]
    stage.publish(b"s.a", b"4")
    assert stage.errorOf(stage.publish(b"s.cancelled", b"5", **end))[0] == 10212


def test_inBatches() -> None:
    """
    In an atomic batch, a message may end a schedule that an earlier message of the batch begins.
    """
    stage = Stage()
    stream = _stream(stage, allow_atomic=True)
    end = {"Nats_Schedule_Next": "purge", "Nats_Scheduler": "s.a"}

    def batch(*messages: tuple[bytes, dict[str, str]]) -> bytes:
        answer = b""
        for number, (subject, headers) in enumerate(messages, 1):
            commit = {"Nats_Batch_Commit": "1"} if number == len(messages) else {}
            place = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)}
            answer = stage.publish(subject, b"x", **place, **commit, **headers)
        return answer

    assert json.loads(batch((b"s.a", _EVERY), (b"s.b", end)))["count"] == 2
    assert [record[:2] for record in stage.stored(stream)] == [(2, b"s.b")]
    assert stage.errorOf(batch((b"s.a", {}), (b"s.b", end)))[0] == 10212
    assert stage.errorOf(batch((b"s.c", {}), (b"s.a", {"Nats_Schedule": "zork"})))[0] == 10189
