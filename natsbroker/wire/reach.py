"""
The forwarding rules: from which kind of origin a message goes to which kind of target::

    from \\ to   CLIENT  INTERNAL  LOCAL  ROUTE  GATEWAY  HUB  SPOKE
    CLIENT        yes      yes     yes    yes     yes    yes   yes
    INTERNAL      yes      yes     yes    yes     yes    yes   yes
    LOCAL         yes      yes     yes    no      no     no    no
    ROUTE         yes      yes     no     no      no     no    yes
    GATEWAY       yes      yes     no     yes     no     yes   yes
    HUB           yes      yes     no     no      yes    yes   yes
    SPOKE         yes      yes     no     yes     yes    yes   yes

A route message takes one hop, since its sender reaches every other member itself. So it goes only
to the peers that this member serves, which include the leafnodes that it is the hub of (C{SPOKE}).
The exception is a message for a queue group whose last member here has gone (see
L{natsbroker.accounts.delivery}). A gateway message is sent to one member of the cluster, which
forwards it to the others, but never to a third cluster. A message from a hub of ours (C{HUB}) is
not sent to routes, because every member of this cluster has an uplink of its own. A message from a
spoke is treated as if a client of ours had published it. Services that answer for this broker alone
(C{LOCAL}) exchange no messages with other brokers. That a message never returns over its own
connection is checked by identity, not here. (Observed of nats-server's message forwarding.)
"""

from __future__ import annotations

from natsbroker.wire.values import Kind

_EVERYTHING = frozenset(Kind)
_NOT_LOCAL = _EVERYTHING - {Kind.LOCAL}

#: For each kind of origin the kinds of target that its messages reach.
REACH: dict[Kind, frozenset[Kind]] = {
    Kind.CLIENT: _EVERYTHING,
    Kind.INTERNAL: _EVERYTHING,
    Kind.LOCAL: frozenset({Kind.CLIENT, Kind.INTERNAL, Kind.LOCAL}),
    Kind.ROUTE: frozenset({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE}),
    Kind.GATEWAY: _NOT_LOCAL - {Kind.GATEWAY},
    Kind.HUB: _NOT_LOCAL - {Kind.ROUTE},
    Kind.SPOKE: _NOT_LOCAL,
}

#: The same as one mask for each kind of origin: the bit of each target that is reached is set. The
#: lanes deliver by these.
MASKS = tuple(sum(1 << target for target in REACH[origin]) for origin in Kind)
