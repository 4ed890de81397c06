"""
Trusted proxies.
"""

from __future__ import annotations

import base64

import pytest
from twisted.internet.defer import maybeDeferred

from natsbroker import errors
from natsbroker.auth.defaultauthorizer import authorizerFrom
from natsbroker.auth.nkeys import Signer, encodeRaw
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.auth.proxies import TrustedProxies, requireProxy
from natsbroker.config.settings.authorization import User
from natsbroker.errors import Unauthorized
from natsbroker.wire.connect import parseConnect
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.nkeys import NkeyError, Role
from tests.server.support import settingsOf

NONCE = "abc"

PROXY, OTHER = Signer(Role.SERVER), Signer(Role.USER)


def signed(signer: Signer = PROXY, nonce: str = NONCE, **options: str) -> ConnectRequest:
    """A login that a proxy has signed."""
    said = {"proxy_sig": encodeRaw(signer.sign(nonce.encode())), **options}
    return ConnectRequest(options=said, nonce=NONCE)


class TestTrusted:
    """Signatures."""

    @pytest.mark.parametrize("signer", [PROXY, OTHER])
    def test_knownKey(self, signer: Signer) -> None:
        """The proxy is the trusted key that signed the nonce, with any role."""
        proxies = TrustedProxies([PROXY.publicKey, OTHER.publicKey])
        assert proxies.seen(signed(signer)).proxy == signer.publicKey

    def test_standardBase64(self) -> None:
        """A signature may have either alphabet."""
        text = base64.b64encode(PROXY.sign(NONCE.encode())).decode()
        request = ConnectRequest(options={"proxy_sig": text}, nonce=NONCE)
        assert TrustedProxies([PROXY.publicKey]).seen(request).proxy == PROXY.publicKey

    @pytest.mark.parametrize(
        "request_",
        [
            signed(OTHER),
            signed(nonce="abd"),
            ConnectRequest(options={"proxy_sig": "x"}, nonce=NONCE),
            ConnectRequest(options={"proxy_sig": encodeRaw(PROXY.sign(b""))}),
        ],
    )
    def test_notTrusted(self, request_: ConnectRequest) -> None:
        """Any other signature is refused, with its reason."""
        with pytest.raises(Unauthorized) as caught:
            TrustedProxies([PROXY.publicKey]).seen(request_)
        assert caught.value.error is errors.PROXY_NOT_TRUSTED

    def test_noProxy(self) -> None:
        """Without a signature or without trusted keys, there is no proxy."""
        plain = ConnectRequest(nonce=NONCE)
        assert TrustedProxies([PROXY.publicKey]).seen(plain) is plain
        assert not TrustedProxies().seen(signed()).proxy
        assert not TrustedProxies() and TrustedProxies([PROXY.publicKey])

    def test_proxyIsRemoved(self) -> None:
        """A client is disconnected when its proxy is no longer trusted."""
        proxies = TrustedProxies([PROXY.publicKey])
        options = signed().options
        stays = ConnectRequest(options=options, nonce=NONCE, granted=Grant(proxy=PROXY.publicKey))
        assert proxies.seen(stays).proxy
        for keys in ([], [OTHER.publicKey]):
            proxies.use(keys)
            with pytest.raises(Unauthorized) as caught:
                proxies.seen(stays)
            assert caught.value.error is errors.PROXY_NOT_TRUSTED

    def test_noKey(self) -> None:
        """A malformed key of a proxy is refused."""
        with pytest.raises(NkeyError):
            TrustedProxies(["x"])


def test_require() -> None:
    """A client that must connect through a proxy is refused without one, with the reason."""
    requireProxy(ConnectRequest(proxy="x"))
    with pytest.raises(Unauthorized) as caught:
        requireProxy(ConnectRequest())
    assert caught.value.error is errors.PROXY_REQUIRED


@pytest.mark.parametrize(
    "text, options",
    [
        ("authorization { user: a, password: b, proxy_required: true }", b'"user":"a","pass":"b"'),
        ("authorization { token: t, proxy_required: true }", b'"auth_token":"t"'),
        (
            "authorization { users: [ {user: a, password: b, proxy_required: true} ] }",
            b'"user":"a","pass":"b"',
        ),
        (
            "accounts { A { users: [ {user: a, password: b, proxy_required: true} ] } }",
            b'"user":"a","pass":"b"',
        ),
        (
            "accounts { A { users: [ {user: a, proxy_required: true} ] } }\nno_auth_user: a",
            b'"name":"x"',
        ),
    ],
)
def test_settings(text: str, options: bytes) -> None:
    """
    With C{proxy_required}, a right login is accepted only through a proxy, and a wrong one has
    another reason.
    """
    settings = settingsOf(text)
    authorizer = authorizerFrom(settings, PasswordChecks(maybeDeferred))
    said = parseConnect(b"{" + options + b"}")
    with pytest.raises(Unauthorized) as caught:
        authorizer.grantFor(ConnectRequest(options=said))
    assert caught.value.error is errors.PROXY_REQUIRED
    assert isinstance(authorizer.grantFor(ConnectRequest(options=said, proxy="x")), Grant)
    with pytest.raises(Unauthorized) as caught:
        authorizer.grantFor(
            ConnectRequest(options={**said, "user": "z", "pass": "z", "auth_token": "z"}, proxy="x")
        )
    assert caught.value.error is not errors.PROXY_REQUIRED


def test_notRequired() -> None:
    """C{proxy_required} of the block does not apply to listed users, as with nats-server."""
    text = "authorization { proxy_required: true, users: [ {user: a, password: b} ] }"
    (user,) = settingsOf(text).users()
    assert isinstance(user, User) and not user.proxy_required
