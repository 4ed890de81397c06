"""
Tests of L{natsbroker.auth.operator.templates}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.templates import MOST, Values, expand
from natsbroker.auth.operator.terms import PermissionClaims

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
    """
    What allowed subjects become.
    """
    return expand(PermissionClaims(publishAllow=subjects), values).publishAllow


class TestExpansion:
    """What templates become."""

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
        """Places are filled with the values, in every combination where there are several."""
        assert list(allowed(template)) == expected

    def test_queues(self) -> None:
        """A place may stand in the subject and in the queue."""
        rules = expand(PermissionClaims(subscribeAllow=("in.{{name()}} q-{{tag(dept)}}",)), VALUES)
        assert rules.subscribeAllow == ("in.ann q-eng", "in.ann q-ops")

    def test_notTwice(self) -> None:
        """A value that looks like a template is taken as it is."""
        values = Values({"name()": "{{subject()}}", "subject()": "UKEY"})
        assert allowed("{{name()}}", values=values) == ("{{subject()}}",)

    @pytest.mark.parametrize("tag", ["missing", "bad", "blank", "empty"])
    def test_leftOut(self, tag: str) -> None:
        """An allowed subject without a value is left out; if none is left, nothing is allowed."""
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
        """A denied subject without a value refuses the user."""
        for rules in (
            PermissionClaims(publishDeny=(f"{{{{tag({tag})}}}}",)),
            PermissionClaims(subscribeDeny=("a", f"{{{{tag({tag})}}}}")),
        ):
            with pytest.raises(FieldError):
                expand(rules, VALUES)

    @pytest.mark.parametrize("name", ["*", ">", "a.*", "a.>", "a b", "", ".", "a.", "a\r\nPUB"])
    def test_noWiderThanTheTemplate(self, name: str) -> None:
        """A user whose name holds a wildcard or a blank is not given more than the template."""
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
        """What is no function refuses the user, whatever it is (739caaf6f, b2d0c2a77)."""
        for rules in (
            PermissionClaims(publishAllow=(template,)),
            PermissionClaims(subscribeDeny=(template,)),
        ):
            with pytest.raises(FieldError):
                expand(rules, VALUES)

    def test_tooMany(self) -> None:
        """Templates that make more subjects than fit refuse the user before they are made."""
        values = Values({}, tuple(f"t:{number}" for number in range(64)))
        assert len(allowed("{{tag(t)}}.{{tag(t)}}", values=values)) == MOST
        with pytest.raises(FieldError):
            allowed("a", "{{tag(t)}}.{{tag(t)}}", values=values)
        with pytest.raises(FieldError):
            allowed(".".join(["{{tag(t)}}"] * 10), values=values)

    @given(st.text(), st.text())
    def test_anyText(self, template: str, name: str) -> None:
        """No template and no name make anything but rules or a refusal."""
        try:
            expand(
                PermissionClaims((template,), (template,), (template,)), Values({"name()": name})
            )
        except FieldError:
            pass
