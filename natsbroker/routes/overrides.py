"""
What the flags of the cluster do to settings.

This module promises new settings in which every flag has won over the file.  It must never
know how flags are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from natsbroker.config.addresses import checkPort
from natsbroker.config.errors import OPEN
from natsbroker.config.flags import flagNamed
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import RANDOM_PORT, Settings, changed

if TYPE_CHECKING:
    from natsbroker.routes.settings import Cluster

__all__ = ["withCluster"]


def withCluster(settings: Settings, given: Mapping[str, FlagValue]) -> Settings:
    """
    Put the flags on top.

    @param given: values by the first spelling of their flag.
    @raise ValueError: for a URL that is none.
    """
    targets = {name: flagNamed(name).setting for name in given}
    fields = {name: each for name, each in targets.items() if each.startswith("cluster.")}
    if not fields and not {"cluster", "routes"} & set(given):
        return settings
    from natsbroker.routes.settings import Cluster

    cluster = settings.cluster or Cluster()
    if "cluster" in given:
        cluster = _listening(cluster, str(given["cluster"]))
    if "routes" in given:
        urls = (url.strip() for url in str(given["routes"]).split(","))
        cluster = replace(cluster, routes=tuple(url for url in urls if url))
    settings = replace(settings, cluster=cluster)
    for name, field in fields.items():
        settings = changed(settings, field, given[name])
    return settings


def _listening(cluster: Cluster, url: str) -> Cluster:
    """
    Listen where a URL says, and let in whom it names: nobody who only the file named.
    """
    if not url:
        return replace(cluster, port=0)
    wantsRandom = url.endswith(":-1")
    try:
        parts = urlsplit(url[:-2] + "0" if wantsRandom else url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("not the URL of a listener") from None
    if not host or port is None:
        raise ValueError("not the URL of a listener: it needs a host and a port")
    if parts.username and parts.password is None:
        raise ValueError("expected cluster password to be set")
    if "" in (parts.username, parts.password):
        raise ValueError(f"the login {OPEN}")
    return replace(
        cluster,
        host=host,
        port=RANDOM_PORT if wantsRandom or not port else checkPort(port),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
