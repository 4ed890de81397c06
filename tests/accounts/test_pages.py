"""
What the monitoring page tells about what an account exchanges.
"""

from __future__ import annotations

from typing import Any

from natsbroker.accounts.pages import exchangesOf
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
    """A key of an account's detail."""
    return exchangesOf(settingsOf(TEXT).accounts[name])[key]


def test_mappings() -> None:
    """Mappings stand by their source, with the share that stays."""
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
    """Imports are listed with both names."""
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
    """Empty keys are left out."""
    assert exchangesOf(settingsOf("accounts { A {} }").accounts["A"]) == {}
