"""
The C{mqtt} block as frozen values. docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from natsbroker.config.settings.listeners import Listener


@dataclass(frozen=True, slots=True)
class MQTT(Listener):
    """
    @ivar stream_replicas: 0 for as many as the size of the cluster allows, three at most.
    @ivar consumer_inactive_threshold: in seconds; 0 for never.
    """

    token: str = field(default="", repr=False)
    no_auth_user: str = ""
    ack_wait: float = 30.0
    js_api_timeout: float = 5.0
    max_ack_pending: int = 1024
    js_domain: str = ""
    stream_replicas: int = 0
    consumer_replicas: int = 0
    consumer_memory_storage: bool = False
    consumer_inactive_threshold: float = 0.0
    reject_qos2_publish: bool = False
    downgrade_qos2_subscribe: bool = False

    @property
    def scheme(self) -> str:
        return "mqtt" if self.tls is None else "tls"

    @property
    def asksItself(self) -> bool:
        """Whether the block has logins of its own, which replace those of the top level."""
        return bool(self.user or self.token or self.no_auth_user)
