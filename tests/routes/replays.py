"""
Conversations of a real gnatsd with raw peers, replayed. We get the lines of the peer, and must send
the lines of gnatsd, except for the sids, which are our own.

A script is read line by line:

    node NAME=VALUE ...         we are set up with these; else with nothing special
    accept | dial [NAME]        a peer dials us, or we dial it; it is X, unless it has another name
    <- TEXT                     the peer says a line; a payload is a line of its own; C{HELLO} is
                                CONNECT and INFO of gnatsd, C{INFO+{...}} its INFO with changes
    -> TEXT                     we say this line next; {x} is the sid of client x's interest
    => TEXT                     the same among lines in any order
    -> nothing                  we say nothing
    sub X SUBJECT [QUEUE]       client X subscribes; unsub X, max X COUNT
    pub SUBJECT [REPLY] BODY    a client publishes
    got X BODY ...              client X has had these since it was last asked
    wait SECONDS                time passes
    closed | open               whether the peer's connection is

C{@Y} after an arrow means the peer Y. INFO and CONNECT of ours are left out of what is compared.

What is compared is compared in full.
"""

from __future__ import annotations

import json
import re
from typing import Any

from natsbroker.links.interest import RoutePermissions
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from tests.links.linkpeers import linked
from tests.routes.clusters import Node, Wire, oldConnect, oldInfo
from tests.support import Recorder

__all__ = ["Replay"]

LIMITS = linked(timeout=1.0, ping_interval=1.0, no_fast_producer_stall=True, max_control_line=4096)

_MAKERS = {"CONNECT": oldConnect, "INFO": oldInfo}

_SID = re.compile(rb"^SUB (\S+) +(?:(\S+) )?(Q?RSID:\S+)$")


class Replay:
    """
    One conversation.
    """

    def __init__(self) -> None:
        self._node: Node | None = None
        self._peers: dict[str, Wire] = {}
        self._said: dict[str, list[bytes]] = {}
        self._clients: dict[str, tuple[bytes, bytes, Recorder]] = {}
        self._taken: dict[str, int] = {}
        self._sids: dict[tuple[bytes, bytes], bytes] = {}

    def run(self, script: str) -> None:
        """
        Play a script.
        """
        for line in script.strip().splitlines():
            words = line.split(" #")[0].split()
            if not words:
                continue
            if words[0] in ("->", "=>", "<-"):
                self._line(line.split("  #")[0].strip())
                continue
            handler = getattr(self, f"do{words[0].capitalize()}")
            handler(*words[1:])
        for name in self._peers:
            assert not self._heard(name), f"{name} heard also {self._said[name]}"

    # Setting up.

    @property
    def _us(self) -> Node:
        if self._node is None:
            self.doNode()
        assert self._node is not None
        return self._node

    def doNode(self, *settings: str) -> None:
        """Set up the member that is tested."""
        given: dict[str, Any] = dict(setting.split("=") for setting in settings)
        told, taken = given.pop("import", ""), given.pop("export", "")
        permissions = RoutePermissions(
            PermissionSet(told.encode().split(b",")) if told else None,
            SubscribePermissions(taken.encode().split(b",")) if taken else None,
        )
        self._node = Node.classic(limits=LIMITS, permissions=permissions, **given)

    def doAccept(self, name: str = "X") -> None:
        """A peer dials us."""
        self._peers[name] = self._us.accepted()
        self._said[name] = []

    def doDial(self, name: str = "X") -> None:
        """We dial a peer."""
        self._peers[name] = self._us.dialling()
        self._said[name] = []

    # The peer.

    def _line(self, line: str) -> None:
        arrow, _, text = line.partition(" ")
        name = "X"
        match = re.match(r"@(\w+) ", text)
        if match:
            name, text = match[1], text[match.end() :]
        if arrow == "<-":
            self._peers[name].send(self._made(text))
        else:
            self._expect(name, text, arrow == "=>")

    def _made(self, text: str) -> bytes:
        if text == "HELLO":
            return oldConnect() + oldInfo()
        if text == "''":
            return b"\r\n"
        kind, isMade, members = text.partition("+")
        if isMade and kind in _MAKERS:
            return _MAKERS[kind](**json.loads(members))
        data = text.encode().decode("unicode_escape").encode("latin-1")
        return self._filled(data) + (b"" if data.endswith(b"\n") else b"\r\n")

    def _filled(self, data: bytes) -> bytes:
        return re.sub(rb"\{(\w+)\}", lambda match: self._sid(match[1].decode()), data)

    def _sid(self, client: str) -> bytes:
        for name in self._peers:
            self._heard(name)
        pattern, queue, _ = self._clients[client]
        return self._sids[pattern, queue]

    def _heard(self, name: str) -> list[bytes]:
        for line in self._peers[name].take().split(b"\r\n"):
            match = _SID.match(line)
            if match:
                self._sids[match[1], match[2] or b""] = match[3]
            if line.startswith((b"INFO ", b"CONNECT ")):
                continue
            self._said[name].append(line)
        while self._said[name] and not self._said[name][-1]:
            self._said[name].pop()
        return self._said[name]

    def _expect(self, name: str, text: str, anyOrder: bool) -> None:
        heard = self._heard(name)
        if text == "nothing":
            assert not heard, f"{name} heard {heard}"
            return
        wanted = self._filled(text.encode())
        assert heard, f"{name} heard nothing, not {wanted!r}"
        if anyOrder:
            assert wanted in heard, f"{name} heard {heard}, not {wanted!r}"
            heard.remove(wanted)
        else:
            assert heard.pop(0) == wanted, f"{name} did not hear {wanted!r} then {heard}"

    # Clients.

    def doSub(self, client: str, subject: str, queue: str = "") -> None:
        """A client subscribes."""
        pattern, group = subject.encode(), queue.encode()
        recorder = self._us.subscribe(pattern, group, "$G")
        self._clients[client] = pattern, group, recorder
        self._taken[client] = 0

    def doUnsub(self, client: str) -> None:
        """A client's subscription ends."""
        self._clients[client][2].subscription.cancel()
        self._us.settle()

    def doMax(self, client: str, count: str) -> None:
        """Let a client's subscription end after a number of messages."""
        self._clients[client][2].subscription.cancelAfter(int(count))
        self._us.settle()

    def doPub(self, subject: str, *rest: str) -> None:
        """A client publishes."""
        *reply, body = rest
        data = b"" if body == "''" else body.encode()
        self._us.publish(subject.encode(), data, "$G", reply=reply[0].encode() if reply else b"")

    def doGot(self, client: str, *bodies: str) -> None:
        """Check the messages that a client has received."""
        recorder = self._clients[client][2]
        heard = recorder.bodies[self._taken[client] :]
        self._taken[client] += len(heard)
        assert [message.decode() or "''" for message in heard] == list(bodies), client

    # The rest.

    def doWait(self, seconds: str) -> None:
        """Time passes."""
        self._us.settle(float(seconds))

    def doClosed(self, name: str = "X") -> None:
        """A peer's connection is closed."""
        assert self._peers[name].closed, f"{name} is open"

    def doOpen(self, name: str = "X") -> None:
        """Check that a peer's connection is open."""
        assert not self._peers[name].closed, f"{name} is closed: {self._peers[name].closed}"
