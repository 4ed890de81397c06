"""
Clusters of real processes: natsbroker and nats-server, mixed, and clients of each member.

Promises: every member listens on loopback at ports that the kernel chose, and keeps them when it is
restarted; a round of L{Mesh.sync} returns when every member has worked off what the others had told
it before; what a member logged besides notices is found.
Must never know: what a test does with a cluster.
"""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from natsbroker.testing.frames import splitFrames
from tests.interop.servers import OLD, OURS, PATIENCE, REAL, Flavour, Server

CONFIG = """
server_name: $NAME
$TOP
accounts {
    A { users: [ {user: a, password: a} ] }
    B { users: [ {user: b, password: b} ] }
}
cluster {
    name: C1, listen: "127.0.0.1:$PORT"
    authorization { user: u, password: p }
    routes: [ $ROUTES ]
    $MORE
}
"""

#: The same for the classic dialect, which has no accounts.
PLAIN_CONFIG = re.sub(r"accounts \{.*?\n\}\n", "", CONFIG, flags=re.DOTALL)

#: What a real server may say besides notices.
EXPECTED = (
    "Plaintext passwords detected",
    "Error trying to connect to route",  # what the test has stopped, or not started yet
)

#: What real servers of different ages say of each other: the older one refuses a route for one
#: account, and the other one may find its second attempt refused as well.
BETWEEN_OTHERS = ("dedicated route for account", "Authorization Violation", "authentication error")


class Member(Server):
    """
    A member of a cluster.

    @ivar name: its name.
    @ivar routePort: where it listens for routes.
    """

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        name: str,
        routes: Sequence[int],
        more: str = "",
        top: str = "",
        template: str = CONFIG,
    ) -> None:
        """
        @param routes: the ports of members that it is told of.
        @param more: for the C{cluster} block.
        @param top: for the top of the file.
        @param template: the file.
        """
        super().__init__(flavour, directory)
        self.name = name
        self.routePort = -1
        if flavour.path:
            # The oldest servers do not tell which ports the kernel chose.
            self.port, self.routePort = _freePorts(2)
        self._routes = list(routes)
        self._more = more
        self._top = top
        self._before = ""
        self._template = template
        self._describe()

    def _describe(self) -> None:
        urls = ", ".join(f'"nats-route://u:p@127.0.0.1:{port}"' for port in self._routes)
        values = {
            "$NAME": self.name,
            "$PORT": str(self.routePort),
            "$ROUTES": urls,
            "$MORE": self._more,
            "$TOP": self._top,
        }
        text = self._template
        for key, value in values.items():
            text = text.replace(key, value)
        self._config = text

    def start(self) -> Member:
        """See L{Server.start}."""
        super().start()
        match = self.waitForLog(r"Listening for route connections on \S+:(\d+)")
        self.routePort = int(match[1])
        self._describe()
        return self

    def reconfigure(self, more: str) -> None:
        """
        Write another C{cluster} block, for a reload.
        """
        self._more = more
        self._describe()
        assert self._config is not None
        self.writeConfig(self._config)

    def restart(self) -> None:
        """See L{Server.restart}."""
        self._before += self.log()
        super().restart()

    def complaints(self, allowed: Sequence[str] = ()) -> list[str]:
        """
        @return: the lines of the log that are no notices, and that nobody expects.
        """
        known = (*EXPECTED, *allowed)
        log = self._before + self.log()
        lines = [line for line in log.splitlines() if re.search(r"\[(ERR|WRN|FTL)\]", line)]
        return [line for line in lines if not any(each in line for each in known)]


def _freePorts(count: int) -> list[int]:
    """
    Ports that were free just now.
    """
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in listeners]
    for each in listeners:
        each.close()
    return ports


class Client:
    """
    A client on a socket.

    @ivar got: what came for which sid, not yet taken.
    @ivar info: the last INFO.
    """

    def __init__(self, member: Server, user: str = "a") -> None:
        self._socket = socket.create_connection(("127.0.0.1", member.port), PATIENCE)
        self._rest = b""
        self._pongs = 0
        self._sids = itertools.count(1)
        self.got: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {}
        self.info = b""
        self.send(
            b'CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,'
            b'"no_responders":true,"user":"%b","pass":"%b"}\r\n' % (user.encode(), user.encode())
        )
        self.flush()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def subscribe(self, subject: bytes, queue: bytes = b"") -> bytes:
        """
        @return: the sid of a new subscription, of which the server knows.
        """
        sid = b"%d" % next(self._sids)
        self.got[sid] = []
        self.send(b"SUB %b %b %b\r\n" % (subject, queue, sid))
        self.flush()
        return sid

    def unsubscribe(self, sid: bytes, maximum: int = 0) -> None:
        """End a subscription, perhaps later."""
        self.send(b"UNSUB %b %d\r\n" % (sid, maximum) if maximum else b"UNSUB %b\r\n" % sid)
        self.flush()

    def publish(
        self, subject: bytes, body: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish."""
        names = b"%b %b" % (subject, reply) if reply else subject
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(body))
            self.send(b"HPUB %b %b\r\n%b%b\r\n" % (names, sizes, headers, body))
        else:
            self.send(b"PUB %b %d\r\n%b\r\n" % (names, len(body), body))

    def flush(self) -> None:
        """Wait for the server to have worked everything off."""
        wanted = self._pongs + 1
        self.send(b"PING\r\n")
        self._until(lambda: self._pongs >= wanted)

    def take(self, sid: bytes, count: int, patience: float = PATIENCE) -> list[bytes]:
        """
        @return: the bodies of the next messages of a subscription, as many as asked for.
        @raise TimeoutError: with those that came, if they are fewer.
        """
        return [body for _, _, body in self.messages(sid, count, patience)]

    def messages(
        self, sid: bytes, count: int, patience: float = PATIENCE
    ) -> list[tuple[bytes, bytes, bytes]]:
        """
        @return: the same as reply subject, headers and body.
        """
        try:
            self._until(lambda: len(self.got[sid]) >= count, patience)
        except TimeoutError as error:
            raise TimeoutError(f"{len(self.got[sid])} of {count}: {self.got[sid][-3:]}") from error
        taken, self.got[sid] = self.got[sid][:count], self.got[sid][count:]
        return taken

    def arrived(self, sid: bytes) -> list[bytes]:
        """
        @return: the bodies of all that has come by now.
        """
        self.flush()
        return self.take(sid, len(self.got[sid]))

    def close(self) -> None:
        """Go."""
        self._socket.close()

    def _until(self, done: object, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not done():  # type: ignore[operator]
            self._socket.settimeout(max(deadline - time.monotonic(), 0.01))
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server has closed the connection")
            frames, self._rest = splitFrames(self._rest + data)
            for frame in frames:
                self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        line, _, rest = frame.partition(b"\r\n")
        words = line.split()
        if words[0] == b"PONG":
            self._pongs += 1
        elif words[0] == b"PING":
            self.send(b"PONG\r\n")
        elif words[0] == b"INFO":
            self.info = line
        elif words[0] in (b"MSG", b"HMSG"):
            sizes = 2 if words[0] == b"HMSG" else 1
            reply = words[3] if len(words) == 4 + sizes else b""
            header = int(words[-2]) if sizes == 2 else 0
            self.got[words[2]].append((reply, rest[:header], rest[header:-2]))
        else:
            raise AssertionError(f"the server says {frame!r}")


class Mesh:
    """
    A cluster and a client at each member.

    @ivar members: the processes.
    @ivar clients: their clients in account A.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self.clients: list[Client] = []
        self._inboxes: list[bytes] = []
        self._round = 0

    def connect(self, place: int) -> None:
        """Connect a client to a member, anew if there was one."""
        client = Client(self.members[place])
        inbox = client.subscribe(b"sync")
        if place < len(self.clients):
            self.clients[place].close()
            self.clients[place], self._inboxes[place] = client, inbox
        else:
            self.clients.append(client)
            self._inboxes.append(inbox)

    def form(self) -> None:
        """
        Wait until everybody hears everybody.

        @raise TimeoutError: if that does not come to pass.
        """
        deadline = time.monotonic() + PATIENCE
        self._round += 1
        missing = {
            (one, other) for one in range(len(self.clients)) for other in range(len(self.clients))
        }
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message passes from and to {sorted(missing)}")
            for place, client in enumerate(self.clients):
                client.publish(b"sync", b"%d %d" % (self._round, place))
                client.flush()
            time.sleep(0.02)
            for place, client in enumerate(self.clients):
                for body in client.arrived(self._inboxes[place]):
                    number, sender = map(int, body.split())
                    if number == self._round:
                        missing.discard((sender, place))
        self.sync()

    def sync(self) -> None:
        """
        Wait until every member has worked off what every other one told it before.
        """
        self._round += 1
        for place, client in enumerate(self.clients):
            client.flush()
            client.publish(b"sync", b"%d %d" % (self._round, place))
        for place, client in enumerate(self.clients):
            wanted = {b"%d %d" % (self._round, sender) for sender in range(len(self.clients))}
            while wanted:
                (body,) = client.take(self._inboxes[place], 1)
                wanted.discard(body)

    def complaints(self) -> list[str]:
        """
        @return: what members logged besides notices.
        """
        names = {member.flavour.name for member in self.members}
        allowed = BETWEEN_OTHERS if {OLD.name, REAL.name} <= names else ()
        return [
            line
            for member in self.members
            for line in member.complaints(allowed if member.flavour not in OURS else ())
        ]

    def close(self) -> None:
        """Stop everything."""
        for client in self.clients:
            client.close()
        together([member.stop for member in self.members])


def together(calls: Sequence[Callable[[], object]]) -> None:
    """
    Do at the same time what is mostly waiting: starting servers, and stopping them.

    @raise Exception: what one of the calls raised, when all are done.
    """
    with ThreadPoolExecutor(max(len(calls), 1)) as pool:
        done = [pool.submit(call) for call in calls]
    for each in done:
        each.result()


def formed(
    flavours: Sequence[Flavour],
    directory: Path,
    more: str | Mapping[str, str] = "",
    template: str = CONFIG,
) -> Mesh:
    """
    Start a cluster in which everybody is told of the first member alone.

    @param more: for the C{cluster} block of everybody, or of some members by their names.
    @param template: the configuration file.
    """
    members: list[Member] = []
    try:
        for place, flavour in enumerate(flavours):
            home = directory / f"n{place}"
            home.mkdir()
            routes = [members[0].routePort] if members else []
            block = more if isinstance(more, str) else more.get(f"n{place}", "")
            members.append(Member(flavour, home, f"n{place}", routes, block, template=template))
            if place == 0:
                members[0].start()
        together([member.start for member in members[1:]])
        mesh = Mesh(members)
        for place in range(len(members)):
            mesh.connect(place)
        mesh.form()
    except BaseException:
        for member in members:
            print(f"log of {member.name}, {member.flavour.name}:\n{member.log()}")
            member.stop()
        raise
    return mesh
