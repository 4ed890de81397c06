"""
The messages of NATS Streaming, as protobuf classes of C{protocol.proto} beside this file. Bytes
that are not a message raise C{Malformed}.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    # So that workers of Spark, which have no zope.interface, load the messages.
    from natsbroker.interfaces import IMessageBus

#: The library's error for bytes that are not a message.
Malformed = DecodeError


def messageClasses(package: str, name: str) -> dict[str, Any]:
    """The message classes of a file, by name, in a pool of their own."""
    compiled = files(package).joinpath(f"{name}.binpb").read_bytes()
    (file,) = FileDescriptorSet.FromString(compiled).file
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    messages = pool.FindFileByName(file.name).message_types_by_name
    return {
        messageName: GetMessageClass(descriptor) for messageName, descriptor in messages.items()
    }


_classes = messageClasses("natsbroker.streaming", "protocol")

ConnectRequest: Any = _classes["ConnectRequest"]
ConnectResponse: Any = _classes["ConnectResponse"]
Ping: Any = _classes["Ping"]
PingResponse: Any = _classes["PingResponse"]
PubMsg: Any = _classes["PubMsg"]
PubAck: Any = _classes["PubAck"]
MsgProto: Any = _classes["MsgProto"]
Ack: Any = _classes["Ack"]
SubscriptionRequest: Any = _classes["SubscriptionRequest"]
SubscriptionResponse: Any = _classes["SubscriptionResponse"]
UnsubscribeRequest: Any = _classes["UnsubscribeRequest"]
CloseRequest: Any = _classes["CloseRequest"]
CloseResponse: Any = _classes["CloseResponse"]

NEW_ONLY, LAST_RECEIVED, TIME_DELTA_START, SEQUENCE_START, FIRST = range(5)
"""The values of C{StartPosition}."""


def decode(messageClass: Any, data: bytes) -> Any:
    return messageClass.FromString(data)


class Replies:
    """Sends responses. A request without a reply subject has none."""

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus

    def send(self, reply: bytes, response: Any) -> None:
        if reply:
            self._bus.publishInternal(reply, response.SerializeToString())

    def connectError(self, reply: bytes, text: str) -> None:
        self.send(reply, ConnectResponse(error=text))

    def publishError(self, reply: bytes, guid: str, text: str) -> None:
        self.send(reply, PubAck(guid=guid, error=text))

    def subscription(self, reply: bytes, text: str = "") -> None:
        self.send(reply, SubscriptionResponse(error=text))

    def close(self, reply: bytes, text: str = "") -> None:
        self.send(reply, CloseResponse(error=text))
