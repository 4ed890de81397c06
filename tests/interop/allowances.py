"""
Accepted differences from nats-server, each with its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """
    The answer of a server to a script, without its random parts.

    @ivar errors: the texts of -ERR, in order.
    @ivar deliveries: MSG and HMSG without their sid (a queue group chooses one), sorted.
    @ivar pongs: the number of PONGs. The script's last line is a PING, so an answered one means
        that the connection was still open.
    @ivar oks: the number of +OKs.
    @ivar infos: the number of INFOs after the first.
    @ivar rest: any output that is not a frame.
    """

    errors: tuple[bytes, ...]
    deliveries: tuple[bytes, ...]
    pongs: int
    oks: int
    infos: int
    rest: bytes


@dataclass(frozen=True)
class Allowance:
    """
    One accepted difference. The fields that match are regular expressions.

    @ivar reason: the reason for which it is accepted.
    @ivar script: matches a part of the scripts that it concerns.
    @ivar ours: matches an error that only natsbroker sends.
    @ivar theirs: matches an error that only nats-server sends.
    @ivar delivers: whether deliveries and OKs may differ for this reason: a subscription was
        refused, and its sid stayed free for the next.
    @ivar ends: whether natsbroker closes the connection with C{ours}, so that nothing follows.
    @ivar malformed: whether the script has a line that both servers read in different ways, so that
        anything may follow.
    """

    reason: str
    script: bytes
    ours: bytes | None = None
    theirs: bytes | None = None
    delivers: bool = False
    ends: bool = False
    malformed: bool = False


ALLOWANCES = [
    Allowance(
        "a carriage return without a line feed is a space; nats-server also drops the byte "
        "before the line feed, whatever that byte is",
        script=rb"\r[^\n]",
        malformed=True,
    ),
    Allowance(
        "a line feed ends the line even as the first byte of the arguments; nats-server reads it "
        "as a space there, and the next line as the arguments",
        script=rb"(?i)(CONNECT|H?PUB|SUB|UNSUB|INFO)[ \t]*\n",
        malformed=True,
    ),
    Allowance(
        "the arguments of a publish are read once; nats-server reads them again, and reports "
        "their error again, if the payload comes later",
        script=rb"(?i)PUB",
        theirs=rb"'Invalid Publish Subject'",
    ),
    Allowance(
        "a subject with control bytes is invalid, because such subjects have been used to attack "
        "programs behind a broker",
        script=rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]",
        ours=rb"'Invalid (Publish )?Subject'",
        theirs=rb"'maximum subscriptions exceeded'",
        delivers=True,
    ),
    Allowance(
        "a wrong token is refused, also from a client that was let in as a guest; nats-server "
        "then ignores the token, and uses the guest's own name and password",
        script=rb"(?i)auth_token",
        ours=rb"'Authorization Violation'",
        ends=True,
    ),
    Allowance(
        "a guest that names an empty user is the guest again; nats-server refuses the second "
        "login, because it still has the guest's password",
        script=rb'(?i)"user"[ :\t]+""',
        malformed=True,
    ),
    Allowance(
        "a subscription to foo.> is wider than an allowed foo.*, and is refused",
        script=rb">",
        ours=rb"'Permissions Violation for Subscription to \"[^\"]*>\".*'",
        delivers=True,
    ),
]


def allowed(script: bytes, theirs: Answer, ours: Answer) -> list[Allowance]:
    """
    @return: the allowances that together explain a difference; none if they do not.
    """
    about = [allowance for allowance in ALLOWANCES if re.search(allowance.script, script)]
    if malformed := [allowance for allowance in about if allowance.malformed]:
        return malformed
    last = ours.errors[-1] if ours.errors else b""
    if ours.errors[:-1] == theirs.errors[: len(ours.errors) - 1]:
        if ends := [a for a in about if a.ends and a.ours and re.fullmatch(a.ours, last)]:
            return ends
    used = []
    for error in (Counter(ours.errors) - Counter(theirs.errors)).elements():
        used.append(next((a for a in about if a.ours and re.fullmatch(a.ours, error)), None))
    for error in (Counter(theirs.errors) - Counter(ours.errors)).elements():
        used.append(next((a for a in about if a.theirs and re.fullmatch(a.theirs, error)), None))
    explained = [allowance for allowance in used if allowance is not None]
    if not used:  # a publish that is dropped without an error
        explained = [allowance for allowance in about if allowance.delivers]
    if (ours.pongs, ours.infos, ours.rest) != (theirs.pongs, theirs.infos, theirs.rest):
        return []
    same = ours.deliveries == theirs.deliveries and ours.oks == theirs.oks
    fitting = same or any(allowance.delivers for allowance in explained)
    if len(explained) < len(used) or not fitting:
        return []
    return explained


@dataclass(frozen=True)
class VerdictAllowance:
    """
    One accepted difference in logins, publishes and subscriptions. The fields that match are
    regular expressions.

    @ivar reason: the reason for which it is accepted.
    @ivar sign: matches a frame that only one of the servers sends if this is the difference.
    @ivar matter: matches the names of the configurations that it concerns.
    @ivar script: matches a part of what the clients send after their logins.
    @ivar ours: matches everything that only natsbroker sends then.
    @ivar theirs: matches everything that only nats-server sends then.
    """

    reason: str
    sign: bytes
    matter: str = r".*"
    script: bytes = rb""
    ours: bytes = rb"(?s).*"
    theirs: bytes = rb"(?s).*"


_WIDER = (
    rb"-ERR 'Permissions Violation for Subscription to \"[^\"]*>\""
    rb"( using queue \"[^\"]*\")?( \(sid \"\d+\"\))?'\r\n"
)
_CLOSED = rb"\[closed\]"
_MESSAGE = rb"(?s)H?MSG .*"

VERDICTS = [
    VerdictAllowance(
        "a subscription to foo.> is wider than an allowed foo.*, and is refused",
        sign=_WIDER,
        ours=_WIDER,
        theirs=_MESSAGE,
    ),
    VerdictAllowance(
        "at a reload, a client at its limit of subscriptions stays, and a client above it is cut "
        "at once; nats-server sends both an error, and cuts them 20 milliseconds later",
        sign=rb"-ERR 'maximum subscriptions exceeded'\r\n|\[closed\]",
        matter=r"limit-subscriptions",
    ),
    VerdictAllowance(
        "a client that names a user although the configuration has none stays at a reload; "
        "nats-server looks for the user and cuts the client",
        sign=_CLOSED,
        matter=r"mappings-new|users-to-open|token-.*",
        theirs=_CLOSED,
    ),
    VerdictAllowance(
        "a guest that sends wrong credentials is refused; nats-server replaces missing parts "
        "with the guest's name, password or key",
        sign=rb"-ERR 'Authorization Violation'\r\n",
        matter=r"guest.*",
        script=rb"CONNECT \{",
        ours=rb"-ERR 'Authorization Violation'\r\n|\[closed\]",
        theirs=rb"(?s)(?!-ERR 'Auth).*",
    ),
]


def explained(
    matter: str, script: bytes, theirs: list[list[bytes]], ours: list[list[bytes]]
) -> str:
    """
    @param matter: the name of a configuration.
    @param script: the bytes that the clients sent after their logins.
    @param theirs: the frames that nats-server's clients received, step by step.
    @param ours: the frames that natsbroker's clients received.
    @return: the reason that explains every difference; empty if there is none.
    """
    if len(theirs) != len(ours):
        return ""
    onlyOurs: list[bytes] = []
    onlyTheirs: list[bytes] = []
    for one, other in zip(theirs, ours, strict=True):
        onlyTheirs += (Counter(one) - Counter(other)).elements()
        onlyOurs += (Counter(other) - Counter(one)).elements()
    for allowance in VERDICTS:
        if (
            re.fullmatch(allowance.matter, matter)
            and re.search(allowance.script, script)
            and any(map(re.compile(allowance.sign).fullmatch, [*onlyOurs, *onlyTheirs]))
            and all(map(re.compile(allowance.ours).fullmatch, onlyOurs))
            and all(map(re.compile(allowance.theirs).fullmatch, onlyTheirs))
        ):
            return allowance.reason
    return ""
