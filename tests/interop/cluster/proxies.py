"""
A TCP proxy that fails on request. Bytes pass unchanged and in order until the test changes that. A
connection can be reset, or be silent in both directions without being closed.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from types import TracebackType

_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """
    A proxy on a port that the kernel chose, in a thread of its own.

    @ivar port: its port.
    @ivar accepted: the number of connections so far.
    """

    def __init__(self, target: int) -> None:
        """
        @param target: the port to which it connects.
        """
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.accepted = 0
        self._lock = threading.Lock()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._isSilent = False
        self._refuses = False
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._isOver = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._isOver = True
        self._wake.send(b"x")
        self._thread.join()
        self.cut()
        for end in (self._listener, self._waker, self._wake):
            end.close()
        self._selector.close()

    def cut(self, refuse: bool = False) -> None:
        """
        Reset all connections.

        @param refuse: whether new ones are reset too, until L{heal}.
        """
        with self._lock:
            self._refuses = refuse
            while self._pairs:
                self._drop(next(iter(self._pairs)))

    def silence(self) -> None:
        """Pass no more data, in existing and later connections."""
        with self._lock:
            self._isSilent = True
            for pair in self._pairs:
                self._ignore(pair)

    def heal(self) -> None:
        """Pass all data again, and reset connections that were half open during the silence."""
        self.cut()
        with self._lock:
            self._isSilent = False

    def _run(self) -> None:
        while not self._isOver:
            for key, _ in self._selector.select():
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                        self._pass(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        self.accepted += 1
        if self._refuses:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            near.close()
            return
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._pairs[near], self._pairs[far] = far, near
        if not self._isSilent:
            self._selector.register(near, selectors.EVENT_READ)
            self._selector.register(far, selectors.EVENT_READ)

    def _pass(self, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
            if data:
                self._pairs[source].sendall(data)
                return
        except OSError:
            pass  # either end is gone: so is the other
        self._drop(source)

    def _ignore(self, peer: socket.socket) -> None:
        try:
            self._selector.unregister(peer)
        except KeyError:
            pass  # it is ignored already

    def _drop(self, source: socket.socket) -> None:
        other = self._pairs.pop(source, None)
        for end in (source, other):
            if end is not None:
                self._pairs.pop(end, None)
                self._ignore(end)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()
