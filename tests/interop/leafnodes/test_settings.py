"""
Logins and permissions of leafnodes: credentials, permissions, roles, and reloads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.interop.leafnodes.brokers import Broker, Ends, remoteTo
from tests.interop.plainclients import Client
from tests.interop.servers import OLD, OURS_FAST, PATIENCE, REAL, Flavour, Server

#: The hub, and the spoke.
PAIRS = [(OURS_FAST, REAL), (REAL, OURS_FAST), (OLD, OURS_FAST), (OURS_FAST, OLD)]

pairs = pytest.mark.parametrize(
    "hub, spoke", PAIRS, ids=lambda pair: pair.name if isinstance(pair, Flavour) else None
)


class Joined:
    """
    A hub and a spoke.
    """

    def __init__(self, hub: Server, spoke: Server, users: tuple[str, str] = ("a", "b")) -> None:
        self.hub, self.spoke = hub, spoke
        self.ends = Ends([(hub, users[0]), (spoke, users[1])])

    def passes(self, sender: int, subject: bytes) -> bool:
        """
        Whether a message passes from one to the other.
        """
        client, other = self.ends.clients[sender], self.ends.clients[1 - sender]
        ear = other.subscribe(subject)
        self.ends.sync()
        client.publish(subject, b"x")
        self.ends.sync()
        heard = other.arrived(ear)
        other.unsubscribe(ear)
        return bool(heard)

    def passesSoon(self, sender: int, subject: bytes) -> bool:
        """
        Whether a message passes soon. At a nats-server of 2.9 on a busy machine, some of the first
        ones did not.
        """
        deadline = time.monotonic() + PATIENCE
        while not (isPassing := self.passes(sender, subject)) and time.monotonic() < deadline:
            pass
        return isPassing


class Maker:
    """Makes servers that are stopped after the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.made: list[Server] = []

    def hub(self, flavour: Flavour, more: str = "", **options: str) -> Broker:
        """A hub."""
        made = Broker(flavour, self._directory, "hub", more, **options)  # type: ignore[arg-type]
        self.made.append(made)
        return made.start()

    def spoke(self, flavour: Flavour, more: str, **options: str) -> Broker:
        """A spoke without a listener for leafnodes."""
        made = Broker(flavour, self._directory, "spoke", more, False, **options)
        self.made.append(made)
        return made.start()

    def server(self, flavour: Flavour, name: str, config: str) -> Server:
        """Any server."""
        home = self._directory / name
        home.mkdir()
        made = Server(flavour, home, config)
        self.made.append(made)
        return made.start()


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    """
    Makes servers; their logs are shown if the test fails.
    """
    made = Maker(tmp_path)
    yield made
    for server in made.made:
        server.stop()
        print(f"log of {server.flavour.name}:\n{server.log()}")


@pairs
def test_nkey(maker: Maker, hub: Flavour, spoke: Flavour) -> None:
    """A spoke can log in with an nkey."""
    if spoke is OLD:
        pytest.skip("it has no keys for remotes")
    user = KeyPair("U")
    users = f"{{nkey: {user.key}}}, {{user: c, password: c}}"
    above = maker.hub(hub, accounts=f"C {{ users: [ {users} ] }}")
    below = maker.spoke(spoke, remoteTo(above.leafPort, "", more=f"nkey: {user.seed.decode()}"))
    joined = Joined(above, below, ("c", "b"))
    joined.ends.form()
    joined.ends.close()


@pairs
def test_credentials(maker: Maker, tmp_path: Path, hub: Flavour, spoke: Flavour) -> None:
    """
    A spoke with a credentials file can log in to a hub in operator mode, with the user's
    permissions.
    """
    operator = Operator()
    system, account = Account(operator), Account(operator)
    user, guest = KeyPair("U"), KeyPair("U")
    permissions = {"sub": {"deny": ["secret.>"]}, "pub": {"deny": ["closed"]}}
    jwt = account.user(user, permissions)
    (tmp_path / "spoke.creds").write_text(credentialsFile(jwt, user))
    (tmp_path / "guest.creds").write_text(credentialsFile(account.user(guest), guest))
    above = maker.server(
        hub,
        "operated",
        f"""
        operator: "{operator.jwt()}"
        system_account: {system.key}
        resolver: MEMORY
        resolver_preload {{ {system.key}: "{system.jwt()}", {account.key}: "{account.jwt()}" }}
        leafnodes {{ listen: "127.0.0.1:-1" }}
        """,
    )
    port = int(above.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1])
    path = tmp_path / "spoke.creds"
    below = maker.spoke(spoke, remoteTo(port, "", more=f'credentials: "{path}"'))
    # Who connects to the hub proves who it is with credentials: a second leafnode is easier.
    third = Broker(
        OURS_FAST,
        tmp_path,
        "third",
        remoteTo(port, "", more=f'credentials: "{tmp_path / "guest.creds"}"'),
        False,
    )
    maker.made.append(third)
    third.start()
    joined = Joined(third, below, ("b", "b"))
    joined.ends.form()
    assert joined.passes(0, b"open") and joined.passes(1, b"open")
    assert not joined.passes(0, b"secret.x") and joined.passes(1, b"secret.x")
    assert not joined.passes(1, b"closed") and joined.passes(0, b"closed")
    joined.ends.close()


@pairs
def test_permissions(maker: Maker, hub: Flavour, spoke: Flavour) -> None:
    """The permissions of the spoke's user at the hub apply in both directions."""
    rules = "publish: { allow: ['up.>', sync] }, subscribe: { allow: ['down.>', sync] }"
    user = f"C {{ users: [ {{user: l, password: l, permissions: {{ {rules} }} }}, "
    above = maker.hub(hub, accounts=user + "{user: c, password: c} ] }")
    below = maker.spoke(spoke, remoteTo(above.leafPort, "l"))
    joined = Joined(above, below, ("c", "b"))
    joined.ends.form()
    assert joined.passesSoon(0, b"down.a") and not joined.passes(0, b"up.a")
    assert joined.passesSoon(1, b"up.a") and not joined.passes(1, b"down.a")
    wide = joined.ends.clients[1].subscribe(b">")
    joined.ends.sync()
    joined.ends.clients[0].publish(b"down.b", b"1")
    joined.ends.clients[0].publish(b"other", b"2")
    joined.ends.sync()
    assert [body for body in joined.ends.clients[1].arrived(wide) if body in b"12"] == [b"1"]
    joined.ends.close()


@pairs
def test_denied(maker: Maker, hub: Flavour, spoke: Flavour) -> None:
    """A message on a subject that a remote denies, for imports or exports, does not pass."""
    above = maker.hub(hub)
    more = "deny_imports: ['in.>'], deny_exports: ['out.>']"
    below = maker.spoke(spoke, remoteTo(above.leafPort, more=more))
    joined = Joined(above, below)
    joined.ends.form()
    assert joined.passes(0, b"out.x") and not joined.passes(0, b"in.x")
    assert joined.passes(1, b"in.x") and not joined.passes(1, b"out.x")
    joined.ends.close()


@pairs
def test_ownUsers(maker: Maker, hub: Flavour, spoke: Flavour) -> None:
    """Leafnodes may have users of their own. Others are refused, also at their later attempts."""
    above = maker.hub(hub, "authorization { users: [ {user: l, pass: l, account: B} ] }")
    below = maker.spoke(spoke, remoteTo(above.leafPort, "l", "A"))
    joined = Joined(above, below, ("b", "a"))
    joined.ends.form()
    joined.ends.close()
    below.reconfigure(remoteTo(above.leafPort, "a", "A"))
    below.restart()
    below.waitForLog("Authorization Violation")
    above.waitForLog("authentication error")


@pytest.mark.parametrize("dialled, dialling", [(OURS_FAST, REAL), (REAL, OURS_FAST)])
def test_hubDials(maker: Maker, dialled: Flavour, dialling: Flavour) -> None:
    """The side that dials may be the hub."""
    below = maker.hub(dialled)
    above = maker.spoke(dialling, remoteTo(below.leafPort, more="hub: true"))
    joined = Joined(above, below, ("b", "a"))
    joined.ends.form()
    assert joined.passes(0, b"x") and joined.passes(1, b"x")
    joined.ends.close()


def test_reload(maker: Maker) -> None:
    """Remotes can be added and removed by a reload."""
    above = maker.hub(REAL)
    below = maker.spoke(OURS_FAST, "")
    below.reconfigure(remoteTo(above.leafPort))
    below.signal("HUP")
    joined = Joined(above, below)
    joined.ends.form()
    below.reconfigure("")
    below.signal("HUP")
    below.waitForLog("Leafnode connection closed")
    client = joined.ends.clients[0]
    inbox = client.subscribe(b"_INBOX.x")
    joined.ends.clients[1].subscribe(b"gone")
    deadline = time.monotonic() + PATIENCE
    while True:
        client.publish(b"gone", b"", b"_INBOX.x")
        ((_, headers, _),) = client.messages(inbox, 1)
        if b"503" in headers:
            break
        assert time.monotonic() < deadline
    joined.ends.close()
    assert isinstance(client, Client)
