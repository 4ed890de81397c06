"""
The plugins that come with the broker.
"""

from __future__ import annotations

from natsbroker.interfaces import IAuthorizerPlugin, IBrokerService, IGatewayPolicyPlugin
from natsbroker.server import builtin


def test_names() -> None:
    """Each provides its interface; the first gateway policy is the default."""
    assert all(map(IAuthorizerPlugin.providedBy, builtin.authorizers()))
    assert all(map(IGatewayPolicyPlugin.providedBy, builtin.policies()))
    assert all(map(IBrokerService.providedBy, builtin.services()))
    assert sorted(each.name for each in builtin.authorizers()) == ["cred", "htpasswd", "http"]
    assert next(iter(builtin.policies())).name == "switching"
    assert [each.name for each in builtin.services()] == ["traffic"]
