"""
The protocol of a connection in the log.

The expected lines are those of nats-server 2.15.1 for the same input.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.model import Logging, Settings
from natsbroker.connections.trace import Trace, redactedConnect
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.server.support import logLines
from tests.support import HEADERS, QUIET, Doorkeeper, World


def traced(*data: bytes, tracing: Logging | None = None, grant: Grant | None = None) -> list[str]:
    """The traced lines of a connection, without the client's label."""
    world = World(authorizer=Doorkeeper(lambda hello: grant or Grant()))
    world.context.settings = Settings(logging=tracing or Logging(trace=True))
    wire = world.dial()
    with logLines(debug=False) as lines:
        wire.ask(*data)
    return [line.partition("cid:1 - ")[2] for line in lines if line.startswith("[TRC]")]


class TestConversation:
    """A whole connection."""

    def test_lines(self) -> None:
        """Each operation in each direction is a line."""
        lines = traced(
            HEADERS,
            b"SUB foo 1\r\nSUB foo q 2\r\nPUB foo 2\r\nhi\r\nPING\r\nPONG\r\n",
            b"HPUB foo rep 12 14\r\nNATS/1.0\r\n\r\nhi\r\nUNSUB 2\r\nUNSUB 1 3\r\n",
            b"PUB foo 0\r\n\r\n",
        )
        options = '{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'
        assert lines == [
            f"<<- [CONNECT {options}]",
            "<<- [SUB foo 1]",
            "<<- [SUB foo q 2]",
            "<<- [PUB foo 2]",
            '<<- MSG_PAYLOAD: ["hi"]',
            "->> [MSG foo 1 2]",
            '->> MSG_PAYLOAD: ["hi"]',
            "->> [MSG foo 2 2]",
            '->> MSG_PAYLOAD: ["hi"]',
            "<<- [PING]",
            "->> [PONG]",
            "<<- [PONG]",
            "<<- [HPUB foo rep 12 14]",
            '<<- MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
            "->> [HMSG foo 1 rep 12 14]",
            '->> MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
            "->> [HMSG foo 2 rep 12 14]",
            '->> MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
            "<<- [UNSUB 2]",
            "<<- [UNSUB 1 3]",
            "<<- [PUB foo 0]",
            "->> [MSG foo 1 0]",
            "<-> [DELSUB 1]",
        ]

    def test_answers(self) -> None:
        """+OK and -ERR are traced."""
        lines = traced(b"CONNECT {}\r\nSUB foo. 1\r\n", b"FOO\r\n")
        assert lines == [
            "<<- [CONNECT {}]",
            "->> [OK]",
            "<<- [SUB foo. 1]",
            "->> [-ERR Invalid Subject]",
            "->> [-ERR Unknown Protocol Operation]",
        ]

    def test_mapped(self) -> None:
        """The destination of a mapped message is traced in a line of its own."""
        world = World()
        world.context.settings = Settings(logging=Logging(trace=True))
        table = MappingTable([Mapping(b"in", [Destination(b"out")])], Random(1).randrange)
        world.accounts["$G"].mapSubjects(table)
        wire = world.client()
        with logLines(debug=False) as lines:
            wire.ask(b"PUB in 0\r\n\r\n")
        assert [line.partition("cid:1 - ")[2] for line in lines] == [
            "<<- [PUB in 0]",
            "<<- [MAPPING in -> out]",
        ]

    def test_heldOnce(self) -> None:
        """Operations before the login are traced once, when they are handled."""
        assert traced(b"SUB foo 1\r\n") == ["<<- [SUB foo 1]", "->> [OK]"]

    def test_withoutHeaders(self) -> None:
        """A message to a client without headers is traced with the payload only."""
        world = World()
        world.context.settings = Settings(logging=Logging(trace=True))
        receiver, sender = world.client(), world.client(HEADERS)
        receiver.ask(b"SUB foo 9\r\n")
        with logLines(debug=False) as lines:
            sender.ask(b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
        shown = [line for line in lines if "cid:1 " in line]
        assert [line.partition("->> ")[2] for line in shown] == [
            "[MSG foo 9 2]",
            'MSG_PAYLOAD: ["hi"]',
        ]


class TestSelection:
    """The choice of traced lines."""

    def test_off(self) -> None:
        """No line is traced unless tracing is enabled."""
        assert traced(QUIET, b"PING\r\n", tracing=Logging()) == []

    def test_longest(self) -> None:
        """Long payloads are truncated."""
        lines = traced(
            QUIET, b"PUB foo 5\r\n12345\r\n", tracing=Logging(trace=True, max_traced_msg_len=3)
        )
        assert lines[-1] == '<<- MSG_PAYLOAD: ["123..."]'

    def test_headersOnly(self) -> None:
        """
        With C{trace_headers}, headers are traced without payloads, and messages without headers
        have no content.
        """
        lines = traced(
            HEADERS,
            b"PUB foo 2\r\nhi\r\nHPUB foo 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n",
            tracing=Logging(trace=True, trace_headers=True),
        )
        assert lines[1:] == [
            "<<- [PUB foo 2]",
            "<<- [HPUB foo 18 20]",
            '<<- MSG_PAYLOAD: ["NATS/1.0\\r\\nA: b"]',
        ]

    @pytest.mark.parametrize(("system", "shown"), [(False, False), (True, True)])
    def test_system(self, system: bool, shown: bool) -> None:
        """The system account is not traced by default, which applies from the login on."""
        lines = traced(
            QUIET,
            b"SUB foo 1\r\n",
            tracing=Logging(trace=True, trace_verbose=system),
            grant=Grant("$SYS"),
        )
        assert lines[0].startswith("<<- [CONNECT")
        assert ("<<- [SUB foo 1]" in lines) is shown


class TestRedaction:
    """Secrets in CONNECT."""

    @pytest.mark.parametrize(
        "name",
        ["pass", "PASS", "password", "auth_token", "token", "jwt", "sig", "proxy_sig", "nkey"],
    )
    def test_each(self, name: str) -> None:
        """Each kind of secret is hidden, in any case of its name."""
        argument = json.dumps({"user": "u", name: 'can"ary\\', "lang": "py"}).encode()
        shown = redactedConnect(argument)
        assert json.loads(shown) == {"user": "u", name: "[REDACTED]", "lang": "py"}

    @pytest.mark.parametrize(
        "argument",
        [b'{"pass":"canary"', b'["canary"]', b'"canary"', b"canary", b"[" * 100_000, b""],
    )
    def test_unreadable(self, argument: bytes) -> None:
        """An unreadable CONNECT is hidden as a whole."""
        assert redactedConnect(argument) == "[REDACTED]"

    def test_nested(self) -> None:
        """A value nested in a secret is hidden."""
        assert "canary" not in redactedConnect(b'{"pass":{"a":["canary"]}}')

    @given(st.text())
    def test_anything(self, secret: str) -> None:
        """The shown text does not depend on the password."""
        argument = json.dumps({"user": "u", "pass": secret}).encode()
        assert redactedConnect(argument) == '{"user":"u","pass":"[REDACTED]"}'


def test_anyPayload() -> None:
    """A payload of any bytes is shown on one line."""
    with logLines(debug=False) as lines:
        Trace("c", 0, False).delivered(Message(b"a\xff", bytes(range(256))), b"1", True)
    assert len(lines) == 2
    assert all(line.isascii() and line.isprintable() for line in lines)
