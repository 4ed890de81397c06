"""Tests for L{natsbroker.system.accountz}; keys are held against nats-server's elsewhere."""

from __future__ import annotations

from typing import Any

from natsbroker.config.model import Settings
from natsbroker.monitoring.answers import PAUSE
from natsbroker.system.accountz import Accountz, exchangesOf
from tests.monitoring.staging import Stage
from tests.server.support import settingsOf

TEXT = """
accounts {
    A {
        mappings {
            b: [ {dest: c, weight: 30}, {dest: d, weight: 20} ]
            a: a2
            "w.*": [ {dest: "x.$1", weight: 40}, {dest: "y.$1", weight: 10, cluster: X} ]
            lost: [ {dest: lost, weight: 10} ]
        }
        exports: [
            {stream: "s.>"}, {stream: t, accounts: [B]}
            {service: q, response: stream}, {service: r, latency: {subject: l, sampling: headers}}
        ]
    }
    B {
        imports: [
            {stream: {account: A, subject: "s.*.*"}, to: "x.$2.$1"}
            {service: {account: A, subject: q}, to: p, share: true}
        ]
    }
}
"""


def told(key: str, name: str) -> Any:
    """A field of an account's detail."""
    return exchangesOf(settingsOf(TEXT).accounts[name], name, "")[key]


def test_mappings() -> None:
    """Mappings are listed by their source, with the share that keeps its subject."""
    assert list(told("mappings", "A").items()) == [
        ("a", [{"subject": "a2", "weight": 100}]),
        (
            "b",
            [
                {"subject": "c", "weight": 30},
                {"subject": "d", "weight": 20},
                {"subject": "b", "weight": 50},
            ],
        ),
        ("lost", [{"subject": "lost", "weight": 10}]),
        (
            "w.*",
            [
                {"subject": "x.$1", "weight": 40},
                {"subject": "w.$1", "weight": 60},
                {"subject": "y.$1", "weight": 10, "cluster": "X"},
                {"subject": "w.$1", "weight": 90, "cluster": "X"},
            ],
        ),
    ]


def test_exports() -> None:
    """Exports are listed with their terms."""
    assert told("exports", "A") == [
        {"subject": "s.>", "type": "stream"},
        {"subject": "t", "type": "stream", "approved_accounts": ["B"]},
        {"subject": "q", "type": "service", "response_type": "Streamed"},
        {
            "subject": "r",
            "type": "service",
            "response_type": "Singleton",
            "service_latency": {"sampling": "headers", "results": "l"},
        },
    ]


def test_imports() -> None:
    """Imports are listed with both subjects."""
    assert told("imports", "B") == [
        {
            "subject": "s.*.*",
            "account": "A",
            "local_subject": "x.*.*",
            "type": "stream",
            "invalid": False,
            "share": False,
            "tracking": False,
        },
        {
            "subject": "q",
            "account": "A",
            "to": "p",
            "local_subject": "p",
            "type": "service",
            "invalid": False,
            "share": True,
            "tracking": False,
        },
    ]


def test_emptyKeysAreLeftOut() -> None:
    """Empty fields are left out."""
    assert exchangesOf(settingsOf("accounts { A {} }").accounts["A"], "A", "") == {}


def detail(stage: Stage, name: str) -> Any:
    """
    The detail of an account.
    """
    return stage.page("/accountz", acc=name)["account_detail"]


class TestAccountz:
    """The accounts."""

    def test_names(self) -> None:
        """Without a name, the names of all accounts are listed, and the system account's."""
        page = Stage().page("/accountz")
        assert page["accounts"] == ["$G", "$SYS", "A", "B"]
        assert page["system_account"] == "$SYS"

    def test_noSystemAccount(self) -> None:
        """A broker without a system account lists none."""
        stage = Stage(Settings(no_system_account=True))
        assert "system_account" not in stage.page("/accountz")
        assert "is_system" not in detail(stage, "$SYS")

    def test_counts(self) -> None:
        """An account's connections and subscriptions are counted."""
        stage = Stage()
        stage.client("a@A").ask(b"SUB foo 1\r\nSUB bar 2\r\n")
        stage.client("b@A")
        stage.client("c@B")
        stage.world.dial()
        assert detail(stage, "A")["client_connections"] == 2
        assert detail(stage, "A")["subscriptions"] == 2
        assert detail(stage, "A")["sublist_stats"]["num_subscriptions"] == 2
        assert detail(stage, "$G")["client_connections"] == 1
        assert detail(stage, "$SYS")["is_system"] is True

    def test_unknown(self) -> None:
        """A missing account is refused. Its name is shortened and printable."""
        text = Stage().refusal("/accountz", acc="x\r\n" + "y" * 999)
        assert text == "Account x\\r\\n" + "y" * 61 + "... does not exist"

    def test_leafnodes(self) -> None:
        """Leafnodes are counted by their service."""
        stage = Stage()
        stage.model.accountz.countLeafnodes = lambda name: 4
        assert detail(stage, "A")["leafnode_connections"] == 4

    def test_exchanges(self) -> None:
        """Exports, imports and mappings of the settings are shown; empty ones are left out."""
        shown = detail(Stage(settingsOf("accounts { A { exports: [{stream: s}] } }")), "A")
        assert shown["exports"] == [{"subject": "s", "type": "stream"}]
        assert "mappings" not in shown

    def test_systemServices(self) -> None:
        """
        Every account has the services about itself; the system account has those about the server.
        """
        stage = Stage()
        mine, system = detail(stage, "A"), detail(stage, "$SYS")
        assert [entry["local_subject"] for entry in mine["imports"]] == [
            "$SYS.REQ.ACCOUNT.PING.CONNZ",
            "$SYS.REQ.SERVER.PING.CONNZ",
            "$SYS.REQ.ACCOUNT.PING.STATZ",
            "$SYS.REQ.USER.INFO",
        ]
        assert "exports" not in mine
        assert [entry["subject"] for entry in system["imports"]] == ["$SYS.REQ.USER.$SYS.INFO"]
        assert "$SYS.REQ.USER.*.INFO" in [export["subject"] for export in system["exports"]]
        without = detail(Stage(Settings(no_system_account=True)), "A")
        assert not {"imports", "exports"} & set(without)

    def test_pauses(self) -> None:
        """Many connections are counted in steps."""
        stage = Stage()
        for _ in range(600):
            stage.world.dial()
        accountz: Accountz = stage.model.accountz
        assert list(accountz.steps(stage.world.accounts["A"])) == [PAUSE] * 2
