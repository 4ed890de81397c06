"""
The table of the broker's own kinds of connection. It loads without zope.interface, as the
configuration does, which iterates it too.
"""

from __future__ import annotations

from typing import Any

from natsbroker.gateways.kind import GatewayKind
from natsbroker.leafnodes.kind import LeafnodeKind
from natsbroker.routes.kind import RouteKind

#: Services are made and closed in this order, since gateways need the cluster; they listen and
#: announce their addresses in the opposite one, as nats-server does.
KINDS: tuple[Any, ...] = (LeafnodeKind(), RouteKind(), GatewayKind())
