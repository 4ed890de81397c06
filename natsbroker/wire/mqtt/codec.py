"""
Packets out of the bytes of one MQTT connection, and their bytes, without a transport.

The size of a packet is checked when its first bytes have come. What is wrong with the input raises
L{natsbroker.wire.mqtt.reasons.PacketError}, and no other exception; nothing can be read after it.
"""

from __future__ import annotations

from natsbroker.wire.mqtt.fields import LARGEST_VARINT, Reader, varint, varintAt
from natsbroker.wire.mqtt.layouts import BY_PACKET, LAYOUTS, Layout, readLevel
from natsbroker.wire.mqtt.packets import MQTT_5, Connect, Packet
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode, malformed, violation

#: The largest packet that the protocol has: the first byte, the length, and the body.
LARGEST = 1 + 4 + LARGEST_VARINT

#: The handled bytes that are kept in front of the others, as removing them moves these.
_KEPT = 1 << 16


class PacketDecoder:
    """
    @ivar maximum: the most bytes of a packet.
    @ivar level: the level of the protocol; 0 before CONNECT.
    """

    def __init__(self, maximum: int = LARGEST, isOfClient: bool = True, level: int = 0) -> None:
        """
        @param isOfClient: whether the bytes are of a client. It has to send CONNECT first, if
            C{level} is 0.
        """
        self.maximum = maximum
        self.level = level
        self._isOfClient = isOfClient
        self._input = bytearray()
        self._at = 0
        self._layout: Layout | None = None
        self._bits = 0
        self._size = -1

    def feed(self, data: bytes) -> None:
        self._input += data

    @property
    def pending(self) -> int:
        """The number of bytes that no packet was made of yet."""
        return len(self._input) - self._at

    def next(self) -> Packet | None:
        """The next packet; C{None} if more input is needed."""
        layout = self._layout or self._begin()
        if layout is None or not self._hasSize() or self.pending < self._size:
            return None
        end = self._at + self._size
        reader = Reader(bytes(self._input[self._at : end]), self._isOfClient)
        self._used(end)
        self._layout, self._size = None, -1
        return self._read(layout, reader)

    def _begin(self) -> Layout | None:
        if self._at >= len(self._input):
            return None
        first = self._input[self._at]
        layout = LAYOUTS.get(first >> 4)
        if layout is None:
            raise malformed("a packet of an unknown type")
        self._check(layout)
        self._bits = first & 0x0F
        if layout.bits is not None and layout.bits != self._bits:
            raise malformed(f"reserved bits of {layout.name}")
        self._at += 1
        self._layout = layout
        return layout

    def _check(self, layout: Layout) -> None:
        """Raise L{PacketError} for a packet that cannot come now."""
        if not (layout.isOfClients if self._isOfClient else layout.isOfServers):
            raise violation(f"{layout.name} from the wrong side")
        if (self.level == 0) != (layout.packet is Connect):
            raise violation(f"{layout.name} {'after' if self.level else 'before'} CONNECT")
        if self.level and self.level not in layout.levels:
            raise malformed(f"{layout.name} before MQTT 5")

    def _hasSize(self) -> bool:
        """Whether the length of the packet has come, which is within the maximum."""
        if self._size >= 0:
            return True
        size, width = varintAt(self._input, self._at)
        if not width:
            return False
        if 1 + width + size > self.maximum:
            raise PacketError(ReasonCode.PACKET_TOO_LARGE, "a packet that is too large")
        self._at += width
        self._size = size
        return True

    def _used(self, end: int) -> None:
        self._at = end
        if end >= len(self._input) or end > _KEPT:
            del self._input[:end]
            self._at = 0

    def _read(self, layout: Layout, reader: Reader) -> Packet:
        if layout.packet is Connect:
            # Known already when the rest of the packet is wrong, so that it can be answered.
            self.level = readLevel(Reader(reader.data, self._isOfClient))
        packet: Packet = layout.read(reader, self._bits, self.level)
        if not reader.isAtEnd:
            raise malformed(f"bytes behind the fields of {layout.name}")
        return packet


def encoded(packet: Packet, level: int = MQTT_5) -> bytes:
    """
    The bytes of a packet.

    @raise ValueError: if a field is too long.
    """
    layout: Layout = BY_PACKET[type(packet)]
    bits, body = layout.write(packet, level)
    return framed(layout.number << 4 | bits, body)


def framed(first: int, body: bytes) -> bytes:
    if len(body) > LARGEST_VARINT:
        raise ValueError("a packet of more than 268,435,455 bytes")
    return bytes([first]) + varint(len(body)) + body
