"""
C{$SYS.REQ.USER.INFO} as in nats-server: every client may ask who it is and what it may do, if there
is a system account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from natsbroker.accounts.account import Account
from natsbroker.clients.session import ClientSession
from natsbroker.runtime.responder import Describe, RequestResponder
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind, Message

SUBJECT = b"$SYS.REQ.USER.INFO"

_SECOND = 1_000_000_000


@dataclass(eq=False)
class UserInfo:
    describe: Describe
    now: Callable[[], float]
    nameOf: Callable[[str], str]

    def serve(self, account: Account) -> None:
        RequestResponder(account.busFor(Kind.LOCAL)).on(SUBJECT, self._answer)

    def _answer(self, message: Message) -> dict[str, Any] | None:
        origin = message.origin
        grant = origin.grant if isinstance(origin, ClientSession) else None
        if grant is None:
            return None
        data = {
            "user": grant.user,
            "account": grant.account,
            "account_name": self.nameOf(grant.account),
        }
        if grant.nameTag:
            data["user_name"] = grant.nameTag
        return {"server": self.describe(), "data": {**data, **self._rules(grant)}}

    def _rules(self, grant: Grant) -> dict[str, Any]:
        said: dict[str, Any] = {}
        if grant.publish is not None or grant.subscribe is not None or grant.responses is not None:
            rules: dict[str, Any] = {
                "publish": _listed(grant.publish),
                "subscribe": _listed(grant.subscribe),
            }
            if grant.responses is not None:
                time = round(grant.responses.expires * _SECOND)
                rules["responses"] = {"max": grant.responses.max, "ttl": time}
            said["permissions"] = rules
        if grant.expires is not None:
            said["expires"] = max(int(grant.expires - self.now()), 0) * _SECOND
        return said


def _listed(rules: PermissionSet | SubscribePermissions | None) -> dict[str, list[str]]:
    if rules is None:
        return {}
    lists = {"allow": _texts(rules.allow or ()), "deny": _texts(rules.deny)}
    return {name: entries for name, entries in lists.items() if entries}


def _texts(entries: Iterable[bytes]) -> list[str]:
    return sorted(decoded(entry) for entry in entries)
