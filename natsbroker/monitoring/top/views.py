"""The views of C{natsbroker top}: which page each reads, and the columns of its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from natsbroker.monitoring.top.tables import INTERNAL, Column, Item, Unit, View, itemsAt, memberAt

MOST_ROWS = 1024
MOST_SUBSCRIPTIONS = 4096
"""The number of rows that a page is asked for."""

_COUNT, _BYTES, _DURATION, _TIME = Unit.COUNT, Unit.BYTES, Unit.DURATION, Unit.TIME

_TRAFFIC = (
    Column("Subs", "subscriptions", _COUNT, sort="subs"),
    Column("Pending", "pending_bytes", _BYTES, sort="pending"),
    Column("Msgs to", "out_msgs", _COUNT, sort="msgs_to"),
    Column("Msgs from", "in_msgs", _COUNT, sort="msgs_from"),
    Column("Bytes to", "out_bytes", _BYTES, sort="bytes_to"),
    Column("Bytes from", "in_bytes", _BYTES, sort="bytes_from"),
)

_RATES = (
    Column("Msgs to/s", "out_msgs", _COUNT, isRate=True, sort="msgs_to"),
    Column("Msgs from/s", "in_msgs", _COUNT, isRate=True, sort="msgs_from"),
    Column("Bytes to/s", "out_bytes", _BYTES, isRate=True, sort="bytes_to"),
    Column("Bytes from/s", "in_bytes", _BYTES, isRate=True, sort="bytes_from"),
)

_TIMES = (
    Column("RTT", "rtt", _DURATION, sort="rtt"),
    Column("Uptime", "uptime", _DURATION, sort="uptime"),
    Column("Idle", "idle", _DURATION, sort="idle"),
)


def _connections(page: Item) -> Iterator[Item]:
    return map(_withHost, itemsAt(page, "connections"))


def _withHost(item: Item) -> Item:
    return {**item, "host": f"{item.get('ip', '')}:{item.get('port', '')}"}


def _routes(page: Item) -> Iterator[Item]:
    for route in itemsAt(page, "routes"):
        yield _withHost({**route, "pending_bytes": route.get("pending_size"), **_dialled(route)})


def _dialled(item: Item) -> Item:
    return {"direction": "out" if item.get("did_solicit") is True else "in"}


def _gateways(page: Item) -> Iterator[Item]:
    for name, gateway in _membersAt(page, "outbound_gateways"):
        yield from _gateway(name, "out", gateway)
    for name, several in _membersAt(page, "inbound_gateways"):
        for gateway in several if isinstance(several, list) else ():
            yield from _gateway(name, "in", gateway)


def _membersAt(page: Item, name: str) -> Iterable[tuple[str, Any]]:
    member = page.get(name)
    return member.items() if isinstance(member, Mapping) else ()


def _gateway(name: str, direction: str, item: object) -> Iterator[Item]:
    connection = memberAt(item, "connection")
    if isinstance(item, Mapping) and isinstance(connection, Mapping):
        modes = {str(account.get("interest_mode")) for account in itemsAt(item, "accounts")}
        own = {"gateway": name, "direction": direction, "modes": ", ".join(sorted(modes))}
        yield _withHost({**item, **connection, **own})


def _leafnodes(page: Item) -> Iterator[Item]:
    for leafnode in itemsAt(page, "leafs"):
        yield _withHost(
            {**leafnode, "role": "hub" if leafnode.get("is_spoke") is True else "spoke"}
        )


def _subjects(page: Item) -> Iterator[Item]:
    """Subscriptions by account, subject and queue group, with the sums of their messages."""
    items: dict[tuple[str, str, str], dict[str, Any]] = {}
    for subscription in itemsAt(page, "subscriptions_list"):
        subject = str(subscription.get("subject"))
        key = (str(subscription.get("account")), subject, str(subscription.get("qgroup")))
        names = {name: subscription.get(name) for name in ("account", "subject", "qgroup")}
        item = items.setdefault(key, {**names, "count": 0, "msgs": 0, "subscriptions": []})
        item["count"] += 1
        messages = subscription.get("msgs")
        item["msgs"] += messages if isinstance(messages, int) else 0
        item["subscriptions"].append(subscription)
        item[INTERNAL] = subject.startswith(("$", "_"))
    return iter(items.values())


def _accounts(page: Item) -> Iterator[Item]:
    return itemsAt(page, "account_statz")


def _streams(page: Item) -> Iterator[Item]:
    for account in itemsAt(page, "account_details"):
        for stream in itemsAt(account, "stream_detail"):
            yield {**stream, "account": account.get("name")}


def _consumers(page: Item) -> Iterator[Item]:
    for stream in _streams(page):
        for consumer in itemsAt(stream, "consumer_detail"):
            yield {**consumer, "account": stream["account"]}


def _channels(page: Item) -> Iterator[Item]:
    for channel in itemsAt(page, "channels"):
        subscriptions = list(itemsAt(channel, "subscriptions"))
        pending = [memberAt(one, "pending_count") for one in subscriptions]
        stalled = sum(one.get("is_stalled") is True for one in subscriptions)
        yield {
            **channel,
            "count": len(subscriptions),
            "pending": sum(count for count in pending if isinstance(count, int)),
            "stalled": stalled,
        }


VIEWS = (
    View(
        key="1",
        title="Connections",
        path="/connz",
        query={"auth": "true"},
        itemsIn=_connections,
        identity=("cid",),
        columns=(
            Column("Host", "host"),
            Column("CID", "cid", _COUNT, sort="cid"),
            Column("Name", "name"),
            Column("Account", "account"),
            Column("User", "authorized_user"),
            *_TRAFFIC,
            *_RATES,
            Column("Lang", "lang"),
            Column("Version", "version"),
            Column("Kind", "type"),
            *_TIMES,
        ),
        order="Msgs from/s",
        limit=MOST_ROWS,
        detailQuery={"subs": "detail", "state": "all"},
        detailNames={"cid": "cid"},
    ),
    View(
        key="2",
        title="Subjects",
        path="/subsz",
        query={"subs": "true"},
        itemsIn=_subjects,
        identity=("account", "subject", "qgroup"),
        columns=(
            Column("Subject", "subject"),
            Column("Queue", "qgroup"),
            Column("Account", "account"),
            Column("Subs", "count", _COUNT),
            Column("Msgs", "msgs", _COUNT),
            Column("Msgs/s", "msgs", _COUNT, isRate=True),
        ),
        order="Msgs/s",
        limit=MOST_SUBSCRIPTIONS,
    ),
    View(
        key="3",
        title="Accounts",
        path="/accstatz",
        query={"unused": "true"},
        itemsIn=_accounts,
        identity=("acc",),
        columns=(
            Column("Account", "name"),
            Column("Conns", "conns", _COUNT),
            Column("Leafs", "leafnodes", _COUNT),
            Column("Subs", "num_subscriptions", _COUNT),
            Column("Msgs to", "sent.msgs", _COUNT),
            Column("Msgs from", "received.msgs", _COUNT),
            Column("Bytes to", "sent.bytes", _BYTES),
            Column("Bytes from", "received.bytes", _BYTES),
            Column("Msgs to/s", "sent.msgs", _COUNT, isRate=True),
            Column("Msgs from/s", "received.msgs", _COUNT, isRate=True),
            Column("Bytes to/s", "sent.bytes", _BYTES, isRate=True),
            Column("Bytes from/s", "received.bytes", _BYTES, isRate=True),
            Column("Slow", "slow_consumers", _COUNT),
        ),
        order="Msgs from/s",
        absence="it is older than this page",
    ),
    View(
        key="4",
        title="Streams",
        path="/jsz",
        query={"accounts": "true", "streams": "true"},
        itemsIn=_streams,
        identity=("account", "name"),
        columns=(
            Column("Stream", "name"),
            Column("Account", "account"),
            Column("Msgs", "state.messages", _COUNT),
            Column("Bytes", "state.bytes", _BYTES),
            Column("Subjects", "state.num_subjects", _COUNT),
            Column("Consumers", "state.consumer_count", _COUNT),
            Column("First", "state.first_seq", _COUNT),
            Column("Last", "state.last_seq", _COUNT),
            Column("Stored/s", "state.last_seq", _COUNT, isRate=True),
            Column("Leader", "cluster.leader"),
        ),
        order="Stored/s",
        absence="it has no JetStream, or is older than this page",
        detailQuery={"consumers": "true", "config": "true"},
        detailNames={"acc": "account"},
    ),
    View(
        key="5",
        title="Consumers",
        path="/jsz",
        query={"accounts": "true", "streams": "true", "consumers": "true"},
        itemsIn=_consumers,
        identity=("account", "stream_name", "name"),
        columns=(
            Column("Consumer", "name"),
            Column("Stream", "stream_name"),
            Column("Account", "account"),
            Column("Behind", "num_pending", _COUNT),
            Column("Unacked", "num_ack_pending", _COUNT),
            Column("Redelivered", "num_redelivered", _COUNT),
            Column("Waiting", "num_waiting", _COUNT),
            Column("Delivered", "delivered.stream_seq", _COUNT),
            Column("Acked", "ack_floor.stream_seq", _COUNT),
            Column("Delivered/s", "delivered.consumer_seq", _COUNT, isRate=True),
            Column("Acked/s", "ack_floor.consumer_seq", _COUNT, isRate=True),
        ),
        order="Behind",
        absence="it has no JetStream, or is older than this page",
        detailQuery={"config": "true"},
        detailNames={"acc": "account"},
    ),
    View(
        key="6",
        title="Channels",
        path="/streaming/channelsz",
        query={"channels": "1", "subs": "1"},
        itemsIn=_channels,
        identity=("name",),
        columns=(
            Column("Channel", "name"),
            Column("Msgs", "msgs", _COUNT),
            Column("Bytes", "bytes", _BYTES),
            Column("First", "first_seq", _COUNT),
            Column("Last", "last_seq", _COUNT),
            Column("Subs", "count", _COUNT),
            Column("Unacked", "pending", _COUNT),
            Column("Stalled", "stalled", _COUNT),
            Column("Stored/s", "last_seq", _COUNT, isRate=True),
        ),
        order="Stored/s",
        limit=MOST_ROWS,
        absence="channels are those of NATS Streaming, which it does not serve",
    ),
    View(
        key="7",
        title="Closed",
        path="/connz",
        query={"auth": "true", "state": "closed"},
        itemsIn=_connections,
        identity=("cid",),
        columns=(
            Column("Host", "host"),
            Column("CID", "cid", _COUNT, sort="cid"),
            Column("Name", "name"),
            Column("Account", "account"),
            Column("User", "authorized_user"),
            Column("Closed at", "stop", _TIME, sort="stop"),
            Column("Reason", "reason", sort="reason"),
            Column("Lived", "uptime", _DURATION, sort="uptime"),
            *_TRAFFIC,
            Column("Lang", "lang"),
            Column("Version", "version"),
        ),
        order="Closed at",
        limit=MOST_ROWS,
        detailQuery={"subs": "detail", "state": "all"},
        detailNames={"cid": "cid"},
    ),
    View(
        key="8",
        title="Routes",
        path="/routez",
        query={},
        itemsIn=_routes,
        identity=("rid",),
        columns=(
            Column("Server", "remote_name"),
            Column("Host", "host"),
            Column("RID", "rid", _COUNT),
            Column("Dialled", "direction"),
            Column("Account", "account"),
            *_TRAFFIC,
            *_RATES,
            Column("Compression", "compression"),
            *_TIMES,
        ),
        order="Server",
    ),
    View(
        key="9",
        title="Gateways",
        path="/gatewayz",
        query={"accs": "true"},
        itemsIn=_gateways,
        identity=("gateway", "direction", "cid"),
        columns=(
            Column("Gateway", "gateway"),
            Column("Host", "host"),
            Column("CID", "cid", _COUNT),
            Column("Dialled", "direction"),
            Column("Interest", "modes"),
            *_TRAFFIC,
            *_RATES,
            *_TIMES,
        ),
        order="Gateway",
    ),
    View(
        key="0",
        title="Leafnodes",
        path="/leafz",
        query={},
        itemsIn=_leafnodes,
        identity=("id", "ip", "port"),
        columns=(
            Column("Server", "name"),
            Column("Host", "host"),
            Column("ID", "id", _COUNT),
            Column("Remote", "role"),
            Column("Account", "account"),
            *(column for column in _TRAFFIC if column.title != "Pending"),
            *_RATES,
            Column("Compression", "compression"),
            Column("RTT", "rtt", _DURATION),
        ),
        order="Server",
    ),
)

SERVER = View(
    key="",
    title="Server",
    path="/varz",
    query={},
    itemsIn=lambda page: [page],
    identity=("server_id",),
    columns=(
        Column("name", "server_name"),
        Column("version", "version"),
        Column("up", "uptime", _DURATION),
        Column("CPU %", "cpu", _COUNT),
        Column("memory", "mem", _BYTES),
        Column("connections", "connections", _COUNT),
        Column("subscriptions", "subscriptions", _COUNT),
        Column("slow consumers", "slow_consumers", _COUNT),
        Column("msgs in/s", "in_msgs", _COUNT, isRate=True),
        Column("out/s", "out_msgs", _COUNT, isRate=True),
        Column("bytes in/s", "in_bytes", _BYTES, isRate=True),
        Column("out/s", "out_bytes", _BYTES, isRate=True),
    ),
    order="name",
)
"""The text above each table."""

FIRST_LINE = 3
"""The number of its columns beside the URL."""
