"""
Attempts to log in, publish and subscribe, which are derived from a configuration file.

A file begins with remarks that list the possible logins, and subjects and queues worth trying::

    # login user anna apple
    # login nkey SUA...
    # login token s3cret
    # login none
    # subject a.b a.>
    # queue q
    # alone
    # fresh

A file of C{changes} has two configurations, with C{# after} between them.

The attempts depend only on the file, the seed and the number, so that they can be repeated.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

__all__ = [
    "FOLDER",
    "Change",
    "Login",
    "Matter",
    "Script",
    "Try",
    "changes",
    "conversation",
    "matters",
]

FOLDER = Path(__file__).parent

#: What a signature can be.
_SIGNATURES = ("right", "of another nonce", "of another key", "missing", "garbage")

#: How a conversation's login differs from the one that is right, and how often.
_MISTAKES = {
    "": 14,
    "wrong secret": 2,
    "no secret": 1,
    "other name": 1,
    "nothing": 1,
    "all of it": 1,
    "empty": 1,
    "other case": 1,
    "other type": 1,
}


#: How often a client says once more who it is, as any of them.
_ANOTHER_LOGIN = 0.05


@dataclass(frozen=True)
class Login:
    """
    A login.

    @ivar options: the options of CONNECT.
    @ivar seed: the seed of the key that signs the nonce; empty for none.
    @ivar signature: the kind of signature: right or with a mistake.
    """

    options: tuple[tuple[str, Any], ...] = ()
    seed: str = ""
    signature: str = "right"


@dataclass(frozen=True)
class Try:
    """
    One attempt of a client.

    @ivar who: the number of the client.
    @ivar data: the bytes that it sends; C{{reply}} stands for the reply subject of the last message
        that it received.
    """

    who: int
    data: bytes


@dataclass(frozen=True)
class Script:
    """Some clients, and their attempts in order."""

    logins: tuple[Login, ...]
    tries: tuple[Try, ...]

    @property
    def attempts(self) -> int:
        """The number of logins, publishes and subscriptions."""
        return len(self.logins) + len(self.tries)

    @property
    def script(self) -> bytes:
        """All bytes that are sent after the logins."""
        return b"".join(attempt.data for attempt in self.tries)


@dataclass(frozen=True)
class Matter:
    """
    A configuration file.

    @ivar logins: the possible logins.
    @ivar subjects: the subjects worth trying.
    @ivar isAlone: whether neither server can apply it as a reload.
    @ivar isFresh: whether nats-server is restarted before each conversation, because it forgets no
        users when they are replaced by other credentials.
    """

    name: str
    path: Path
    logins: tuple[Login, ...]
    subjects: tuple[bytes, ...]
    queues: tuple[bytes, ...]
    isAlone: bool = False
    isFresh: bool = False

    @classmethod
    def read(cls, path: Path) -> Matter:
        """
        Read the remarks of a file.
        """
        logins: list[Login] = []
        words: dict[str, list[str]] = {"subject": [], "queue": []}
        flags = {"alone": False, "fresh": False}
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith("# "):
                break
            kind, *rest = shlex.split(line[2:])
            if kind == "login":
                logins.append(_login(*rest))
            elif kind in flags:
                flags[kind] = True
            else:
                words[kind] += rest
        subjects = tuple(subject.encode() for subject in words["subject"] or ["a"])
        queues = tuple(queue.encode() for queue in words["queue"] or ["q", "r", "s"])
        return cls(path.stem, path, tuple(logins), subjects, queues, flags["alone"], flags["fresh"])


def matters() -> list[Matter]:
    """
    @return: every configuration of the corpus.
    """
    return [Matter.read(path) for path in sorted((FOLDER / "configs").glob("*.conf"))]


@dataclass(frozen=True)
class Change:
    """
    A configuration that is replaced by another one.

    @ivar matter: the remarks for both; its file contains one after the other.
    """

    matter: Matter
    before: str
    after: str

    @classmethod
    def read(cls, path: Path) -> Change:
        """Read both configurations from a file, with C{# after} between them."""
        before, _, after = path.read_text("utf-8").partition("# after\n")
        return cls(Matter.read(path), before, after)


def changes() -> list[Change]:
    """
    @return: every change of the corpus.
    """
    return [Change.read(path) for path in sorted((FOLDER / "changes").glob("*.conf"))]


def _login(kind: str, *rest: str) -> Login:
    if kind == "nkey":
        return Login(seed=rest[0])
    if kind == "token":
        return Login((("auth_token", rest[0]),))
    if kind == "user":
        return Login(tuple(zip(("user", "pass"), rest, strict=False)))
    return Login()


def conversation(matter: Matter, seed: int, number: int) -> Script:
    """
    Make one conversation.
    """
    random = Random(f"{matter.name} {seed} {number}")
    count = random.choice((1, 2, 2, 3))
    # Everybody who is named is somebody's turn first, so that few conversations try all of them.
    known = matter.logins
    chosen = [known[(number + place) % len(known)] for place in range(count)]
    random.shuffle(chosen)
    logins = tuple(_varied(login, known, random) for login in chosen)
    queues = list(matter.queues)
    random.shuffle(queues)
    tries = [_try(matter, queues, count, random) for _ in range(random.randint(3, 9))]
    return Script(logins, tuple(tries))


def _varied(login: Login, known: tuple[Login, ...], random: Random) -> Login:
    """A correct login, or one with a mistake."""
    mistake = random.choices(list(_MISTAKES), list(_MISTAKES.values()))[0]
    options: dict[str, Any] = dict(login.options)
    if mistake == "nothing":
        return Login()
    if mistake == "empty":
        return replace(login, options=(("user", ""), ("pass", "")))
    if mistake == "all of it":
        everything = {name: value for change in known for name, value in change.options}
        return replace(login, options=tuple(everything.items()))
    if mistake == "other case":
        return replace(login, options=tuple((n.upper(), value) for n, value in login.options))
    if mistake == "other type" and options:
        options[random.choice(list(options))] = random.choice([5, True, None, ("anna",), 1.5])
    elif mistake == "other name":
        options["user"] = random.choice(["nobody", "ANNA", "anna ", "$G", "*"])
    elif login.seed and mistake:
        return replace(login, signature=random.choice(_SIGNATURES[1:]))
    elif mistake:
        secret = "auth_token" if "auth_token" in options else "pass"
        wrong = options.pop(secret, "")
        if mistake == "wrong secret":
            options[secret] = random.choice(
                [wrong + "x", wrong[:-1], wrong.upper(), "x", "$2a$04$x"]
            )
    return replace(login, options=tuple(options.items()))


def _try(matter: Matter, queues: list[bytes], count: int, random: Random) -> Try:
    who = random.randrange(count)
    subject = _subject(matter, random)
    kind = random.choice(
        ("SUB", "SUB", "SUB", "PUB", "PUB", "PUB", "PUB", "ask", "answer", "UNSUB")
    )
    sid = random.randint(1, 6)
    if random.random() < _ANOTHER_LOGIN:
        login = _varied(random.choice(matter.logins), matter.logins, random)
        options = {"verbose": False, "pedantic": False, **dict(login.options)}
        return Try(who, b"CONNECT %b\r\n" % json.dumps(options).encode())
    if kind == "SUB":
        # A group has one member, so that nothing is left to chance.
        queue = queues.pop() + b" " if queues and random.random() < 0.4 else b""
        return Try(who, b"SUB %b %b%d\r\n" % (subject, queue, random.randint(1, 6)))
    if kind == "UNSUB":
        return Try(who, b"UNSUB %d\r\n" % sid)
    body = b"x" * random.choice((0, 1, 1, 5, 6, 41))
    if kind == "answer":
        return Try(who, b"PUB {reply} %d\r\n%b\r\n" % (len(body), body))
    reply = random.choice((b"inbox.1 ", b"_INBOX.anna.1 ")) if kind == "ask" else b""
    return Try(who, b"PUB %b %b%d\r\n%b\r\n" % (subject, reply, len(body), body))


def _subject(matter: Matter, random: Random) -> bytes:
    """A subject of the file, or sometimes a similar one."""
    subject = random.choice((*matter.subjects, *matter.subjects, b"inbox.1", b">"))
    change = random.random()
    tokens = subject.split(b".")
    if change < 0.08:
        tokens[random.randrange(len(tokens))] = random.choice((b"*", b"z"))
    elif change < 0.14:
        tokens.append(random.choice((b"*", b">", b"z")))
    elif change < 0.18 and len(tokens) > 1:
        tokens.pop()
    elif change < 0.21:
        tokens[-1] = b">"
    return b".".join(tokens)
