"""
From what was read to permissions.

This module promises frozen L{Permissions} whose subjects are well formed.  It must never
know whose permissions they are.
"""

from __future__ import annotations

from natsbroker.auth.settings import Permissions, ResponsePermission, SubjectPermission
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.subjects.grammar import isValidSubject

EMPTY_ALLOW = (
    "an empty list allows nothing here but everything in nats-server; "
    'leave it out to allow everything, or deny ">" to allow nothing'
)


def permissionsFrom(block: ParsedBlock, findings: Diagnostics) -> Permissions:
    """
    Make the permissions of a C{permissions} block.

    An empty C{allow} is an error: nats-server 2.15 takes it for no restriction at all,
    which is hardly ever what was meant.
    """
    publish = _direction(block, "publish", findings)
    subscribe = _direction(block, "subscribe", findings)
    responses = _responses(block)
    if responses is not None:
        publish = publish or SubjectPermission()
        if publish.allow is None:
            publish = SubjectPermission((), publish.deny)
    return Permissions(publish, subscribe, responses)


def _direction(block: ParsedBlock, name: str, findings: Diagnostics) -> SubjectPermission | None:
    if name not in block:
        return None
    inner = block.block(name)
    if inner is None:
        return SubjectPermission(_subjects(block, name, name, findings))
    if not inner.positions:
        return None
    allow = _subjects(inner, "allow", name, findings) if "allow" in inner else None
    deny = _subjects(inner, "deny", name, findings) if "deny" in inner else ()
    return SubjectPermission(allow, deny)


def _subjects(
    block: ParsedBlock, name: str, direction: str, findings: Diagnostics
) -> tuple[str, ...]:
    subjects = block.texts(name)
    path, position = block.pathTo(name), block.place(name)
    if not subjects and name != "deny":
        findings.error(EMPTY_ALLOW, path, position)
    for subject in subjects:
        wrong = _complaint(subject, direction == "subscribe")
        if wrong:
            findings.error(wrong, path, position)
    return subjects


def _complaint(entry: str, queues: bool) -> str:
    """
    Say what is wrong with an entry, which may name a queue group where that is allowed.
    """
    if _valid(entry):
        return ""
    words = entry.split()
    if not queues or len(words) != 2:
        return f'subject "{entry}" is not a valid subject'
    if not _valid(words[0]):
        return f'subject "{words[0]}" is not a valid subject'
    if not _valid(words[1]):
        return f'queue "{words[1]}" is not a valid queue'
    return ""


def _valid(subject: str) -> bool:
    return isValidSubject(subject.encode("utf-8", "surrogateescape"))


def _responses(block: ParsedBlock) -> ResponsePermission | None:
    inner = block.block("allow_responses")
    if inner is None:
        return ResponsePermission() if block.flag("allow_responses") else None
    default = ResponsePermission()
    return ResponsePermission(
        max=inner.integer("max", default.max),
        expires=inner.seconds("expires", default.expires),
    )
