"""Errors of a start that fails, in nats-server's words where programs wait for them."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.error import BindError, CannotListenError, ConnectError
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

import natsbroker
import twisted
from natsbroker.config.addresses import joined
from natsbroker.errors import BrokerError
from natsbroker.interfaces import StoreError

_log = Logger(namespace="natsbroker")

_PYTHON = os.path.dirname(os.__file__) + os.sep
_LIBRARIES = (
    os.path.dirname(natsbroker.__file__) + os.sep,
    os.path.dirname(twisted.__file__) + os.sep,
)

_FORESEEN = (BrokerError, StoreError, ValueError, OSError, ConnectError, BindError)


class StartError(BrokerError):
    """The broker cannot start. The text is logged."""


def failureReason(failure: Failure) -> str:
    """
    The reason for a failed start. Unexpected texts, which may have secrets, are logged for
    debugging only.
    """
    if failure.check(*_FORESEEN):
        text: str = failure.getErrorMessage()
        return text
    _log.failure("The start failed", failure, LogLevel.debug)
    return f"Cannot start: {raisedAt(failure)}"


def raisedAt(failure: Failure) -> str:
    """An exception and its place, if possible in a plugin's module, without its text."""
    kind = type(failure.value).__name__
    if not failure.frames:
        return kind
    theirs = [frame for frame in failure.frames if not _isLibrary(frame[1])]
    if theirs:
        folder = os.path.dirname(theirs[0][1]) + os.sep
        theirs = [
            frame
            for frame in theirs
            if frame[1].startswith(folder) and "-packages" not in frame[1].removeprefix(folder)
        ]
    function, path, line, *_ = (theirs or failure.frames)[-1]
    return f"{kind} at {path}:{line} in {function}"


def _isLibrary(path: str) -> bool:
    inPython = path.startswith(_PYTHON) and "-packages" not in path
    return inPython or path.startswith("<frozen ") or path.startswith(_LIBRARIES)


def definedAt(call: Any) -> str:
    """The place of a function or method; empty if it is not written in Python."""
    code = getattr(call, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def cannotListen(error: CannotListenError) -> StartError:
    return StartError(f'Error listening on port: {_place(error)}, "{listenDetail(error)}"')


def listenDetail(error: CannotListenError) -> str:
    reason = getattr(error.socketError, "strerror", None) or str(error.socketError)
    return f"listen tcp {_place(error)}: bind: {reason.lower()}"


def _place(error: CannotListenError) -> str:
    return joined(str(error.interface or "0.0.0.0"), int(error.port))
