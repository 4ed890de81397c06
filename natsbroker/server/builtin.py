"""The plugins that need no installation. Their modules load when one is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from zope.interface.interface import InterfaceClass

from natsbroker.interfaces import IAuthorizerPlugin, IBrokerService, IGatewayPolicyPlugin
from natsbroker.runtime.plugins import Plugins

BUILT_IN: Mapping[InterfaceClass, Callable[[], Sequence[Any]]] = {
    IAuthorizerPlugin: lambda: import_module("natsbroker.auth.plugins").READY_MADE,
    IGatewayPolicyPlugin: lambda: import_module("natsbroker.gateways.policies").READY_MADE,
    IBrokerService: lambda: (
        *import_module("natsbroker.services.spans").READY_MADE,
        *import_module("natsbroker.services.trafficservice").READY_MADE,
    ),
}


def withBuiltIn(plugins: Plugins) -> Plugins:
    return replace(plugins, builtIn={**BUILT_IN, **plugins.builtIn})
