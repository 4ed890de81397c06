"""
Reply subjects as they are spelt between clusters: with something in front that leads back to where
they are from::

    _GR_.<6 of the cluster>.<6 of the server>.<reply>
    $GR.<4 of the cluster>.<reply>                         as before NATS 2.1

Promises: pure functions over bytes.
Must never know: who is meant.
"""

from __future__ import annotations

__all__ = ["NEW", "OLD", "prefixOf", "splitMapped"]

NEW = b"_GR_."
OLD = b"$GR."

_NEW_LENGTH = len(NEW) + 6 + 1 + 6 + 1
_OLD_LENGTH = len(OLD) + 4 + 1
_SIGNS = (b"_", b"$")
_DOT = ord(".")


def prefixOf(subject: bytes) -> bytes:
    """
    What leads a mapped subject back; no bytes for a subject that is not mapped.
    """
    if subject[:1] not in _SIGNS:
        return b""
    if subject.startswith(NEW) and len(subject) > _NEW_LENGTH:
        isWhole = subject[len(NEW) + 6] == subject[_NEW_LENGTH - 1] == _DOT
        return subject[:_NEW_LENGTH] if isWhole else b""
    if subject.startswith(OLD) and len(subject) > _OLD_LENGTH:
        return subject[:_OLD_LENGTH] if subject[_OLD_LENGTH - 1] == _DOT else b""
    return b""


def splitMapped(subject: bytes) -> tuple[bytes, bytes]:
    """
    What leads a subject back, or no bytes, and the subject itself.
    """
    prefix = prefixOf(subject)
    return prefix, subject[len(prefix) :]
