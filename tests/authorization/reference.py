"""
The rules of permissions a second time, in words and in forty lines that share nothing with the
product.

- A message may be published where an allowed pattern matches its subject, or everywhere if there is
no list of allowed patterns, unless a denied pattern matches. A user who may answer and has no list
at all may publish nowhere. No user publishes to the reply subjects of gateways, and only the system
account publishes below C{$NRG}.

- A subscription is accepted if an allowed entry covers its pattern, or if there is no list of
allowed entries, unless a denied entry matches the pattern. An entry with a queue applies to
subscriptions in queues that it matches. If an entry with a queue covers a subscription in a queue,
then an entry with this queue must allow it.

- A message that a denied entry matches is not delivered.

The module uses the standard library only. Wildcards in a published subject count as literal words,
except where coverage is decided.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules", "covers", "fits", "may"]


@dataclass(frozen=True)
class Rules:
    """The permissions of a user. C{None} means that there is no list."""

    publish: tuple[str, ...] | None = None
    notPublish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] | None = None
    notSubscribe: tuple[str, ...] = ()
    answers: bool = False
    isSystem: bool = False


def fits(pattern: str, subject: str) -> bool:
    """
    Whether a pattern matches a subject, taken word by word.
    """
    wanted, words = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(words) >= len(wanted) and _alike(wanted[:-1], words)
    return len(words) == len(wanted) and _alike(wanted, words)


def _alike(wanted: list[str], words: list[str]) -> bool:
    return all(token in ("*", word) for token, word in zip(wanted, words, strict=False))


def covers(pattern: str, other: str) -> bool:
    """Whether every subject that the second pattern matches is matched by the first."""
    if other.endswith(">") and other.split(".")[-1] == ">":
        return pattern.split(".")[-1] == ">" and fits(pattern, other)
    return fits(pattern, other)


def _entries(entries: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(entry.partition(" ")[0], entry.partition(" ")[2].strip()) for entry in entries]


def _inQueue(queue: str, wanted: str) -> bool:
    return bool(queue) and (queue == wanted or covers(wanted, queue))


def _deaf(rules: Rules, subject: str, queue: str) -> bool:
    return any(
        fits(pattern, subject) and (not wanted or _inQueue(queue, wanted))
        for pattern, wanted in _entries(rules.notSubscribe)
    )


def may(rules: Rules, verb: str, subject: str, queue: str = "") -> bool:
    """
    Whether a user may C{publish} to a subject, C{subscribe} to a pattern, or C{hear} a message.
    """
    if verb == "publish":
        if subject.startswith(("_GR_.", "$GR.")):
            return False
        if subject.startswith("$NRG.") and not rules.isSystem:
            return False
        allowed = rules.publish
        if allowed is None and not rules.notPublish and rules.answers:
            return False
        return (allowed is None or any(fits(entry, subject) for entry in allowed)) and not any(
            fits(entry, subject) for entry in rules.notPublish
        )
    if _deaf(rules, subject, queue):
        return False
    if verb == "hear" or rules.subscribe is None:
        return True
    covering = [wanted for pattern, wanted in _entries(rules.subscribe) if covers(pattern, subject)]
    queues = [wanted for wanted in covering if wanted]
    if queue and queues:
        return any(_inQueue(queue, wanted) for wanted in queues)
    return "" in covering
