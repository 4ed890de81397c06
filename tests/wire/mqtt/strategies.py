"""Any packet of MQTT that may be sent, from the tables of properties and packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from natsbroker.wire.mqtt import fields, packets, properties
from natsbroker.wire.mqtt.packets import MQTT_3_1, MQTT_3_1_1, MQTT_5, Packet
from natsbroker.wire.mqtt.properties import NONE, Properties, Property
from natsbroker.wire.mqtt.reasons import CLIENT_REASONS, RETURN_CODES, SERVER_REASONS, ReasonCode

LEVELS = st.sampled_from([MQTT_3_1, MQTT_3_1_1, MQTT_5])

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TOPICS = TEXTS.filter(lambda text: text and not set(text) & set("#+"))
_BINARY = st.binary(max_size=12)
_SHORTS = st.integers(0, 0xFFFF)
_IDS = st.integers(1, 0xFFFF)

_BY_TYPE: Mapping[fields.FieldType, st.SearchStrategy[Any]] = {
    fields.BYTE: st.integers(0, 255),
    fields.SHORT: _SHORTS,
    fields.LONG: st.integers(0, 0xFFFF_FFFF),
    fields.VARINT: st.integers(0, fields.LARGEST_VARINT),
    fields.BINARY: _BINARY,
    fields.TEXT: TEXTS,
    fields.PAIR: st.tuples(TEXTS, TEXTS),
}


def _valuesOf(declared: Property, packet: str) -> st.SearchStrategy[Any]:
    single = _BY_TYPE[declared.type].filter(lambda value: declared.check(value) is None)
    if not declared.isRepeated:
        return single
    most = 3 if packet in declared.repeating else 1
    return st.lists(single, min_size=1, max_size=most).map(tuple)


def propertiesOf(packet: str, isOfClient: bool) -> st.SearchStrategy[Properties]:
    """Properties that the packet may have."""
    return st.fixed_dictionaries(
        {},
        optional={
            declared: _valuesOf(declared, packet)
            for declared in properties.BY_NUMBER.values()
            if packet in (declared.clients if isOfClient else declared.servers)
        },
    )


def _reasons(packet: str, isOfClient: bool) -> st.SearchStrategy[ReasonCode]:
    codes = (CLIENT_REASONS if isOfClient else SERVER_REASONS).get(packet, {})
    return st.sampled_from([*codes.values()])


def _wills(level: int) -> st.SearchStrategy[packets.Will]:
    given = propertiesOf("WILL", True) if level == MQTT_5 else st.just(NONE)
    return st.builds(packets.Will, TOPICS, _BINARY, st.integers(0, 2), st.booleans(), given)


def _connects(level: int) -> st.SearchStrategy[packets.Connect]:
    given = propertiesOf("CONNECT", True) if level == MQTT_5 else st.just(NONE)
    passwords = st.one_of(st.none(), _BINARY)
    users: st.SearchStrategy[tuple[str | None, bytes | None]]
    users = st.one_of(st.tuples(TEXTS, passwords), st.just((None, None)))
    if level == MQTT_5:
        users = st.one_of(users, st.tuples(st.none(), _BINARY))
    wills = st.one_of(st.none(), _wills(level))
    first = st.tuples(TEXTS, st.booleans(), _SHORTS)
    rest = st.tuples(wills, given)
    return st.builds(lambda *parts: packets.Connect(level, *sum(parts, ())), first, users, rest)


@st.composite
def _publishes(draw: Any, level: int, isOfClient: bool) -> packets.Publish:
    qos = draw(st.integers(0, 2))
    given = draw(propertiesOf("PUBLISH", isOfClient)) if level == MQTT_5 else NONE
    isAliased = properties.TOPIC_ALIAS in given
    topic = draw(st.one_of(st.just(""), TOPICS) if isAliased else TOPICS)
    isDuplicate = bool(qos) and draw(st.booleans())
    packetID = draw(_IDS) if qos else 0
    payload, retain = draw(_BINARY), draw(st.booleans())
    return packets.Publish(topic, payload, qos, retain, isDuplicate, packetID, given)


def _requests(level: int) -> st.SearchStrategy[packets.FilterRequest]:
    if level < MQTT_5:
        return st.builds(packets.FilterRequest, TEXTS, st.integers(0, 2))
    options = (st.booleans(), st.booleans(), st.integers(0, 2))
    return st.builds(packets.FilterRequest, TEXTS, st.integers(0, 2), *options).filter(
        lambda request: not (request.noLocal and request.filter.startswith("$share/"))
    )


def _some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=1, max_size=4).map(tuple)


def _withReasons(packet: type[Any], level: int, isOfClient: bool) -> st.SearchStrategy[Any]:
    """The packets whose fields are what else the table says, with reasons and properties."""
    name = packet.__name__.upper()
    isNew = level == MQTT_5
    given = propertiesOf(name, isOfClient) if isNew else st.just(NONE)
    reasons = _reasons(name, isOfClient) if isNew else st.just(ReasonCode.SUCCESS)
    if packet is packets.Connack:
        if not isNew:
            reasons = st.sampled_from([*RETURN_CODES])
        return st.builds(packet, reasons, st.booleans(), given)
    if packet in (packets.Disconnect, packets.Auth):
        return st.builds(packet, reasons, given)
    if packet in (packets.Suback, packets.Unsuback):
        if packet is packets.Suback and not isNew:
            reasons = st.sampled_from([*map(ReasonCode, (0, 1, 2, 0x80))])
        listed = _some(reasons) if isNew or packet is packets.Suback else st.just(())
        return st.builds(packet, _IDS, listed, given)
    return st.builds(packet, _IDS, reasons, given)


def packetsOf(packet: type[Any], level: int, isOfClient: bool) -> st.SearchStrategy[Packet]:
    """Packets of one class that the side may send."""
    given = propertiesOf(packet.__name__.upper(), isOfClient) if level == MQTT_5 else st.just(NONE)
    if packet is packets.Connect:
        return _connects(level)
    if packet is packets.Publish:
        return _publishes(level, isOfClient)
    if packet is packets.Subscribe:
        return st.builds(packet, _IDS, _some(_requests(level)), given)
    if packet is packets.Unsubscribe:
        return st.builds(packet, _IDS, _some(TEXTS), given)
    if packet in (packets.Pingreq, packets.Pingresp):
        return st.builds(packet)
    return _withReasons(packet, level, isOfClient)
