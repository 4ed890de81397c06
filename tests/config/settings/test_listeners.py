"""
Tests for L{natsbroker.config.settings.listeners}.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.settings.listeners import (
    ListenerSettings,
    advertised,
    advertiseProblems,
    certificateProblems,
    guardProblems,
    guestProblems,
    isSpaced,
    listenAddress,
    loginOf,
    loginProblems,
    timeToLogin,
    urlProblems,
)
from natsbroker.config.settings.routes import Cluster, splitRoute
from natsbroker.config.tls import TLSSettings
from tests.config.support import readingOf


def blockOf(text: str) -> ParsedBlock:
    """A block of links that was read."""
    reading, _ = readingOf(f"cluster {{ {text} }}")
    block = reading.block("cluster")
    assert block is not None
    return block


@pytest.mark.parametrize(
    "text, place",
    [
        ("", ("", 0)),
        ('listen: "a:1"', ("a", 1)),
        ('listen: "a:1", host: b', ("b", 1)),
        ('host: b, port: 2, listen: "a:1"', ("a", 1)),
        ('listen: "a:1", port: -1', ("a", -1)),
    ],
)
def test_listenAddress(text: str, place: tuple[str, int]) -> None:
    """The last of several keys gives the host, and the last of several gives the port."""
    findings = Diagnostics()
    assert listenAddress(blockOf(text), findings) == place
    assert findings.errors == []


@pytest.mark.parametrize(
    "text, path",
    [
        ('host: a, listen: "b:70000"', "cluster.listen"),
        ('listen: "b:1", port: -2', "cluster.port"),
    ],
)
def test_listenNowhere(text: str, path: str) -> None:
    """An invalid port is an error at its key."""
    findings = Diagnostics()
    assert listenAddress(blockOf(text), findings) == ("b", 0)
    assert [error.path for error in findings.errors] == [path]


def test_login() -> None:
    """A block without C{authorization} has an empty one at the same position."""
    assert loginOf(blockOf("authorization { user: u }")).text("user") == "u"
    block = blockOf("")
    assert loginOf(block) == ParsedBlock("", block.position)


def test_timeToLogin() -> None:
    """The default login timeout with TLS is one second more than that of the handshake."""
    tls = TLSSettings(timeout=4.0)
    assert (timeToLogin(0.0, None), timeToLogin(0.0, tls), timeToLogin(1.0, tls)) == (2.0, 5.0, 1.0)


def test_guest() -> None:
    """The user of guests must be one of the configured users."""
    assert list(guestProblems("", [])) == list(guestProblems("a", ["a"])) == []
    ((_, none),) = guestProblems("a", [])
    ((_, other),) = guestProblems("a", ["b"])
    assert none == '"a" present, but users/nkeys are not defined'
    assert other.startswith('"a" not present as user or nkey in authorization block or account con')


@pytest.mark.parametrize(
    "name, expected",
    [("", False), ("a", False), ("a b", True), (" a", True), ("a\n", True), (" ", True)],
)
def test_isSpaced(name: str, expected: bool) -> None:
    """Spaces are detected anywhere in a name."""
    assert isSpaced(name) is expected


def test_guard() -> None:
    """A listener that other machines can reach needs protection, if the file requires that."""
    reached = Cluster(host="10.0.0.1", port=6222, insecure_listen=False)
    ((name, message),) = guardProblems(reached, "friend")
    assert name == "listen"
    assert message.startswith(
        "other machines reach 10.0.0.1, and every peer that connects becomes a friend; add"
    )
    for safe in (
        replace(reached, port=0),
        replace(reached, host="127.0.0.1"),
        replace(reached, user="u"),
        replace(reached, tls=TLSSettings()),
        replace(reached, insecure_listen=True),
        replace(reached, insecure_listen=None),
    ):
        assert list(guardProblems(safe, "friend")) == []


@pytest.mark.parametrize(
    "user, password, isMapped, isRight",
    [
        ("", "", False, True),
        ("u", "p", False, True),
        ("u", "", False, False),
        ("u", "", True, True),
        ("u", "p", True, True),
        ("", "p", False, False),
        ("", "p", True, False),
        ("u", "$2a$", False, True),
    ],
)
def test_loginProblems(user: str, password: str, isMapped: bool, isRight: bool) -> None:
    """A user and a password are required together, unless certificates name the user."""
    tls = TLSSettings(verify_and_map=isMapped)
    problem = "authorization", "a user needs a password, and a password a user"
    problems = list(loginProblems(ListenerSettings(user=user, password=password, tls=tls)))
    assert problems == ([] if isRight else [problem])


def test_certificate() -> None:
    """TLS requires a certificate."""
    assert list(certificateProblems(None, "links")) == []
    assert list(certificateProblems(TLSSettings(certs=(("c", "k"),)), "links")) == []
    complaint = ("tls", "links need 'cert_file' and 'key_file'")
    assert list(certificateProblems(TLSSettings(), "links")) == [complaint]


def test_urls() -> None:
    """Each invalid URL of a list is reported."""
    problems = list(urlProblems("urls", "number", ["1", "x", "2", "y"], int))
    assert [name for name, _ in problems] == ["urls", "urls"]
    assert "'x'" in problems[0][1] and "'y'" in problems[1][1]


@pytest.mark.parametrize(
    "url, messages",
    [
        ("127.0.0.1:4", ['error parsing route url ["127.0.0.1:4"]']),
        ("[::1]:4", ['error parsing route url ["[::1]:4"]']),
        ("1:canary@h:4", ["error parsing route url"]),
        ("h:4", []),
        ("nats://127.0.0.1:4", []),
    ],
)
def test_urlsWithoutScheme(url: str, messages: list[str]) -> None:
    """A URL without a scheme is invalid, as for nats-server, and its error hides passwords."""
    expected = [("urls", message) for message in messages]
    assert list(urlProblems("urls", "route", [url], splitRoute)) == expected


@pytest.mark.parametrize(
    "text, messages",
    [
        ("", []),
        ("h", []),
        ("h:70000", ["invalid port 70000"]),
        ("a:b:c", ["address a:b:c: too many colons in address"]),
    ],
)
def test_advertiseProblems(text: str, messages: list[str]) -> None:
    """The advertised address must be a host and a port."""
    expected = [("advertise", message) for message in messages]
    assert list(advertiseProblems("advertise", text, 1)) == expected


@pytest.mark.parametrize(
    "text, place",
    [
        ("h", ("h", 6)),
        ("h:1", ("h", 1)),
        ("h:0", ("h", 6)),
        ("h:-1", ("h", 6)),
        ("[::1]", ("::1", 6)),
        ("[::1]:2", ("::1", 2)),
    ],
)
def test_advertised(text: str, place: tuple[str, int]) -> None:
    """The advertised address may omit the port."""
    assert advertised(text, 6) == place
