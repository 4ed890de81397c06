"""
The spelling of reply subjects between servers. Between clusters they have a prefix that leads back
to their origin. An acknowledgement subject of JetStream has a suffix: the subject that the message
has in its stream::

    _GR_.<6 of the cluster>.<6 of the server>.<reply>
    $GR.<4 of the cluster>.<reply>                         as before NATS 2.1
    $JS.ACK.<7 tokens>@<subject in the stream>
"""

from __future__ import annotations

import re

NEW = b"_GR_."
OLD = b"$GR."

#: The beginning of the reply subjects to which clients acknowledge JetStream's messages.
ACKNOWLEDGEMENT = b"$JS.ACK."

#: Names of streams and consumers may contain an @: the separator is the first one behind the
#: eighth dot.
_TOKENS = re.compile(rb"(?:[^.]*\.){8}[^@]*")

_NEW_LENGTH = len(NEW) + 6 + 1 + 6 + 1
_OLD_LENGTH = len(OLD) + 4 + 1
_SIGNS = (b"_", b"$")
_DOT = ord(".")


def prefixOf(subject: bytes) -> bytes:
    if subject[:1] not in _SIGNS:
        return b""
    if subject.startswith(NEW) and len(subject) > _NEW_LENGTH:
        isWhole = subject[len(NEW) + 6] == subject[_NEW_LENGTH - 1] == _DOT
        return subject[:_NEW_LENGTH] if isWhole else b""
    if subject.startswith(OLD) and len(subject) > _OLD_LENGTH:
        return subject[:_OLD_LENGTH] if subject[_OLD_LENGTH - 1] == _DOT else b""
    return b""


def splitMapped(subject: bytes) -> tuple[bytes, bytes]:
    prefix = prefixOf(subject)
    return prefix, subject[len(prefix) :]


def splitReply(reply: bytes) -> tuple[bytes, bytes, bytes]:
    """
    The prefix that leads back, the reply subject for receivers, and the subject for clients (see
    L{natsbroker.wire.values.Message}). The first and the last may be empty.
    """
    prefix, reply = splitMapped(reply)
    if reply.startswith(ACKNOWLEDGEMENT):
        tokens = _TOKENS.match(reply)
        end = len(reply) if tokens is None else tokens.end()
        if end < len(reply) - 1:
            return prefix, reply[:end], reply[end + 1 :]
    return prefix, reply, b""
