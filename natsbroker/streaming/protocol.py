"""
The messages of NATS Streaming, as classes of Google's protobuf library.

Promises: the fields and numbers of C{protocol.proto}, which stands beside this file and is what is
loaded; bytes that are no such message raise L{Malformed} and nothing else.
Must never know: what is done with a message.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf.message import DecodeError

from natsbroker.streaming.schema import messageClasses

__all__ = [
    "FIRST",
    "LAST_RECEIVED",
    "NEW_ONLY",
    "SEQUENCE_START",
    "TIME_DELTA_START",
    "Ack",
    "CloseRequest",
    "CloseResponse",
    "ConnectRequest",
    "ConnectResponse",
    "Malformed",
    "MsgProto",
    "Ping",
    "PingResponse",
    "PubAck",
    "PubMsg",
    "SubscriptionRequest",
    "SubscriptionResponse",
    "UnsubscribeRequest",
    "decode",
]

#: What the library raises for bytes that are no message.
Malformed = DecodeError

_text = files("natsbroker.streaming").joinpath("protocol.proto").read_text("utf-8")
_classes = messageClasses(_text, "natsbroker/streaming/protocol.proto")

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
    """
    Read a message.

    @raise Malformed: if the bytes are none.
    """
    return messageClass.FromString(data)
