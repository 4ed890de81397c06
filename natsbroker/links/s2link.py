"""
S2 on a link, between its session and its transport.

What a session flushes is one S2 stream; what comes is decoded no faster than the session
takes it, and no more of it in one batch than an uncompressed connection brings; a peer that has not
proved who it is sends small chunks only.
"""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.connections.s2stream import LARGEST, S2Decoder, S2Encoder, S2Error
from natsbroker.links.link import Link

_log = Logger(namespace="natsbroker")

#: How many decoded bytes a session is given at once, and in one iteration of the reactor.
_AT_ONCE = 1 << 16
_IN_AN_ITERATION = 1 << 18


class S2Link:
    __slots__ = ("_decoder", "_isBusy", "_isLater", "_isPaused", "_link", "_stream", "encoder")

    def __init__(self, link: Link, stream: Any, level: str, data: bytes) -> None:
        """C{data} came behind the last uncompressed line."""
        self.encoder = S2Encoder(level)
        self._decoder = S2Decoder()
        self._link = link
        self._stream = stream
        self._isPaused = False
        self._isLater = False
        self._isBusy = False
        if data:
            self._decoder.feed(data)
            self._later()

    def received(self, data: bytes) -> None:
        self._decoder.feed(data)
        if not self._isLater:
            self._proceed()

    def pauseProducing(self) -> None:
        self._isPaused = True
        self._stream.pauseProducing()

    def resumeProducing(self) -> None:
        """The session wants more: first what was read already."""
        self._isPaused = False
        if not (self._isBusy or self._decoder.isStarved):
            self._later()
        elif not self._isLater:
            self._stream.resumeProducing()

    def _proceed(self) -> None:
        self._isBusy = True
        try:
            self._decode()
        except S2Error as error:
            _log.error("{link} - S2: {why}", link=str(self._link), why=str(error))
            self._link.close(errors.S2_DAMAGED)
        finally:
            self._isBusy = False

    def _decode(self) -> None:
        """Give the session what has come, but for what is for a later iteration."""
        link, decoder, left = self._link, self._decoder, _IN_AN_ITERATION
        while not (link.reason or self._isPaused or decoder.isStarved):
            if left <= 0:
                self._later()
                break
            isTrusted = link.decoder.authorized
            decoder.largest = LARGEST if isTrusted else link.context.settings.max_control_line
            plain = decoder.read(_AT_ONCE)
            if plain:
                link.received(plain)
                left -= len(plain)
            elif not decoder.isStarved:
                left -= _AT_ONCE

    def _later(self) -> None:
        """Go on in another iteration, and read nothing from the transport before."""
        if not self._isLater:
            self._isLater = True
            self._stream.pauseProducing()
            self._link.context.reactor.callLater(0, self._continue)

    def _continue(self) -> None:
        self._isLater = False
        link = self._link
        self._proceed()
        if not (link.reason or self._isPaused or self._isLater):
            self._stream.resumeProducing()
