"""The close codes of RFC 6455 for sessions' ends, as nats-server chooses them."""

from __future__ import annotations

from natsbroker import errors

NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
POLICY_VIOLATION = 1008
TOO_BIG = 1009
INTERNAL = 1011

_ERRORS = {
    NORMAL: (errors.AUTH_GONE,),
    GOING_AWAY: (errors.STALE, errors.SERVER_SHUTDOWN, errors.FRAMES_DAMAGED),
    PROTOCOL_ERROR: (errors.PEER_ERROR, errors.UNKNOWN_OPERATION, errors.BAD_PROTOCOL),
    POLICY_VIOLATION: (
        errors.AUTHORIZATION,
        errors.AUTH_TIMEOUT,
        errors.AUTH_EXPIRED,
        errors.AUTH_REVOKED,
        errors.CONTROL_LINE,
        errors.MAX_CONNECTIONS,
        errors.MAX_ACCOUNT_CONNECTIONS,
        errors.MISSING_ACCOUNT,
        errors.SUBSCRIPTIONS_EXCEEDED,
    ),
    TOO_BIG: (errors.PAYLOAD,),
}

_CODES = {error.reason: code for code, found in _ERRORS.items() for error in found}


def closeCode(reason: str) -> int:
    return _CODES.get(reason, INTERNAL)
