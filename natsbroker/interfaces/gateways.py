"""
The contracts of gateways: what is sent to other clusters, and what they are told.

Each of two clusters dials the other. Over the connection that this broker dialled it sends, and
hears what the other cluster wants; over the one that it was dialled on it receives, and tells what
this cluster wants. (docs/topics/gateways.md.)

A policy is asked when something changes, never for a message; what it hands over is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

from natsbroker.interfaces.bus import IMessageBus, IOutboxLink

if TYPE_CHECKING:
    from natsbroker.interfaces.services import IBrokerHost
    from natsbroker.wire.values import Message

__all__ = [
    "IGatewayBus",
    "IGatewayInterestPolicy",
    "IGatewayLink",
    "IGatewayOutput",
    "IGatewayPolicyPlugin",
    "IInterestTable",
]


class IInterestTable(Interface):
    """
    What is sent to one other cluster in one account. The table is the mode: nothing else is asked.

    Its answers are remembered for as long as nobody says that they changed. A table changes only
    while its policy is asked about it.
    """

    mode = Attribute(
        "How it stands, as a word for people: C{optimistic}, C{transitioning}, C{interest-only}, "
        "or what a policy calls it."
    )

    isOpen = Attribute("Whether what nobody spoke of is sent.")

    def match(subject: bytes) -> tuple[bool, Iterable[bytes]]:
        """
        What the other cluster wants of the messages to a literal subject. Must not raise or block.

        @return: whether it gets them for its plain subscriptions, and its queue groups that have
            members for the subject.
        """

    def figures() -> Mapping[str, Any]:
        """
        The same for people: C{mode}; C{no_interest}, how many subjects are known to be unwanted;
        C{interest} and C{queues}, how many patterns are known to be wanted; C{switches}, how often
        the mode has changed; and C{switched}, when it did last, in seconds since the epoch (0.0 for
        never). A policy may add what it likes.
        """

    def interests() -> Iterable[tuple[bytes, bytes]]:
        """
        The patterns that are known to be wanted, each with its queue group or no bytes: for people,
        and for leafnodes, which are told what is wanted beyond their hub.
        """

    def wants(pattern: bytes, queue: bytes) -> bool:
        """
        Whether a pattern, with a queue group or no bytes, is among them.
        """


class IGatewayInterestPolicy(Interface):
    """
    Decides what is sent to other clusters, and how those are told what this one wants.

    Whatever takes a table, which this policy made, returns the one to use from now on. That may be
    the same, changed: then no answers may have changed but those for subjects that match the
    pattern in question, or any where there is none. Another table may answer as it likes.
    """

    tellsAll = Attribute(
        "Whether other clusters may rely on being told all interest at once, so that they need not "
        "send what nobody spoke of (C{gateway_iom} in INFO). C{introduces} must then say so for "
        "each of them."
    )

    def connected(gateway: str, account: str, tellsAll: bool) -> IInterestTable:
        """
        A connection to another cluster was made, or there is another account on one: what is sent
        over it before the other cluster has said anything of the account.

        @param gateway: what the other cluster is called.
        @param account: the account's name.
        @param tellsAll: whether the other cluster promises to tell all its interest at once.
        @return: a new table.
        """

    def accountWanted(table: Any, isWanted: bool) -> IInterestTable:
        """
        The other cluster wants nothing of the account for plain subscriptions (A-), or takes that
        back (A+).
        """

    def gained(table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        """
        The other cluster wants what matches a pattern (RS+).

        @param pattern: a valid subject, which may hold wildcards.
        @param queue: for which queue group; no bytes for plain subscriptions.
        @raise natsbroker.subjects.shapes.TooManyShapes: if the table takes no more patterns.
        """

    def lost(table: Any, pattern: bytes, queue: bytes) -> IInterestTable:
        """
        The other cluster does not want it any more, or got something that it does not want (RS-).
        """

    def listed(table: Any, isComplete: bool) -> IInterestTable:
        """
        What the other cluster tells next is all its plain interest in the account (C{gateway_cmd}
        2), or that was all, and every change will be told (C{gateway_cmd} 3).
        """

    def introduces(gateway: str, account: str, tellsAll: bool) -> bool:
        """
        Whether another cluster, which connected in order to send, is told all interest of an
        account at once. If not, it is told as it sends what nobody wants.

        @param tellsAll: what the other cluster promises for its part.
        """

    def switches(gateway: str, account: str, refusals: int) -> bool:
        """
        Something came that nobody wants. Whether the sender is told all interest of the account
        now, instead of that this is unwanted.

        @param refusals: how many subjects it was told are unwanted; those do not come again.
        """


class IGatewayPolicyPlugin(Interface):
    """
    Makes gateway interest policies; named by C{gateway { interest { plugin: NAME } }}.
    """

    name = Attribute("The name in the configuration.")

    def makePolicy(host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        """
        @param section: the other keys of the C{interest} block.
        @raise ValueError: if the section makes no sense; the text is shown with its place.
        """


class IGatewayLink(IOutboxLink):
    """
    One account at another cluster, as a target of messages. It provides
    L{natsbroker.interfaces.IOutboxLink} in the dialect of routes.
    """

    replyPrefix = Attribute(
        "What is put in front of reply subjects that only this cluster can know of, as the other "
        "one understands it, so that answers find their way back."
    )

    gateway = Attribute("What the other cluster is called.")

    answers = Attribute(
        "How subjects begin that are mapped so by the other cluster: a tuple of bytes. Whatever "
        "begins like that goes there and nowhere else."
    )


class IGatewayOutput(Interface):
    """
    What an account sends to another cluster.
    """

    table = Attribute("The L{IInterestTable} in use.")

    def use(table: IInterestTable, pattern: bytes = b">", queue: bytes | None = None) -> None:
        """
        Use a table from now on.

        @param pattern: only answers for subjects that match it are other than before.
        @param queue: whether this pattern, with this queue group or no bytes, is wanted is all that
            may have changed of what is known to be; C{None} for anything.
        """

    def place(distance: float) -> None:
        """
        Say how far the other cluster is, in seconds: of several that have members of a queue group
        the nearest gets a message.
        """

    def cancel() -> None:
        """
        Send nothing more. Cancelling twice does nothing.
        """


class IGatewayBus(IMessageBus):
    """
    The bus of one account for what passes between clusters.
    """

    def openGateway(link: IGatewayLink, table: IInterestTable) -> IGatewayOutput:
        """
        Send another cluster what a table says that it wants.

        @param link: the way there; one for each account and connection.
        """

    def isWanted(subject: bytes) -> bool:
        """
        Whether a message to this literal subject would reach any plain subscription from here:
        what only queue groups get does not count, nor what only an import would get, since the
        cluster where it was published imports by itself.
        """

    def answer(message: Message) -> int:
        """
        Deliver an answer that another cluster has led back here, as if it had been published here:
        its subject is what it was before it was mapped.

        @return: how many receivers there were.
        """
