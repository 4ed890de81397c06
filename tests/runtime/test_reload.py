"""
Taking new settings without a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from natsbroker.config.diff import Change, differences
from natsbroker.config.model import Settings
from natsbroker.runtime.reload import Planner, ReloadError, Step, below, logChanges, plan, settled
from tests.auth.operator.keys import ACCOUNT
from tests.server.support import logLines, settingsOf


class Owner:
    """
    An owner of settings that accepts all changes, or refuses them.

    @ivar told: what it was asked to plan.
    @ivar applied: how often its step was taken.
    """

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.told: list[list[str]] = []
        self.applied = 0

    def __call__(self, new: Settings, changes: Sequence[Change]) -> Step:
        self.told.append([change.path for change in changes])
        if self.refusal:
            raise ValueError(self.refusal)

        def apply() -> None:
            self.applied += 1

        return apply


def planned(old: str, new: str, *owners: Planner) -> tuple[list[Change], Step]:
    """A plan from one configuration to another."""
    return plan(settingsOf(old), settingsOf(new), owners)


class TestSettled:
    """Settings that stay as they are."""

    def test_givenEndpoints(self) -> None:
        """
        With endpoints that were passed in, a changed address has no effect and is not refused.
        """
        old = replace(Settings(), host="127.0.0.1", port=40001)
        for text in ("max_payload: 5", "listen: 'localhost:1'"):
            new = settled(old, settingsOf(text), True)
            assert (new.host, new.port) == ("127.0.0.1", 40001)
        assert settled(old, settingsOf("port: 1")).port == 1


class TestPlan:
    """All or nothing."""

    def test_applies(self) -> None:
        """A plan changes nothing before it is applied, and then changes all owners."""
        owners = [Owner(), Owner()]
        changes, apply = planned("max_payload: 5", "max_payload: 6", *owners)
        assert [change.path for change in changes] == ["max_payload"]
        assert [owner.applied for owner in owners] == [0, 0]
        apply()
        assert [owner.applied for owner in owners] == [1, 1]
        assert owners[0].told == [["max_payload"]]

    def test_refusal(self) -> None:
        """If one owner refuses, no owner is changed, and all reasons are reported."""
        owners = [Owner(), Owner("no"), Owner("never")]
        with pytest.raises(ReloadError) as error:
            planned("max_payload: 5", "max_payload: 6", *owners)
        assert error.value.problems == ("no", "never")
        assert [owner.applied for owner in owners] == [0, 0, 0]

    def test_fixedSetting(self) -> None:
        """
        A change that needs a restart is refused in nats-server's words, beside the others' reasons.
        """
        with pytest.raises(ReloadError) as error:
            planned("port: 14081", "port: 14089", Owner("no"))
        assert error.value.problems == (
            "config reload not supported for Port: old=14081, new=14089",
            "no",
        )

    def test_sameSettings(self) -> None:
        """A reload with equal settings is accepted."""
        changes, apply = planned("port: 1", "port: 1", Owner())
        assert changes == []
        apply()


class TestPorts:
    """Ports that were chosen by the kernel."""

    def test_randomPort(self) -> None:
        """If a reload asks for any port, the port in use stays."""
        old = settingsOf("port: 4001\nhttp_port: 4002")
        new = settled(old, settingsOf("port: -1\nhttp_port: -1"))
        assert (new.port, new.monitoring.http_port) == (4001, 4002)

    def test_https(self) -> None:
        """A port of HTTPS pages that the kernel chose stays the same."""
        old = settingsOf("port: 4001")
        old = replace(old, monitoring=replace(old.monitoring, https_port=4003))
        new = replace(old, monitoring=replace(old.monitoring, https_port=-1))
        assert settled(old, new).monitoring.https_port == 4003

    def test_otherPort(self) -> None:
        """A port with another number changes."""
        new = settled(settingsOf("port: 4001"), settingsOf("port: 5"))
        assert new.port == 5

    def test_newPages(self) -> None:
        """If monitoring pages are new, their port is still to be chosen."""
        new = settled(settingsOf("port: 4001"), settingsOf("http_port: -1"))
        assert new.monitoring.http_port == -1


class TestLog:
    """The log of a reload."""

    @pytest.mark.parametrize(
        ("old", "new", "line"),
        [
            ("port: 1", "port: 1\ntrace: true", "trace = true"),
            ("port: 1", "port: 1\ndebug: true", "debug = true"),
            ("port: 1", 'port: 1\nping_interval: "30s"', "ping_interval = 30s"),
            ("port: 1", "port: 1\nmax_payload: 7", "max_payload = 7"),
            ("port: 1", 'port: 1\nlogfile: "/x"', "log_file = /x"),
            ("port: 1", 'port: 1\npidfile: "/x"', "pid_file = /x"),
            (
                "port: 1",
                "port: 1\nauthorization { users: [{user: a, password: b}] }",
                "authorization users",
            ),
            (
                "authorization { user: a, password: one }",
                "authorization { user: a, password: two }",
                "authorization password",
            ),
            ("authorization { token: one }", "authorization { token: two }", "authorization token"),
            ("port: 1", "port: 1\naccounts { A {} }", "accounts"),
            ("port: 1", "port: 1\nauthorization {timeout: 5}", "authorization timeout = 5"),
            ("services { a { x: 1 } }", "services { a { x: 2 } }", "services"),
            (
                f"operator: eyJ\nresolver: MEM\nresolver_preload {{ {ACCOUNT}: one }}",
                f"operator: eyJ\nresolver: MEM\nresolver_preload {{ {ACCOUNT}: two }}",
                "accounts",
            ),
            (
                "operator: eyJ\nresolver: MEM\ndefault_sentinel: one",
                "operator: eyJ\nresolver: MEM\ndefault_sentinel: two",
                "default_sentinel = [REDACTED]",
            ),
            (
                "authorization {}",
                f"authorization {{ auth_callout {{ issuer: {ACCOUNT}, auth_users: [a] }} }}",
                "authorization callout",
            ),
        ],
    )
    def test_lines(self, old: str, new: str, line: str) -> None:
        """Each change is logged in nats-server's words, without secrets."""
        settings = settingsOf(new)
        with logLines() as lines:
            logChanges(differences(settingsOf(old), settings), settings)
        assert f"[INF] Reloaded: {line}" in lines
        assert lines[-1].startswith("[INF] Reloaded server configuration (sha256:")
        assert not any("one" in row or "two" in row for row in lines)

    def test_oneLineForAKind(self) -> None:
        """Several changes of one kind are logged in one line."""
        with logLines() as lines:
            changes = differences(
                settingsOf("port: 1"), settingsOf("port: 1\naccounts {A {}, B {}}")
            )
            logChanges(changes, Settings())
        assert lines == ["[INF] Reloaded: accounts", "[INF] Reloaded server configuration "]


def test_pathsBelow() -> None:
    """A path covers itself and paths below it, but not others that begin alike."""
    changes = [Change("a.b", 1, 2), Change("cd", 1, 2)]
    assert below(changes, "a") and below(changes, "a.b") and below(changes, "cd")
    assert not below(changes, "c") and not below(changes, "a.b.c", "x")
