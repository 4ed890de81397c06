"""
The contracts of gateway interest policies.

Each of two clusters dials the other. Over the outbound connection a broker sends messages and
receives the interest of the other cluster; over the inbound connection it receives messages and
sends the interest of its own cluster. (docs/topics/gateways.md.)

A policy is called when something changes, never for a message. It returns data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from natsbroker.interfaces.services import IBrokerHost

__all__ = [
    "IGatewayInterestPolicy",
    "IGatewayPolicyPlugin",
    "IInterestTable",
]


class IInterestTable(Interface):
    """
    The messages that one other cluster gets in one account. The table alone decides.

    Its answers are cached until its policy reports a change. A table changes only during a call of
    its policy.
    """

    mode = Attribute(
        "The mode as a human-readable word: C{optimistic}, C{transitioning}, C{interest-only}, or "
        "a word of the policy."
    )

    isOpen = Attribute("Whether subjects without known interest are sent.")

    def match(subject: bytes) -> tuple[bool, Iterable[bytes]]:
        """
        The interest of the other cluster in a literal subject. Must not raise or block.

        @return: whether it gets the message for its plain subscriptions, and its queue groups that
            have members for the subject.
        """

    def figures() -> Mapping[str, Any]:
        """
        A human-readable summary: C{mode}; C{no_interest}, the number of refused subjects;
        C{interest} and C{queues}, the numbers of wanted patterns; C{switches}, the number of
        changes of the mode; and C{switched}, the last of them, in seconds since the epoch (0.0 for
        never). A policy may add members.
        """

    def interests() -> Iterable[tuple[bytes, bytes]]:
        """
        The known patterns, each with its queue group or empty: for monitoring, and for leafnodes,
        which receive the interest beyond their hub.
        """

    def wants(pattern: bytes, queue: bytes) -> bool:
        """Whether a pattern, with a queue group or empty, is among them."""


class IGatewayInterestPolicy(Interface):
    """
    Decides what is sent to other clusters, and how they receive the interest of this one.

    A method with a table, which this policy made, returns the table to use from now on. That may be
    the same object: then only the answers for subjects that match the pattern in question may have
    changed, or any answers where there is no pattern. A new table may answer differently.
    """

    tellsAll = Attribute(
        "Whether other clusters may rely on receiving all interest at once, so that they need not "
        "send subjects without known interest (C{gateway_iom} in INFO). C{introduces} must then "
        "be true for each of them."
    )

    def connected(gateway: str, account: str, tellsAll: bool) -> IInterestTable:
        """
        Make the table for a new connection, or for a new account on one. It decides until the other
        cluster sends something about the account.

        @param gateway: the name of the other cluster.
        @param account: the account's name.
        @param tellsAll: the other cluster promises to send all its interest at once.
        @return: a new table.
        """

    def accountWanted(table: Any, isWanted: bool) -> IInterestTable:
        """
        The other cluster has refused the account for plain subscriptions (A-), or takes that back
        (A+).
        """

    def gained(table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        """
        The other cluster has interest in a pattern (RS+).

        @param pattern: a valid subject, which may have wildcards.
        @param queue: the queue group; empty for plain subscriptions.
        @raise natsbroker.subjects.shapes.TooManyShapes: if the table takes no more patterns.
        """

    def lost(table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        """The other cluster has lost its interest, or refuses a subject that it got (RS-)."""

    def listed(table: Any, isComplete: bool) -> IInterestTable:
        """
        The other cluster begins to send all its plain interest in the account (C{gateway_cmd} 2),
        or the list is complete, and every change will follow (C{gateway_cmd} 3).
        """

    def introduces(gateway: str, account: str, tellsAll: bool) -> bool:
        """
        Whether another cluster that connects to us receives all interest in an account at once. If
        not, it receives refusals of the unwanted messages that it sends.

        @param tellsAll: the other cluster promises to do so.
        """

    def switches(gateway: str, account: str, refusals: int) -> bool:
        """
        Whether the sender of an unwanted message receives all interest in the account now, instead
        of a refusal.

        @param refusals: the number of refused subjects; those do not come again.
        """


class IGatewayPolicyPlugin(Interface):
    """Makes gateway interest policies; named by C{gateway { interest { plugin: NAME } }}."""

    name = Attribute("The name in the configuration.")

    def makePolicy(host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        """
        @param section: the other keys of the C{interest} block.
        @raise ValueError: if the section is not valid; the text is reported with its position.
        """
