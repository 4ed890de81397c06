"""Packets of MQTT as values."""

from __future__ import annotations

import pytest

from natsbroker.wire.mqtt.fields import Reader, text
from natsbroker.wire.mqtt.packets import Connect, Entries, Puback, Pubrec
from natsbroker.wire.mqtt.reasons import PacketError


class TestEntries:
    """The list at the end of a packet."""

    def test_readTwice(self) -> None:
        """A list can be read again, and equals what it holds."""
        reader = Reader(b"xx" + text("a") + text("b"), at=2)
        entries = Entries(reader, Reader.text)
        assert reader.isAtEnd
        assert list(entries) == list(entries) == ["a", "b"]
        assert entries == ("a", "b")
        assert entries != ("a",)
        assert entries != 3

    def test_wrongEntry(self) -> None:
        """A wrong entry is an error when it is reached."""
        entries = iter(Entries(Reader(text("a") + b"\0\1\xff"), Reader.text))
        assert next(entries) == "a"
        with pytest.raises(PacketError):
            next(entries)


def test_kinds() -> None:
    """Acknowledgements of different kinds are different."""
    assert Puback(1) == Puback(1)
    packets: list[object] = [Puback(1), Pubrec(1)]
    assert packets[0] != packets[1]


def test_secret() -> None:
    """A password is not shown."""
    assert "geheim" not in repr(Connect(password=b"geheim"))
