"""
From what was read to the settings of the server itself: listeners, limits, times, logs.

This module promises values within the ranges that nats-server 2.15 accepts and that make
sense here.  It must never know users, accounts or TLS.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace

from natsbroker.config.addresses import checkPort
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Logging, Monitoring, Settings
from natsbroker.wire.durations import durationText

LARGEST_SIZE = (1 << 31) - 1
MOST_TOKENS = 255
SHORTEST_LAME_DUCK = 30.0


def connectionSettings(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    """
    Set where clients connect and how much each may use.
    """
    name = root.text("server_name")
    if " " in name:
        _report(root, "server_name", "server name cannot contain spaces", findings)
    host, port = _address(root, ("listen", "host", "port"), findings)
    settings = replace(
        settings,
        server_name=name,
        host=host or settings.host,
        port=port or settings.port,
        client_advertise=root.text("client_advertise"),
        max_connections=_connections(root, settings.max_connections),
        max_subscriptions=max(0, root.integer("max_subscriptions")),
        max_sub_tokens=_tokens(root, findings),
        no_header_support=root.flag("no_header_support"),
        no_fast_producer_stall=root.flag("no_fast_producer_stall"),
        disable_sublist_cache=root.flag("disable_sublist_cache"),
    )
    return _sizes(settings, root, findings)


def _sizes(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    def count(name: str, default: int, largest: int = 0) -> int:
        return _count(root, name, default, findings, largest)

    settings = replace(
        settings,
        max_control_line=count("max_control_line", settings.max_control_line, LARGEST_SIZE),
        max_payload=count("max_payload", settings.max_payload, LARGEST_SIZE),
        max_pending=count("max_pending", settings.max_pending),
        max_closed_clients=count("max_closed_clients", settings.max_closed_clients),
        ping_max=count("ping_max", settings.ping_max),
        connect_error_reports=count("connect_error_reports", settings.connect_error_reports),
        reconnect_error_reports=count("reconnect_error_reports", settings.reconnect_error_reports),
        max_subject_shapes=count("max_subject_shapes", settings.max_subject_shapes),
    )
    if settings.max_payload > settings.max_pending:
        message = (
            f"max_payload ({settings.max_payload}) cannot be higher than "
            f"max_pending ({settings.max_pending})"
        )
        given = "max_payload" if "max_payload" in root else "max_pending"
        _report(root, given, message, findings)
    return settings


def _count(
    root: ParsedBlock, name: str, default: int, findings: Diagnostics, largest: int = 0
) -> int:
    value = root.integer(name, default)
    if value < 0:
        _report(root, name, "value can not be negative", findings)
        return default
    if largest and value > largest:
        _report(root, name, "value is too big", findings)
        return default
    return value


def _connections(root: ParsedBlock, default: int) -> int:
    given = root.take("max_connections", int)
    if given is None:
        return default
    return given if given > 0 else -1


def _tokens(root: ParsedBlock, findings: Diagnostics) -> int:
    given = root.take("max_sub_tokens", int)
    if given is None:
        return 0
    if given > MOST_TOKENS:
        _report(root, "max_sub_tokens", "value is too big", findings)
    if given <= 0:
        _report(root, "max_sub_tokens", "value can not be negative", findings)
    return given


def _address(
    root: ParsedBlock, names: tuple[str, str, str], findings: Diagnostics
) -> tuple[str, int]:
    """
    Find a host and a port, from one key or from two; what stands later in the file wins.
    """
    both, hostName, portName = names
    host, port, givenBy = "", 0, both
    for name in root.values:
        if name == both:
            found = root.take(both, tuple)
            host, port = found if found else ("", 0)
            givenBy = both
        elif name == hostName:
            host = root.text(hostName)
        elif name == portName:
            port, givenBy = root.integer(portName), portName
    try:
        return host, checkPort(port)
    except ValueError as error:
        _report(root, givenBy, str(error), findings)
        return host, 0


def timeSettings(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    """
    Set how long the server waits for what.
    """
    for name in ("ping_interval", "write_deadline"):
        if root.seconds(name) < 0:
            _report(root, name, "value can not be negative", findings)
    settings = replace(
        settings,
        ping_interval=root.seconds("ping_interval", settings.ping_interval),
        write_deadline=root.seconds("write_deadline", settings.write_deadline),
    )
    return _lameDuck(settings, root, findings)


def _lameDuck(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    whole, grace = "lame_duck_duration", "lame_duck_grace_period"
    duration = root.take(whole, float)
    if duration is None:
        duration = settings.lame_duck_duration
    period = root.seconds(grace, settings.lame_duck_grace_period)
    if duration < SHORTEST_LAME_DUCK:
        shown = durationText(duration)
        message = f"invalid lame_duck_duration of {shown}, minimum is 30 seconds"
        _report(root, whole, message, findings)
    elif period < 0:
        message = "invalid lame_duck_grace_period, needs to be positive"
        _report(root, grace, message, findings)
    elif period >= duration:
        message = (
            f"lame duck grace period ({durationText(period)}) should be strictly lower "
            f"than lame duck duration ({durationText(duration)})"
        )
        _report(root, grace if grace in root else whole, message, findings)
    return replace(settings, lame_duck_duration=duration, lame_duck_grace_period=period)


def operationSettings(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    """
    Set what operators see of the server.
    """
    return replace(
        settings,
        server_tags=_tags(root),
        server_metadata=root.mapping("server_metadata", str),
        pidfile=root.text("pidfile"),
        ports_file_dir=root.text("ports_file_dir"),
        fast_lane=root.flag("fast_lane", settings.fast_lane),
    )


def _tags(root: ParsedBlock) -> tuple[str, ...]:
    """
    Keep each tag once, in lower case and without the blanks around it, as nats-server does.
    """
    tags = (tag.strip().lower() for tag in root.texts("server_tags"))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def loggingFrom(root: ParsedBlock, findings: Diagnostics) -> Logging:
    """
    Make the settings of the log.
    """
    verbose, headers = root.flag("trace_verbose"), root.flag("trace_headers")
    return Logging(
        debug=root.flag("debug"),
        trace=root.flag("trace") or verbose or headers,
        trace_verbose=verbose,
        trace_headers=headers,
        logtime=root.flag("logtime", True),
        logtime_utc=root.flag("logtime_utc"),
        logfile=root.text("logfile"),
        logfile_size_limit=_count(root, "logfile_size_limit", 0, findings),
        logfile_max_num=_count(root, "logfile_max_num", 0, findings),
        syslog=root.flag("syslog"),
        remote_syslog=root.text("remote_syslog"),
        max_traced_msg_len=_count(root, "max_traced_msg_len", 0, findings),
    )


def monitoringFrom(root: ParsedBlock, findings: Diagnostics) -> Monitoring:
    """
    Make the settings of the HTTP pages; the host is empty when the file names none.
    """
    _, plainPort = _address(root, ("http", "", "http_port"), findings)
    _, securePort = _address(root, ("https", "", "https_port"), findings)
    host = ""
    for name in root.values:
        found = root.take(name, tuple) if name in ("http", "https") else None
        host = str(found[0]) if found else host
    return Monitoring(
        http_host=host,
        http_port=plainPort,
        https_port=securePort,
        http_base_path=basePath(root.text("http_base_path")),
        insecure_monitor=root.flag("insecure_monitor"),
    )


def basePath(path: str) -> str:
    """
    Give a path one leading slash and no dots.
    """
    clean = posixpath.normpath("/" + path)
    return "/" + clean.lstrip("/")


def _report(root: ParsedBlock, name: str, message: str, findings: Diagnostics) -> None:
    findings.errorAt(root, name, message)
