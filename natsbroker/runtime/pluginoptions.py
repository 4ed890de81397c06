"""The options of a plugin, checked by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from natsbroker.wire.durations import secondsFrom


class PluginOptionError(ValueError):
    """An option is wrong. C{natsbroker check} shows the place of C{option}."""

    def __init__(self, option: str, text: str) -> None:
        super().__init__(text)
        self.option = option


def refuseOthers(section: Mapping[str, Any], *known: str) -> None:
    for name in section:
        if name not in known:
            raise PluginOptionError(name, f'unknown option "{name}"')


class PluginOptions:
    """Options that are taken one by one. Errors name them. Options that are left are unknown."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)

    def text(self, name: str, default: str = "") -> str:
        value = self._options.pop(name, default)
        if not isinstance(value, str):
            raise PluginOptionError(name, f"{name} must be a string")
        return value

    def texts(self, name: str) -> list[str]:
        value = self._options.pop(name, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not all(isinstance(v, str) for v in values):
            raise PluginOptionError(name, f"{name} must be a string or an array of strings")
        return list(values)

    def map(self, name: str) -> dict[str, str]:
        value = self._options.pop(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise PluginOptionError(name, f"{name} must be a map of strings")
        return dict(value)

    def count(self, name: str, default: int, least: int = 0) -> int:
        value = self._options.pop(name, default)
        if type(value) is not int or value < least:
            text = f"{name} must be an integer of at least {least}, not {value!r}"
            raise PluginOptionError(name, text)
        return value

    def flag(self, name: str) -> bool:
        value = self._options.pop(name, False)
        if not isinstance(value, bool):
            raise PluginOptionError(name, f"{name} must be true or false, not {value!r}")
        return value

    def seconds(self, name: str, default: float) -> float:
        """A number of seconds, or a duration such as C{"1.5s"}."""
        value = self._options.pop(name, default)
        if isinstance(value, str):
            value = secondsFrom(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise PluginOptionError(name, f"{name} must be a number of seconds or a duration")
        return float(value)

    def end(self) -> None:
        refuseOthers(self._options)
