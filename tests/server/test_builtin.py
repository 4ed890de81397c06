"""
Plugins that need no installation.
"""

from __future__ import annotations

from natsbroker.interfaces import IAuthorizerPlugin, IBrokerService, IGatewayPolicyPlugin
from natsbroker.runtime.plugins import Plugins
from natsbroker.server.builtin import BUILT_IN, withBuiltIn


def test_names() -> None:
    """Built-in plugins provide their interfaces, and have these names."""
    assert all(map(IAuthorizerPlugin.providedBy, BUILT_IN[IAuthorizerPlugin]()))
    assert all(map(IGatewayPolicyPlugin.providedBy, BUILT_IN[IGatewayPolicyPlugin]()))
    assert all(map(IBrokerService.providedBy, BUILT_IN[IBrokerService]()))
    assert sorted(plugin.name for plugin in BUILT_IN[IAuthorizerPlugin]()) == [
        "cred",
        "htpasswd",
        "http",
    ]
    assert next(iter(BUILT_IN[IGatewayPolicyPlugin]())).name == "announcing"
    assert [plugin.name for plugin in BUILT_IN[IBrokerService]()] == ["opentelemetry", "traffic"]


def test_ownFirst() -> None:
    """A broker's own built-in plugins of one kind replace only those of that kind."""
    plugins = withBuiltIn(Plugins(builtIn={IAuthorizerPlugin: tuple}))
    assert plugins.builtIn[IAuthorizerPlugin]() == ()
    assert plugins.builtIn[IBrokerService] is BUILT_IN[IBrokerService]
