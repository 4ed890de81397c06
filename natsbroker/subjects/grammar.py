"""
The grammar of subjects, and the relations between patterns. The functions are iterative, so a
subject may have any number of tokens, and none of them raises for any bytes.

A subject is one or more tokens joined by full stops. A token that is exactly C{*} stands for one
token; a last token that is exactly C{>} stands for one or more. Only whole tokens are wildcards:
C{foo*} and C{>bar} are literal tokens, as nats-server 2.15.1 was observed to treat them. A
I{pattern} may hold wildcards, a I{literal} does not.

Where this differs from nats-server, on purpose:

  - Control bytes (below 0x20, and 0x7f) and the space are refused everywhere. nats-server takes NUL
    and most control bytes; refusing them keeps them out of logs and of the line-based protocols
    between servers.
  - L{isSubset} and L{overlaps} read a token such as C{*foo} as a literal. nats-server's helpers
    look at the first byte of it only, and so take it for a wildcard in some comparisons.
"""

from __future__ import annotations

# `42 in subject` is many times as fast as `b"*" in subject`.
_STAR, _STOP, _FULL = b"*.>"

#: A longer text is not repeated in errors.
_SHOWN = 40

_REFUSED_BYTES = bytes(range(0x21)) + b"\x7f"


def isValidSubject(subject: bytes) -> bool:
    """
    Whether a client may subscribe to a subject. It may not to empty subjects or tokens (C{foo.},
    C{.foo}, C{foo..bar}), a C{>} that is not last (C{foo.>.bar}), or any space or control byte.
    """
    if not subject or subject[0] == _STOP or subject[-1] == _STOP or subject.find(b"..") >= 0:
        return False
    if _FULL in subject and (subject.startswith(b">.") or subject.find(b".>.") >= 0):
        return False
    return len(subject.translate(None, _REFUSED_BYTES)) == len(subject)


def hasWildcard(subject: bytes) -> bool:
    if _STAR in subject or _FULL in subject:
        parts = subject.split(b".")
        return b"*" in parts or b">" in parts
    return False


def isValidLiteral(subject: bytes) -> bool:
    return isValidSubject(subject) and not hasWildcard(subject)


def matches(pattern: bytes, literalSubject: bytes) -> bool:
    """
    Whether a message on this subject reaches a subscription to this pattern.

    The subject's own tokens are taken literally, C{*} and C{>} included: a message published to
    C{foo.*} reaches C{foo.*} and C{foo.>} but not C{foo.bar} (observed on nats-server 2.15.1). A
    subject with an empty token is matched by nothing.
    """
    given = literalSubject.split(b".")
    if b"" in given:
        return False
    wanted = pattern.split(b".")
    if wanted[-1] == b">":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
    elif len(given) != len(wanted):
        return False
    for want, have in zip(wanted, given, strict=False):
        if want != have and want != b"*":
            return False
    return True


def isSubset(narrow: bytes, wide: bytes) -> bool:
    """Whether every literal that C{narrow} matches is matched by C{wide}."""
    inner, outer = narrow.split(b"."), wide.split(b".")
    if outer[-1] == b">":
        outer.pop()
        if len(inner) <= len(outer):
            return False
    elif len(inner) != len(outer) or inner[-1] == b">":
        return False
    for inside, outside in zip(inner, outer, strict=False):
        if inside != outside and (outside != b"*" or inside in (b"", b">")):
            return False
    return True


def overlaps(a: bytes, b: bytes) -> bool:
    """Whether some literal is matched by both patterns: nats-server's colliding subjects."""
    left, right = a.split(b"."), b.split(b".")
    if left[-1] == b">":
        left.pop()
        if right[-1] == b">":
            right.pop()
        elif len(right) <= len(left):
            return False
    elif right[-1] == b">":
        right.pop()
        if len(left) <= len(right):
            return False
    elif len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=False):
        if one != other and one != b"*" and other != b"*":
            return False
    return True


def notBytes(given: object) -> str:
    """
    The end of an error about a value that should be bytes: its type, and how to convert a text.
    """
    if not isinstance(given, str):
        return f"{type(given).__name__}, not bytes"
    isShort = given.isascii() and len(given) <= _SHOWN
    return f"str, not bytes: write {given.encode()!r}" if isShort else "str, not bytes: encode it"
