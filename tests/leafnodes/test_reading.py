"""
Tests for L{natsbroker.leafnodes.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import NotSupportedYet
from natsbroker.config.settings.leafnodes import Leafnodes, LeafProxy, LeafUser, RemoteLeaf
from natsbroker.leafnodes.reading import NO_MIGRATION, seedOf
from natsbroker.wire.compression import Compression
from tests.config.support import built, complaintsOf
from tests.config.support import errorsOf as mistakesIn
from tests.leafnodes.keys import KEY, SEED


def leafnodesOf(text: str, more: str = "accounts { A {}, B {} }") -> Leafnodes:
    """The settings of a leafnodes block."""
    leafnodes = built(f"{more}\nleafnodes {{ {text} }}").settings.leafnodes
    assert leafnodes is not None
    return leafnodes


def errorsOf(text: str, more: str = "") -> list[str]:
    """The errors of a leafnodes block, without their positions."""
    return [
        complaint.split(": ", 1)[1] for complaint in complaintsOf(f"{more}\nleafnodes {{ {text} }}")
    ]


def test_absent() -> None:
    """Without the block there are no leafnodes."""
    assert built("port: 4222").settings.leafnodes is None


def test_empty() -> None:
    """An empty block has all defaults and no listener."""
    assert leafnodesOf("") == Leafnodes() and Leafnodes().port == 0


def test_allSettings() -> None:
    """Every setting can be given, under nats-server's names."""
    leafnodes = leafnodesOf(
        """
        listen: "10.0.0.1:7422", advertise: "h:1", no_advertise: true, min_version: "2.9.0"
        authorization { timeout: 3, users: [ {user: u, pass: p, account: A}, {user: v, pass: q} ] }
        reconnect: "2s", dial_timeout: "3s", isolate: true, compression: best, write_deadline: "4s"
        remotes: [
            {
                urls: ["nats-leaf://u:p@a:1", "tls://b"], account: B, hub: true, no_randomize: true
                deny_imports: [x, "y.>"], deny_exports: z, isolate: true, request_isolation: true
                first_info_timeout: "5s", dial_timeout: "6s", disabled: true, credentials: "/c"
                ignore_discovered_servers: true, compression: off
            }
        ]
        """
    )
    assert leafnodes == Leafnodes(
        host="10.0.0.1",
        port=7422,
        users=(LeafUser("u", "p", "A"), LeafUser("v", "q")),
        timeout=3.0,
        remotes=(
            RemoteLeaf(
                ("nats-leaf://u:p@a:1", "tls://b"),
                "B",
                "/c",
                hub=True,
                deny_imports=("x", "y.>"),
                deny_exports=("z",),
                no_randomize=True,
                isolate=True,
                request_isolation=True,
                first_info_timeout=5.0,
                dial_timeout=6.0,
                disabled=True,
                ignore_discovered_servers=True,
                compression=Compression("off"),
            ),
        ),
        reconnect=2.0,
        dial_timeout=3.0,
        advertise="h:1",
        no_advertise=True,
        min_version="2.9.0",
        isolate=True,
        write_deadline=4.0,
        compression=Compression("s2_best"),
    )


def test_compression() -> None:
    """
    The compression of the block is not inherited by its remotes, which choose by the round trip by
    default.
    """
    auto = Compression("s2_auto", (0.01, 0.05, 0.1))
    leafnodes = leafnodesOf("compression: off, remotes: [ {url: h}, {url: i, compression: on} ]")
    assert leafnodes.compression == Compression("off") and Leafnodes().compression == auto
    assert [remote.compression for remote in leafnodes.remotes] == [auto, auto]


def test_singleUser() -> None:
    """A block may have a single user, or an nkey, with an account."""
    one = leafnodesOf("port: 1, authorization { user: u, pass: p, account: A }")
    assert (one.user, one.password, one.account) == ("u", "p", "A")
    assert leafnodesOf(f"port: 1, authorization {{ nkey: {KEY} }}").nkey == KEY


@pytest.mark.parametrize(
    "text, problem",
    [
        ("remotes: [ {} ]", "a remote needs a url"),
        ('remotes: [ {urls: ["ws://h:1", "h:2"]} ]', "a mix of websocket and non-websocket urls"),
        ("remotes: [ {url: h, nkey: x} ]", "Remote leafnode nkey is not a valid seed"),
        (
            f"remotes: [ {{url: h, nkey: {SEED}, creds: f}} ]",
            "Remote leafnode can not have both creds and nkey defined",
        ),
        ("remotes: [ {url: h, deny_imports: 'a..b'} ]", 'subject "a..b" is not a valid subject'),
        (
            "remotes: [ {url: h, account: X} ]",
            'cannot find local account "X" specified in leafnode',
        ),
        ("remotes: [ {url: h}, {url: h} ]", "duplicate remote"),
        ("remotes: [ {url: h, dial_timeout: '-1s'} ]", "value can not be negative"),
        (
            "port: 1, authorization { user: u, pass: p, users: [ {user: a, pass: b} ] }",
            "can not have a single user/pass and a users array",
        ),
        (
            f"port: 1, authorization {{ nkey: {KEY}, users: [ {{user: a, pass: b}} ] }}",
            "can not have a single nkey and a users array",
        ),
        (
            "port: 1, authorization { users: [ {user: a, pass: b}, {user: a, pass: c} ] }",
            'duplicate user "a" detected in leafnode authorization',
        ),
        ("port: 1, authorization { nkey: U1 }", "Not a valid public nkey"),
        (
            "port: 1, authorization { user: u, pass: p, account: X }",
            'cannot find local account "X" specified in leafnode authorization',
        ),
        ("port: 1, min_version: '2.7.9'", "the minimum version should be at least 2.8.0"),
        ("port: 1, min_version: x", "invalid leafnode's minimum version"),
        ("port: 1, advertise: 'h:99999'", "port"),
        ("port: 99999", "port"),
        ("reconnect: '-1s'", "value can not be negative"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    """An invalid value is refused, with nats-server's error if it has one."""
    assert any(problem in error for error in errorsOf(text))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("url: 'http://p:3128'", LeafProxy("p", 3128)),
        ("url: 'http://p'", LeafProxy("p", 80)),
        ("url: 'http://[::1]:1', timeout: 2s", LeafProxy("::1", 1, timeout=2.0)),
        ("url: 'http://p:1', username: u, password: w", LeafProxy("p", 1, "u", "w")),
        ("url: 'http://u:w%40@p:1'", LeafProxy("p", 1, "u", "w@")),
        ("", None),
    ],
)
def test_proxy(text: str, expected: LeafProxy | None) -> None:
    """A proxy has an address, and may have a login and a timeout."""
    (remote,) = leafnodesOf(f"remotes: [ {{url: 'ws://h:1', proxy {{ {text} }} }} ]").remotes
    assert remote.proxy == expected
    assert expected is None or "w" not in repr(expected.password and expected)


@pytest.mark.parametrize(
    "text, error",
    [
        ("username: u", "proxy URL must be specified when other proxy options are set"),
        ("url: 'socks5://p:1'", "proxy URL scheme must be http"),
        ("url: 'https://p:1'", "https proxies are not supported"),
        ("url: 'http://'", "proxy URL must specify a host"),
        ("url: 'p:80'", "proxy URL scheme must be http"),
        ("url: 'http://p:canary'", "invalid proxy URL"),
        ("url: 'http://p:1', username: u", "must both be specified or both be empty"),
        ("url: 'http://p:1', password: canary", "must both be specified or both be empty"),
        ("url: 'http://p:1', timeout: '-1s'", "proxy timeout must be >= 0"),
    ],
)
def test_proxyMistakes(text: str, error: str) -> None:
    """An invalid proxy is reported with an error that hides passwords."""
    remote = f"{{url: h, proxy {{ {text} }}}}"
    mistakes = [str(mistake) for mistake in mistakesIn(f"leafnodes {{ remotes: [ {remote} ] }}")]
    assert any(error in mistake for mistake in mistakes) and "canary" not in "".join(mistakes)


def test_proxyWithoutTLS() -> None:
    """A remote with TLS behind a proxy requires a TLS block, as with nats-server."""
    text = "leafnodes {{ remotes: [ {{url: 'wss://h:1', proxy {{ url: 'http://p' }} {} }} ] }}"
    (error,) = mistakesIn(text.format(""))
    assert "requires TLS and no TLS configuration is provided" in str(error)
    assert built(text.format(", tls { timeout: 1 }"))


def test_notYet() -> None:
    """An unsupported key is refused with an error that names it."""
    mistakes = mistakesIn("leafnodes { write_timeout: close }")
    assert [type(mistake) for mistake in mistakes] == [NotSupportedYet]


@pytest.mark.parametrize(
    ("value", "isWarned"),
    [("true", True), ("{}", True), ("{ leader_migrate_delay: '5s' }", True), ("false", False)],
)
def test_migration(value: str, isWarned: bool) -> None:
    """A warning says that streams stay where they are."""
    text = f"leafnodes {{ remotes: [ {{url: 'h:1', js_cluster_migrate: {value}}} ] }}"
    warnings = [str(warning) for warning in built(text).warnings]
    path = "leafnodes.remotes[0].jetstream_cluster_migrate"
    assert warnings == [f"s.conf:1:37: {path}: {NO_MIGRATION}"] * isWarned


def test_seed() -> None:
    """The seed of a user is recognized, and any other text is not."""
    assert seedOf(SEED) is not None and len(seedOf(SEED) or b"") == 32
    for text in (KEY, SEED[:-1] + "A", "", "!", "SO" + SEED[2:]):
        assert seedOf(text) is None
