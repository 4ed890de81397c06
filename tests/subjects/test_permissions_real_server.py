"""
L{natsbroker.subjects.permissions} beside a running nats-server: same questions, same answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from natsbroker.subjects.grammar import isSubset, matches
from natsbroker.subjects.permissions import DENIED, PermissionSet, SubscribePermissions, Verdict
from tests.subjects.realserver import Line, inQuotes, realServer
from tests.subjects.truthtable import ROWS, permissionsOf

#: A user's lists of entries: publish allow and deny, subscribe allow and deny.
User = tuple[list[bytes], list[bytes], list[bytes], list[bytes]]

TOKENS = [b"a", b"a", b"b", b"b", b"c", b"*a", b"b>", "ö".encode()]
QUEUES = [b"q", b"v1.a", b"v1.b", b"v1.*", b"v1.>", b"*", b">"]


def somePattern(rng: random.Random, stars: int = 3) -> bytes:
    """
    @param stars: how likely wildcards are.
    @return: a valid subject.
    """
    parts = [rng.choice([*TOKENS, *[b"*"] * stars]) for _ in range(rng.randint(1, 3))]
    return b".".join(parts + [b">"] * (rng.random() * 10 < stars))


def someEntry(rng: random.Random, stars: int) -> bytes:
    """
    @return: a pattern, or a pattern and a queue.
    """
    queue = b" " + rng.choice(QUEUES) if rng.random() < 0.4 else b""
    return somePattern(rng, stars) + queue


def someUser(rng: random.Random) -> User:
    """
    @return: lists of entries; an empty one stands for no list.
    """
    return (
        [somePattern(rng) for _ in range(rng.choice([0, 3, 6]))],
        [somePattern(rng) for _ in range(rng.choice([0, 1, 3]))],
        [someEntry(rng, 6) for _ in range(rng.choice([0, 0, 6, 9]))],
        [someEntry(rng, 1) for _ in range(rng.choice([1, 3, 6, 9]))],
    )


def permissionsText(name: str, user: User) -> str:
    """
    @return: the user for the configuration file.
    """
    lists = []
    for verb, allow, deny in (("publish", *user[:2]), ("subscribe", *user[2:])):
        rules = [f"allow: {inQuotes(allow)}"] if allow else []
        rules += [f"deny: {inQuotes(deny)}"] if deny else []
        if rules:
            lists.append(f"{verb}: {{ {', '.join(rules)} }}")
    return f"{{ user: {name}, password: x, permissions: {{ {', '.join(lists)} }} }}"


RNG = random.Random(20260821)
USERS = {f"u{number}": someUser(RNG) for number in range(16)}
ROW_USERS: dict[str, User] = {
    f"row{number}": ([], [], *permissionsOf(entries)) for number, (entries, _) in enumerate(ROWS)
}
STAR_USER: User = ([], [], [b"foo.*"], [])

#: What messages are published to; some have wildcards, which are literal then.
SUBJECTS = sorted({somePattern(RNG) for _ in range(25)} | {b"a", b"a.b", b"b.a", b"a.b.c"})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with all users, and one user with every permission."""
    known = {**USERS, **ROW_USERS, "star": STAR_USER}
    texts = [permissionsText(name, user) for name, user in known.items()]
    config = "authorization {{ users = [\n{}\n] }}".format(
        "\n".join([*texts, "{ user: all, password: x }"])
    )
    directory: Path = tmp_path_factory.mktemp("permissions")
    with realServer(directory, config) as opened:
        yield opened


def subscribed(line: Line, pattern: bytes, queue: bytes) -> bool:
    """
    Subscribe with sid 1.

    @return: whether the server let that happen.
    """
    answer = line.ask(b"SUB %b %b 1\r\n" % (pattern, queue))
    if not answer:
        return True
    using = b' using queue "%b"' % queue if queue else b""
    violation = b"-ERR 'Permissions Violation for Subscription to \"%b\"%b'" % (pattern, using)
    assert answer == [violation]
    return False


def questionsFor(name: str) -> list[tuple[bytes, bytes]]:
    """
    @return: patterns and queues for a user to subscribe to, without those that the server is known
        to judge otherwise.
    """
    rng, allow = random.Random(name), USERS[name][2]
    made = [(somePattern(rng, 6), rng.choice([b"", b"", *QUEUES])) for _ in range(25)]
    return [(pattern, queue) for pattern, queue in made if not readOtherwise(allow, pattern)]


def test_questionsTellTheRulesApart() -> None:
    """Among the questions there are many of each verdict, and many deliveries left out."""
    verdicts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
    left = 0
    for name, (_, _, allow, deny) in USERS.items():
        permissions = SubscribePermissions(allow or None, deny)
        for pattern, queue in questionsFor(name):
            verdicts[permissions.verdict(pattern, queue)] += 1
            reached = [subject for subject in SUBJECTS if matches(pattern, subject)]
            left += sum(not permissions.mayDeliver(subject, queue) for subject in reached)
    assert min(verdicts.values()) >= 30
    assert left >= 100


class TestBesideNatsServer:
    """The same questions to natsbroker's permissions and nats-server."""

    @pytest.mark.parametrize("name", USERS)
    def test_publish(self, port: int, name: str) -> None:
        """natsbroker and nats-server allow publishing to the same subjects."""
        allow, deny, _, _ = USERS[name]
        permissions = PermissionSet(allow or None, deny)
        line = Line(port, name)
        for subject in SUBJECTS:
            refused = [b"-ERR 'Permissions Violation for Publish to \"%b\"'" % subject]
            expected = [] if permissions.allows(subject) else refused
            assert line.ask(b"PUB %b 0\r\n\r\n" % subject) == expected, subject
        line.close()

    @pytest.mark.parametrize("name", USERS)
    def test_subscribe(self, port: int, name: str) -> None:
        """
        natsbroker and nats-server accept the same subscriptions, and deliver the same messages.
        """
        _, _, allow, deny = USERS[name]
        permissions = SubscribePermissions(allow or None, deny)
        line, publisher = Line(port, name), Line(port, "all")
        for pattern, queue in questionsFor(name):
            allowed = permissions.verdict(pattern, queue) is not DENIED
            assert subscribed(line, pattern, queue) is allowed, (pattern, queue)
            if not allowed:
                continue
            publisher.ask(b"".join([b"PUB %b 0\r\n\r\n" % subject for subject in SUBJECTS]))
            delivered = [head.split()[1] for head in line.ask(b"UNSUB 1\r\n")[::2]]
            expected = [
                subject
                for subject in SUBJECTS
                if matches(pattern, subject) and permissions.mayDeliver(subject, queue)
            ]
            assert delivered == expected, (pattern, queue)
        line.close()
        publisher.close()

    @pytest.mark.parametrize("name", ROW_USERS)
    def test_truthTable(self, port: int, name: str) -> None:
        """The table of plain and queue entries holds for nats-server."""
        _, expected = ROWS[list(ROW_USERS).index(name)]
        line = Line(port, name)
        marks = ""
        for queue in (b"", b"q", b"r"):
            marks += "-+"[subscribed(line, b"foo", queue)]
            line.ask(b"UNSUB 1\r\n")
        line.close()
        assert marks == expected

    def test_theDifference(self, port: int) -> None:
        """
        nats-server lets C{foo.*} allow C{SUB foo.>}, and delivers C{foo.a.b}; natsbroker does not.
        """
        line = Line(port, "star")
        assert subscribed(line, b"foo.>", b"")
        publisher = Line(port, "all")
        publisher.ask(b"PUB foo.a.b 0\r\n\r\n")
        assert line.ask(b"")[0] == b"MSG foo.a.b 1 0"
        line.close()
        publisher.close()
        assert SubscribePermissions(STAR_USER[2]).verdict(b"foo.>") is DENIED


def readOtherwise(allow: list[bytes], pattern: bytes) -> bool:
    """
    Tell whether the server reads the last token of the pattern as an ordinary one that some allowed
    entry covers: the difference that L{natsbroker.subjects.permissions} states.
    """
    patterns = [entry.split()[0] for entry in allow]
    return any(matches(other, pattern) and not isSubset(pattern, other) for other in patterns)
