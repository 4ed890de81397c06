"""
A short run of the corpus, and tests of the corpus itself.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.interop.allowances import explained
from tests.interop.auth.differential.attempts import (
    FOLDER,
    Login,
    Matter,
    Script,
    Try,
    changes,
    conversation,
    matters,
)
from tests.interop.auth.differential.comparison import Comparison, Difference
from tests.interop.servers import OURS, OURS_FAST, Flavour, requireRealServer

SEED = int(os.environ.get("NATSBROKER_SEED", "1"))

#: For each configuration.
CONVERSATIONS = range(8)

#: For each change of one.
CHANGES = range(3)

REFUSED = sorted((FOLDER / "refused").glob("*.conf"))


@pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
def test_sameVerdicts(flavour: Flavour, tmp_path: Path) -> None:
    """
    Every login, publish and subscription has the same result on both servers, or the difference is
    explained.
    """
    requireRealServer()
    with Comparison(flavour, tmp_path) as comparison:
        differences = [
            str(difference)
            for matter in matters()
            for difference in comparison.differences(matter, SEED, CONVERSATIONS)
        ]
    assert not differences, "\n".join(differences)
    assert comparison.attempts > 2_000


@pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
def test_sameChanges(flavour: Flavour, tmp_path: Path) -> None:
    """
    After a reload, connected clients have the same connections, subscriptions and messages on both
    servers.
    """
    requireRealServer()
    with Comparison(flavour, tmp_path) as comparison:
        differences = [
            str(difference)
            for change in changes()
            for difference in comparison.changed(change, SEED, CHANGES)
        ]
    assert not differences, "\n".join(differences)
    assert comparison.attempts > 500


def test_sameRefusals(tmp_path: Path) -> None:
    """
    A file that nats-server refuses is refused by natsbroker too, which keeps its configuration.
    """
    requireRealServer()
    matter = next(matter for matter in matters() if matter.name == "users")
    with Comparison(OURS_FAST, tmp_path) as comparison:
        assert list(comparison.differences(matter, SEED, range(2))) == []
        for path in REFUSED:
            text = path.read_text("utf-8")
            theirs, ours = comparison.theirsRefuses(text), comparison.oursRefuses(text)
            assert theirs and ours, (path.name, theirs, ours)
        assert comparison.theirsRefuses(matter.path.read_text("utf-8")) == ""
        assert list(comparison.again(matter, SEED, range(2, 6))) == []


#: A configuration, and what of it is another text for natsbroker.
FALSIFIED = [
    ("publish-several", '"a.*", ', ""),
    ("subscribe-denied", '"a.b"', '"a.c"'),
    ("users", "banana", "cherry"),
    ("accounts", "B {", "C {}, B { mappings { a: a.b }, "),
]


def test_differencesAreFound(tmp_path: Path) -> None:
    """A server with other decisions is detected."""
    requireRealServer()
    known = {matter.name: matter for matter in matters()}
    with Comparison(OURS_FAST, tmp_path) as comparison:
        for name, old, new in FALSIFIED:
            text = known[name].path.read_text("utf-8")
            assert old in text
            assert list(comparison.differences(known[name], SEED, range(3))) == []
            assert comparison.oursRefuses(text.replace(old, new)) == ""
            assert any(comparison.again(known[name], SEED, range(100))), name


class TestCorpus:
    """The files of the corpus, and the conversations generated from them."""

    def test_sizeOfTheCorpus(self) -> None:
        """There are enough files and attempts."""
        known = matters()
        assert len(known) >= 40
        assert len(changes()) >= 30
        assert len(REFUSED) >= 40
        attempts = [
            conversation(matter, SEED, number).attempts
            for matter in known
            for number in CONVERSATIONS
        ]
        assert sum(attempts) > 2_000

    def test_everyLogin(self) -> None:
        """Every login that a file names is tried, with correct credentials and with wrong ones."""
        for matter in matters():
            tried = [
                login for number in range(40) for login in conversation(matter, SEED, number).logins
            ]
            assert set(matter.logins) <= set(tried), matter.name
            assert set(tried) - set(matter.logins), matter.name

    def test_everyKind(self) -> None:
        """Every kind of attempt occurs in the conversations."""
        words: Counter[bytes] = Counter()
        for matter in matters():
            for number in CONVERSATIONS:
                tries = conversation(matter, SEED, number).tries
                words.update(attempt.data.split()[0] for attempt in tries)
                words.update(b"reply" for attempt in tries if b"{reply}" in attempt.data)
        assert set(words) == {b"CONNECT", b"SUB", b"UNSUB", b"PUB", b"reply"}

    def test_repeatable(self) -> None:
        """
        The same seed and number always make the same conversation, and others make different ones.
        """
        matter = matters()[0]
        made = [conversation(matter, 5, number) for number in range(20)]
        assert made == [conversation(matter, 5, number) for number in range(20)]
        assert len(set(made)) > 15

    def test_remarks(self, tmp_path: Path) -> None:
        """The remarks give the users that can log in and the subjects worth trying."""
        path = tmp_path / "x.conf"
        path.write_text(
            '# login user "a b" c\n# login none\n# subject a b.>\n# alone\n# queue q\nx: 1'
        )
        assert Matter.read(path) == Matter(
            "x",
            path,
            (Login((("user", "a b"), ("pass", "c"))), Login()),
            (b"a", b"b.>"),
            (b"q",),
            True,
        )

    def test_report(self) -> None:
        """A difference is reported with the command that reproduces it."""
        talk = Script((Login(),), (Try(0, b"SUB a 1\r\n"),))
        difference = Difference("users", 3, 17, "ours-pure", talk, [[b"a"], []], [[b"b"], []])
        report = str(difference).splitlines()
        assert report[0] == (
            "python -m tests.interop.auth.differential --only users --seed 3 --number 17 "
            "--flavour ours-pure"
        )
        assert "! 0 theirs [b'a']" in report


DENIED = b"-ERR 'Authorization Violation'\r\n"
EXCEEDED = b"-ERR 'maximum subscriptions exceeded'\r\n"
WIDER = b"-ERR 'Permissions Violation for Subscription to \"a.>\"'\r\n"
MESSAGE = b"MSG a.b 1  0 1\r\nx"


@pytest.mark.parametrize(
    ("matter", "theirs", "ours", "isExplained"),
    [
        ("users", [[]], [[WIDER]], True),
        ("users", [[], [MESSAGE]], [[WIDER], []], True),
        ("users", [[MESSAGE]], [[]], False),
        ("users", [[]], [[WIDER, MESSAGE]], False),
        ("users", [[]], [[WIDER.replace(b">", b"b")]], False),
        ("users", [[WIDER]], [[]], False),
        ("users", [[]], [[WIDER], []], False),
        ("users", [[b"[closed]"]], [[]], False),
        ("mappings-new", [[b"[closed]"], []], [[], [MESSAGE]], True),
        ("mappings-new", [[]], [[MESSAGE]], False),
        ("limit-subscriptions", [[EXCEEDED]], [[]], True),
        ("users", [[EXCEEDED]], [[]], False),
        ("guest", [[]], [[DENIED]], True),
        ("guest", [[DENIED]], [[]], False),
        ("users", [[]], [[DENIED]], False),
    ],
)
def test_allowances(
    matter: str, theirs: list[list[bytes]], ours: list[list[bytes]], isExplained: bool
) -> None:
    """A difference is explained completely or not at all."""
    script = b'CONNECT {"user": "anna"}\r\n'
    assert bool(explained(matter, script, theirs, ours)) == isExplained
    if matter == "guest":
        assert not explained(matter, b"PUB a 0\r\n\r\n", theirs, ours)
