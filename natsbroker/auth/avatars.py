"""
What avatars may do: what the settings say of the users of their names.

An avatar that is a user of the settings has that user's account, permissions and kinds of
connection; any other is in the global account with the default permissions of C{authorization}. A
reload holds for whoever is asked about afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.checkers import IAvatars
from natsbroker.auth.credentials import grantFrom
from natsbroker.config.model import Settings, User
from natsbroker.interfaces import IBrokerHost
from natsbroker.wire.grants import ConnectRequest, Grant

__all__ = ["SettingsAvatars"]


@implementer(IAvatars)
class SettingsAvatars:
    """
    The users of a broker's settings, whose passwords do not count.
    """

    def __init__(self, host: IBrokerHost) -> None:
        """
        @param host: the broker.
        """
        self._host = host
        self._settings: Settings | None = None
        self._users: dict[str, User] = {}
        self._grants: dict[str, Grant] = {}
        self._others = Grant()

    def grantOf(self, name: str, request: ConnectRequest) -> Grant:
        settings = self._read()
        name = name or settings.no_auth_user
        user = self._users.get(name)
        if user is None:
            return replace(self._others, user=name)
        types = user.allowed_connection_types
        if types is not None and request.connectionType not in types:
            raise errors.Unauthorized("not with this kind of connection")
        if name not in self._grants:
            self._grants[name] = grantFrom(user, settings)
        return self._grants[name]

    def hasGuests(self) -> bool:
        return bool(self._host.settings.no_auth_user)

    def _read(self) -> Settings:
        settings: Settings = self._host.settings
        if settings is not self._settings:
            self._settings = settings
            self._users = {user.user: user for user in settings.users() if not user.nkey}
            self._grants = {}
            default = settings.authorization.default_permissions
            self._others = grantFrom(User("", permissions=default), settings)
        return settings
