"""
What a log keeps.

The reactor's thread replaces the values, the thread that writes reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.interfaces.records import Retention


@dataclass(slots=True)
class Policy:
    """
    @ivar holds: floors by name; replaced, never changed.
    @ivar sweep: while all subjects must be looked at for C{retention.perSubject}: the key to go on
        behind. C{None} when that is done.
    """

    retention: Retention = field(default_factory=Retention)
    holds: dict[str, int] = field(default_factory=dict)
    sweep: bytes | None = None

    @property
    def floor(self) -> int | None:
        """
        What must not go by rule, and all after it.
        """
        return min(self.holds.values(), default=None)

    def isExceeded(self, count: int, size: int) -> bool:
        """
        Whether a log has more records, or more bytes in several, than it keeps.
        """
        retention = self.retention
        return bool(
            (retention.count and count > retention.count)
            or (retention.size and size > retention.size and count > 1)
        )


def sweepAgain(policies: Mapping[int, Policy]) -> None:
    """
    Have all subjects looked at again: what was done about them was not.
    """
    for policy in list(policies.values()):
        if policy.retention.perSubject:
            policy.sweep = b""
