"""
The permissions of users whose scoped signer gives them as a template.

C{{{name()}}}, C{{{subject()}}}, C{{{account-name()}}}, C{{{account-subject()}}},
C{{{tag(x)}}} and C{{{account-tag(x)}}} are replaced by what the JWTs of the user and the account
say; anything else in double braces refuses the user. What an allowed subject cannot be made of is
left out, and if nothing is left, nothing is allowed; what a denied one cannot be made of refuses
the user (nats-server's rules).

Stricter than nats-server 2.15, on purpose: a value that holds a wildcard or a blank is none. There,
a scoped signer could give a user the name C{>} and so more than the template says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.terms import PermissionClaims
from natsbroker.subjects.grammar import isValidLiteral

__all__ = ["Values", "expand"]

#: The most subjects that one list may become.
MOST = 4096

_PLACE = re.compile(r"\{\{([^}]+)\}\}")
_TAG = re.compile(r"(account-)?tag\((.*)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Values:
    """
    What a template can refer to.

    @ivar names: what the functions without arguments give, by their names.
    @ivar tags: the user's tags.
    @ivar accountTags: the account's.
    """

    names: Mapping[str, str]
    tags: tuple[str, ...] = ()
    accountTags: tuple[str, ...] = ()

    def of(self, place: str) -> list[str]:
        """
        The values of what stands between double braces.

        @raise FieldError: if that is nothing that is known.
        """
        function = place.strip()
        found = _TAG.fullmatch(function)
        if found is not None:
            prefix = found[2].lower() + ":"
            tags = self.accountTags if found[1] else self.tags
            given = [each[len(prefix) :] for each in tags if each.startswith(prefix)]
        elif function.lower() in self.names:
            given = [self.names[function.lower()]]
        else:
            raise FieldError(f"the template function {function[:64]!a} is not defined")
        return [each for each in given if isValidLiteral(each.encode("utf-8"))]


def expand(template: PermissionClaims, values: Values) -> PermissionClaims:
    """
    Make a user's rules of a signer's.

    @raise FieldError: if they cannot be made.
    """
    publishAllow = _expanded(template.publishAllow, values, False)
    subscribeAllow = _expanded(template.subscribeAllow, values, False)
    rules = replace(
        template,
        publishAllow=publishAllow,
        publishDeny=_expanded(template.publishDeny, values, True),
        subscribeAllow=subscribeAllow,
        subscribeDeny=_expanded(template.subscribeDeny, values, True),
    )
    if template.publishAllow and not publishAllow:
        rules = replace(rules, publishDeny=(*rules.publishDeny, ">"))
    if template.subscribeAllow and not subscribeAllow:
        rules = replace(rules, subscribeDeny=(*rules.subscribeDeny, ">"))
    return rules


def _expanded(subjects: Iterable[str], values: Values, isNeeded: bool) -> tuple[str, ...]:
    """
    @param isNeeded: whether nothing may be left out.
    """
    expanded: list[str] = []
    for subject in subjects:
        pieces = _PLACE.split(subject)
        choices = [values.of(place) for place in pieces[1::2]]
        if isNeeded and not all(choices):
            raise FieldError(f"no value for a place in {subject[:256]!a}")
        if len(expanded) + prod(map(len, choices)) > MOST:
            raise FieldError(f"a template makes more than {MOST} subjects")
        for chosen in product(*choices):
            pieces[1::2] = chosen
            expanded.append("".join(pieces))
    return tuple(expanded)
