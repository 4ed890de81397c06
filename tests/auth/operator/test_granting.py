"""
Tests of L{natsbroker.auth.operator.granting}.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.granting import (
    MOST,
    ServerLimits,
    Values,
    expand,
    grantOf,
    rulesInto,
    termsOf,
)
from natsbroker.auth.operator.userclaims import PermissionClaims, UserClaims
from natsbroker.errors import Unauthorized
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from tests.auth.operator.chain import UNLIMITED, Account, KeyPair, Operator

VALUES = Values(
    {
        "name()": "ann",
        "subject()": "UKEY",
        "account-name()": "acc",
        "account-subject()": "AKEY",
    },
    ("dept:eng", "dept:ops", "region:eu.west", "bad:*", "blank: ", "empty:"),
    ("tier:gold",),
)


def allowed(*subjects: str, values: Values = VALUES) -> tuple[str, ...]:
    """The expansion of allowed subjects."""
    return expand(PermissionClaims(publishAllow=subjects), values).publishAllow


class TestExpansion:
    """The expansion of templates."""

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            ("plain.>", ["plain.>"]),
            ("app.{{name()}}.>", ["app.ann.>"]),
            ("{{subject()}}", ["UKEY"]),
            ("{{account-name()}}.{{account-subject()}}", ["acc.AKEY"]),
            ("{{ name() }}", ["ann"]),
            ("{{NAME()}}", ["ann"]),
            ("u-{{name()}}-x", ["u-ann-x"]),
            ("{{tag(dept)}}.x", ["eng.x", "ops.x"]),
            ("{{TAG(DEPT)}}.x", ["eng.x", "ops.x"]),
            ("{{tag(region)}}", ["eu.west"]),
            ("{{account-tag(tier)}}", ["gold"]),
            ("{{tag(dept)}}.{{name()}}", ["eng.ann", "ops.ann"]),
            ("{{tag(dept)}}.{{tag(dept)}}", ["eng.eng", "eng.ops", "ops.eng", "ops.ops"]),
            ("{name()}", ["{name()}"]),
            ("{{}}", ["{{}}"]),
            ("{{name()", ["{{name()"]),
            ("name()}}", ["name()}}"]),
        ],
    )
    def test_values(self, template: str, expected: list[str]) -> None:
        """A template stands for its values, in every combination if there are several templates."""
        assert list(allowed(template)) == expected

    def test_queues(self) -> None:
        """Templates may be in the subject and in the queue."""
        rules = expand(PermissionClaims(subscribeAllow=("in.{{name()}} q-{{tag(dept)}}",)), VALUES)
        assert rules.subscribeAllow == ("in.ann q-eng", "in.ann q-ops")

    def test_notTwice(self) -> None:
        """A value that looks like a template is not expanded again."""
        values = Values({"name()": "{{subject()}}", "subject()": "UKEY"})
        assert allowed("{{name()}}", values=values) == ("{{subject()}}",)

    @pytest.mark.parametrize("tag", ["missing", "bad", "blank", "empty"])
    def test_leftOut(self, tag: str) -> None:
        """
        An allowed subject whose template has no value is omitted. If no subject is left, nothing is
        allowed.
        """
        rules = expand(
            PermissionClaims(
                publishAllow=("a", f"{{{{tag({tag})}}}}"), subscribeAllow=(f"{{{{tag({tag})}}}}",)
            ),
            VALUES,
        )
        assert rules == PermissionClaims(publishAllow=("a",), subscribeDeny=(">",))
        rules = expand(PermissionClaims(publishAllow=(f"x.{{{{tag({tag})}}}}",)), VALUES)
        assert rules == PermissionClaims(publishDeny=(">",))

    @pytest.mark.parametrize("tag", ["missing", "bad", "blank", "empty"])
    def test_deniedMustBe(self, tag: str) -> None:
        """A user is refused if the template of a denied subject has no value."""
        for rules in (
            PermissionClaims(publishDeny=(f"{{{{tag({tag})}}}}",)),
            PermissionClaims(subscribeDeny=("a", f"{{{{tag({tag})}}}}")),
        ):
            with pytest.raises(FieldError):
                expand(rules, VALUES)

    @pytest.mark.parametrize("name", ["*", ">", "a.*", "a.>", "a b", "", ".", "a.", "a\r\nPUB"])
    def test_noWiderThanTheTemplate(self, name: str) -> None:
        """
        A user whose name has wildcards, spaces or empty tokens may not publish anything by the
        template.
        """
        rules = expand(PermissionClaims(publishAllow=("app.{{name()}}",)), Values({"name()": name}))
        assert rules == PermissionClaims(publishDeny=(">",))

    @pytest.mark.parametrize(
        "template",
        [
            "{{nothing()}}",
            "{{x}}",
            "{{ }}",
            "{{tag}}",
            "{{tag(}}",
            "{{name}}",
            "{{name(x)}}",
            "{{{{name()}}}}",
            "{{account-tag(}}",
            "{{ta}}",
            "{{tag(x) y}}",
        ],
    )
    def test_unknownFunctions(self, template: str) -> None:
        """A user is refused if a template has an unknown function (739caaf6f, b2d0c2a77)."""
        for rules in (
            PermissionClaims(publishAllow=(template,)),
            PermissionClaims(subscribeDeny=(template,)),
        ):
            with pytest.raises(FieldError):
                expand(rules, VALUES)

    def test_tooMany(self) -> None:
        """A user is refused before templates are expanded to more subjects than permitted."""
        values = Values({}, tuple(f"t:{number}" for number in range(64)))
        assert len(allowed("{{tag(t)}}.{{tag(t)}}", values=values)) == MOST
        with pytest.raises(FieldError):
            allowed("a", "{{tag(t)}}.{{tag(t)}}", values=values)
        with pytest.raises(FieldError):
            allowed(".".join(["{{tag(t)}}"] * 10), values=values)

    @given(st.text(), st.text())
    def test_anyText(self, template: str, name: str) -> None:
        """Any template and any name lead to rules or a refusal."""
        try:
            expand(
                PermissionClaims((template,), (template,), (template,)), Values({"name()": name})
            )
        except FieldError:
            pass


ACCOUNT, USER = Account(Operator()), KeyPair("U")
SCOPED = KeyPair("A")

TEMPLATE = {
    "kind": "user_scope",
    "key": SCOPED.key,
    "template": {"pub": {"allow": ["app.{{name()}}.>"]}, "subs": 3},
}


def account(nats: dict[str, Any] | None = None, **limits: int) -> AccountClaims:
    """
    An account whose own key may sign users.
    """
    claims = AccountClaims.decode(ACCOUNT.jwt(nats, limits=limits))
    return replace(claims, signers={**claims.signers, ACCOUNT.key: None})


def grant(
    user: dict[str, Any] | None = None,
    claims: AccountClaims | None = None,
    limits: ServerLimits | None = None,
    until: float = math.inf,
    **standard: Any,
) -> Grant:
    """The grant of a user."""
    claims = claims or account()
    decoded = UserClaims.decode(ACCOUNT.user(USER, user, **standard))
    return grantOf(decoded, termsOf(decoded, claims), claims, limits or ServerLimits(), until)


class TestTerms:
    """The JWT or the template that gives a user's permissions and limits."""

    def test_ownKey(self) -> None:
        """A JWT that the account itself signed is valid."""
        user = UserClaims.decode(ACCOUNT.user(USER, {"subs": 7}))
        assert termsOf(user, account()).subscriptions == 7

    def test_signingKey(self) -> None:
        """A JWT that a signing key without a template signed is valid."""
        user = UserClaims.decode(ACCOUNT.user(USER, {"subs": 7}, ACCOUNT.signing))
        assert termsOf(user, account()).subscriptions == 7

    def test_strangers(self) -> None:
        """A JWT that is signed with another key is refused, whatever account it names."""
        for text in (ACCOUNT.user(USER, signer=KeyPair("A")), Account(Operator()).user(USER)):
            with pytest.raises(Unauthorized):
                termsOf(UserClaims.decode(text), account())

    def test_template(self) -> None:
        """A user of a scoped signing key has the permissions and limits of its template."""
        claims = account({"signing_keys": [TEMPLATE]})
        user = UserClaims.decode(ACCOUNT.scopedUser(USER, SCOPED, name="ann"))
        terms = termsOf(user, claims)
        assert terms.rules == PermissionClaims(publishAllow=("app.ann.>",))
        assert (terms.subscriptions, terms.payload) == (3, -1)

    @pytest.mark.parametrize(
        "nats",
        [
            UNLIMITED,
            {"subs": 1},
            {"pub": {"allow": [">"]}},
            {"sub": {"deny": ["x"]}},
            {"resp": {}},
            {"bearer_token": True},
            {"allowed_connection_types": ["STANDARD"]},
            {"src": ["0.0.0.0/0"]},
            {"times": [{"start": "00:00:00", "end": "23:59:59"}]},
            {"times_location": "UTC"},
            {"proxy_required": True},
        ],
    )
    def test_moreThanTheTemplate(self, nats: dict[str, Any]) -> None:
        """
        A user of a scoped signing key is refused if the JWT has permissions or limits of its own.
        """
        claims = account({"signing_keys": [TEMPLATE]})
        with pytest.raises(Unauthorized):
            termsOf(UserClaims.decode(ACCOUNT.scopedUser(USER, SCOPED, nats)), claims)

    @pytest.mark.parametrize("subject", ["{{nothing()}}", "a..b", " ", "{{name()}} x y"])
    def test_brokenTemplates(self, subject: str) -> None:
        """Users of a scoped signing key are refused if its template is malformed."""
        template = {**TEMPLATE, "template": {"pub": {"allow": [subject]}}}
        claims = account({"signing_keys": [template]})
        with pytest.raises(Unauthorized):
            termsOf(UserClaims.decode(ACCOUNT.scopedUser(USER, SCOPED)), claims)


class TestGrant:
    """Grants of users."""

    def test_nothingSpecial(self) -> None:
        """A user without limits and permissions may do everything in its account."""
        assert grant() == Grant(ACCOUNT.key, USER.key)

    @pytest.mark.parametrize(
        ("ofUser", "ofAccount", "ofServer", "expected"),
        [
            (-1, -1, -1, None),
            (5, -1, -1, 5),
            (-1, 5, -1, 5),
            (-1, -1, 5, 5),
            (5, 3, 9, 3),
            (0, 5, 5, 0),
            (-2, 5, 5, 0),
            (5, -2, -1, 0),
            (2**40, -1, -1, 2**40),
            (9, 5, 3, 3),
        ],
    )
    def test_leastPayload(
        self, ofUser: int, ofAccount: int, ofServer: int, expected: int | None
    ) -> None:
        """
        The smallest payload limit of user, account and server applies. Only -1 means unlimited.
        """
        limits = ServerLimits(payload=ofServer)
        given = grant({"payload": ofUser}, account(payload=ofAccount), limits)
        assert given.maxPayload == expected

    @pytest.mark.parametrize(
        ("ofUser", "ofAccount", "ofServer", "expected"),
        [(-1, -1, -1, None), (5, -1, -1, 5), (5, 3, 9, 3), (9, 5, 3, 3)],
    )
    def test_leastSubscriptions(
        self, ofUser: int, ofAccount: int, ofServer: int, expected: int | None
    ) -> None:
        """The smallest subscription limit of user, account and server applies."""
        limits = ServerLimits(subscriptions=ofServer)
        given = grant({"subs": ofUser}, account(subs=ofAccount), limits)
        assert given.maxSubscriptions == expected

    @pytest.mark.parametrize("name", ["subs"])
    def test_noSubscriptions(self, name: str) -> None:
        """A user who may not have any subscription is refused."""
        for user, claims in (
            ({name: None}, account()),
            ({name: 0}, account()),
            ({name: -2}, account()),
            ({}, account(subs=-2)),
            ({}, account(subs=0)),
        ):
            with pytest.raises(Unauthorized):
                grant(user, claims)

    @pytest.mark.parametrize(
        ("claims", "until", "expected"),
        [
            ({}, math.inf, None),
            ({"exp": 50}, math.inf, 50),
            ({}, 40.0, 40.0),
            ({"exp": 50}, 40.0, 40.0),
            ({"exp": 30}, 40.0, 30),
        ],
    )
    def test_expires(self, claims: dict[str, Any], until: float, expected: float | None) -> None:
        """A grant ends with the JWT or with the user's hours, whichever is sooner."""
        assert grant(until=until, **claims).expires == expected

    def test_defaults(self) -> None:
        """
        The account's default permissions apply only to users without permissions of their own.
        """
        claims = account({"default_permissions": {"pub": {"allow": ["d"]}}})
        assert grant({}, claims).publish == PermissionSet([b"d"])
        own = grant({"sub": {"allow": ["x"]}}, claims)
        assert (own.publish, own.subscribe) == (None, SubscribePermissions([b"x"]))

    def test_tooManyShapes(self) -> None:
        """A user is refused if its permissions have too many combinations of wildcard positions."""
        subjects = [
            ".".join("*" if number >> bit & 1 else "a" for bit in range(12))
            for number in range(2048)
        ]
        with pytest.raises(Unauthorized):
            grant({"pub": {"allow": subjects}})


class TestRules:
    """Permissions of a JWT as permissions of a grant."""

    @pytest.mark.parametrize(
        ("rules", "publish", "subscribe", "responses"),
        [
            (PermissionClaims(), None, None, None),
            (PermissionClaims(publishAllow=("a",)), PermissionSet([b"a"]), None, None),
            (PermissionClaims(publishDeny=("a",)), PermissionSet(None, [b"a"]), None, None),
            (PermissionClaims(subscribeAllow=("a q",)), None, SubscribePermissions([b"a q"]), None),
            (
                PermissionClaims(subscribeDeny=("a",)),
                None,
                SubscribePermissions(None, [b"a"]),
                None,
            ),
            (
                PermissionClaims(responses=(0, 0)),
                PermissionSet([]),
                None,
                ResponsePermission(1, 120.0),
            ),
            (
                PermissionClaims(publishAllow=("a",), responses=(5, 3_000_000_000)),
                PermissionSet([b"a"]),
                None,
                ResponsePermission(5, 3.0),
            ),
            (
                PermissionClaims(publishDeny=("a",), responses=(-1, -1)),
                PermissionSet([], [b"a"]),
                None,
                ResponsePermission(-1, -1e-9),
            ),
        ],
    )
    def test_permissions(
        self, rules: PermissionClaims, publish: Any, subscribe: Any, responses: Any
    ) -> None:
        """An empty list of allowed subjects allows all, unless only responses are allowed."""
        made = rulesInto(Grant(), rules)
        assert (made.publish, made.subscribe, made.responses) == (publish, subscribe, responses)
