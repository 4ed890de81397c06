"""
Tests for L{natsbroker.auth.permissions}.
"""

from __future__ import annotations

import pytest

from natsbroker.auth.permissions import EMPTY_ALLOW
from natsbroker.auth.settings import Permissions, ResponsePermission, SubjectPermission
from tests.config.support import complaintsOf, settingsOf


def permissionsOf(text: str) -> Permissions | None:
    """
    Build the permissions of a user.
    """
    text = f"authorization {{ users: [ {{user: a, permissions: {text} }} ] }}"
    return settingsOf(text).authorization.users[0].permissions


READABLE = [
    ("{}", Permissions()),
    ("{publish: a}", Permissions(SubjectPermission(("a",)))),
    ("{pub: [a, 'b.>']}", Permissions(SubjectPermission(("a", "b.>")))),
    ("{import: {allow: a, deny: [b, c]}}", Permissions(SubjectPermission(("a",), ("b", "c")))),
    ("{publish: {deny: b}}", Permissions(SubjectPermission(None, ("b",)))),
    ("{publish: {deny: []}}", Permissions(SubjectPermission(None, ()))),
    ("{publish: {}}", Permissions()),
    ("{subscribe: ['a q', 'b.* q.>']}", Permissions(None, SubjectPermission(("a q", "b.* q.>")))),
    ("{export: {deny: '>'}}", Permissions(None, SubjectPermission(None, (">",)))),
    (
        "{allow_responses: true}",
        Permissions(SubjectPermission(()), None, ResponsePermission()),
    ),
    ("{allow_responses: false}", Permissions()),
    (
        "{publish: x, allow_responses: {max: 5, ttl: '1m'}}",
        Permissions(SubjectPermission(("x",)), None, ResponsePermission(5, 60.0)),
    ),
    (
        "{publish: {deny: y}, allow_responses: {max: 0, expires: '0s'}}",
        Permissions(SubjectPermission((), ("y",)), None, ResponsePermission()),
    ),
    (
        "{allow_responses: {max: -1, expires: '-1s'}}",
        Permissions(SubjectPermission(()), None, ResponsePermission(-1, -1.0)),
    ),
]


@pytest.mark.parametrize(("text", "permissions"), READABLE)
def test_readable(text: str, permissions: Permissions) -> None:
    """Permissions are read in every way that they can be written."""
    assert permissionsOf(text) == permissions


UNREADABLE = [
    ("{publish: 'a b'}", "publish", 'subject "a b" is not a valid subject'),
    ("{publish: {deny: 'a..b'}}", "publish.deny", 'subject "a..b" is not a valid subject'),
    ("{subscribe: 'a b c'}", "subscribe", 'subject "a b c" is not a valid subject'),
    ("{subscribe: 'a. b'}", "subscribe", 'subject "a." is not a valid subject'),
    ("{subscribe: {allow: 'a b.'}}", "subscribe.allow", 'queue "b." is not a valid queue'),
    ("{publish: []}", "publish", EMPTY_ALLOW),
    ("{subscribe: {allow: [], deny: x}}", "subscribe.allow", EMPTY_ALLOW),
    (
        "{publish: 1}",
        "publish",
        "expected a string or an array of strings or a map, got an integer",
    ),
    ("{allow_responses: 5}", "allow_responses", "expected a boolean or a map, got an integer"),
    ("{allow_responses: {max: x}}", "allow_responses.max", "expected an integer, got a string"),
]


@pytest.mark.parametrize(("text", "path", "message"), UNREADABLE)
def test_unreadable(text: str, path: str, message: str) -> None:
    """What makes no sense is reported with the path of the permission."""
    (complaint,) = complaintsOf(f"authorization {{ users: [ {{user: a, permissions: {text} }} ] }}")
    assert complaint.partition(" ")[2] == (f"authorization.users[0].permissions.{path}: {message}")
