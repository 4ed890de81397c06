"""The checks of arguments that all stores share; they raise C{ValueError}."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from natsbroker.interfaces.records import SequenceTooLarge

LONGEST_NAME = 400
LONGEST_SPACE = 100
LONGEST_KEY = 300
LARGEST_VALUE = 16 << 20
MOST_HOLDS = 64
LARGEST_SKIP = 1 << 62


def _checkText(what: str, text: str, longest: int) -> None:
    length = len(text.encode("utf-8"))
    if not 1 <= length <= longest:
        raise ValueError(f"the name of {what} has {length} bytes, not 1 to {longest}")


def checkLogName(name: str) -> None:
    _checkText("a log", name, LONGEST_NAME)


def checkSpace(name: str) -> None:
    _checkText("a state space", name, LONGEST_SPACE)


def checkChanges(changes: Mapping[bytes, bytes | None]) -> None:
    for key, value in changes.items():
        if not 1 <= len(key) <= LONGEST_KEY:
            raise ValueError(f"a key of state has {len(key)} bytes, not 1 to {LONGEST_KEY}")
        if value is not None and len(value) > LARGEST_VALUE:
            raise ValueError(f"a value of state has {len(value)} bytes, over {LARGEST_VALUE}")


def checkHold(holds: Collection[str], name: str) -> None:
    _checkText("a hold", name, LONGEST_SPACE)
    if name not in holds and len(holds) >= MOST_HOLDS:
        raise ValueError(f"the log has {len(holds)} holds already")


def skipError(sequence: int, following: int) -> SequenceTooLarge | None:
    """The reason why a log cannot continue with a sequence. C{ValueError} for a used one."""
    if sequence < following:
        raise ValueError(f"sequence {sequence} was used: the next one is {following}")
    return SequenceTooLarge(sequence) if sequence > LARGEST_SKIP else None
