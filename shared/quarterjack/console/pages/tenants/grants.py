"""Who may act for a tenant: a grant is shown with its verbs before it is given, and what is left before one is taken away."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.pages.tenants.detail import found
from quarterjack.console.pages.tenants.operators import holder_of, of_holder, operating, words_of
from quarterjack.domain.tenants.access import ROLES, Verb, verbs_of
from quarterjack.domain.tenants.editing import checked_grant
from quarterjack.errors import InvalidInput, NotFound


def show_grant(call: PageCall) -> Response:
    """The form of a grant; once it is filled in, what it would allow, and the form that gives it."""
    given = {word: call.param(word) or "" for word in ("to", "can", "jobs")}
    operating(call)
    call.require(Verb.GRANT, holder=holder_of(call))
    fault = None
    if given["to"]:
        try:
            checked_grant(holder_of(call), given["to"], words_of(given["can"]), words_of(given["jobs"]) or ["*"])
        except InvalidInput as problem:
            fault = problem
    return _form(call, given, fault)


def grant(call: PageCall) -> Response:
    """Give it."""
    form, holder = call.form, holder_of(call)
    given = {word: form.get(word, "").strip() for word in ("to", "can", "jobs")}
    try:
        operating(call).grant(holder, given["to"], words_of(given["can"]), jobs=words_of(given["jobs"]) or ["*"])
    except InvalidInput as problem:
        return _form(call, given, problem)
    return call.go(of_holder(call, holder, done="grant"))


def _form(call: PageCall, given: Mapping[str, str], fault: InvalidInput | None) -> Response:
    holder = holder_of(call)
    profile = found(call, holder)
    return call.render(
        "tenants/grant.html",
        200 if fault is None else 422,
        holder=holder,
        given=given,
        ready=bool(given["to"] and given["can"]) and fault is None,
        verbs=sorted(map(str, verbs_of(words_of(given["can"])))),
        roles={str(role): len(verbs) for role, verbs in ROLES.items()},
        every=[str(verb) for verb in Verb],
        grants=() if profile is None else profile.grants,
        action=of_holder(call, holder, "grant"),
        back=of_holder(call, holder),
        fault=fault,
    )


def show_revoke(call: PageCall) -> Response:
    """Which grants of a principal would be taken away, and what would be left. Raises NotFound."""
    holder, to = holder_of(call), call.param("to") or ""
    profile = found(call, holder)
    grants = () if profile is None else profile.grants
    taken = [each for each in grants if each.to == to]
    if not taken:
        raise NotFound(f"to={to!r}: has no grant of {holder!r}; open the tenant's page for those there are")
    return call.render(
        "tenants/revoke.html",
        holder=holder,
        to=to,
        taken=taken,
        left=len(grants) - len(taken),
        action=of_holder(call, holder, "revoke"),
        back=of_holder(call, holder),
    )


def revoke(call: PageCall) -> Response:
    """Take them away."""
    holder = holder_of(call)
    operating(call).revoke(holder, call.form.get("to", ""))
    return call.go(of_holder(call, holder, done="revoke"))
