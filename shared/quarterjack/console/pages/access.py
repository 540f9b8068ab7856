"""Who may act for a tenant: grants and API keys. Both are shown before they are made; a key's text is shown once, to its maker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, post
from quarterjack.console.forms import chosen, words_of
from quarterjack.console.pages.tenants import find_profile, holder_of, of_holder
from quarterjack.domain.tenants.access import ROLES, Verb, verbs_of
from quarterjack.domain.tenants.editing import checked_grant
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.tenants.access import KeyView

LIVES: Mapping[str, tuple[str, int | None]] = {  # days
    "30": ("30 days", 30),
    "90": ("90 days", 90),
    "365": ("a year", 365),
    "": ("until it is revoked", None),
}
_GRANT = ("to", "can", "jobs")  # fields of the forms
_KEY = ("name", "can", "jobs", "days")
_HELP: Mapping[str, Any] = {  # the words of a grant, for the forms
    "roles": {str(role): len(verbs) for role, verbs in ROLES.items()},
    "every": [str(verb) for verb in Verb],
}


def grant_form(call: PageCall) -> Response:
    """The form of a grant; when it is filled in, what it would allow, and the form that gives it."""
    given = {word: call.param(word) or "" for word in _GRANT}
    call.operating()
    call.require(Verb.GRANT, holder=holder_of(call))
    fault = None
    if given["to"]:
        try:
            checked_grant(holder_of(call), given["to"], words_of(given["can"]), words_of(given["jobs"]) or ["*"])
        except InvalidInput as problem:
            fault = problem
    return _grant_form(call, given, fault)


def grant(call: PageCall) -> Response:
    """Give the grant."""
    form, holder = call.form, holder_of(call)
    given = {word: form.get(word, "").strip() for word in _GRANT}
    try:
        call.operating().grant(holder, given["to"], words_of(given["can"]), jobs=words_of(given["jobs"]) or ["*"])
    except InvalidInput as problem:
        return _grant_form(call, given, problem)
    return call.go(of_holder(call, holder, done="grant"))


def _grant_form(call: PageCall, given: Mapping[str, str], fault: InvalidInput | None) -> Response:
    holder = holder_of(call)
    profile = find_profile(call, holder)
    return call.render(
        "tenants/grant.html",
        holder=holder,
        given=given,
        ready=bool(given["to"] and given["can"]) and fault is None,
        verbs=sorted(map(str, verbs_of(words_of(given["can"])))),
        **_HELP,
        grants=() if profile is None else profile.grants,
        action=of_holder(call, holder, "grant"),
        back=of_holder(call, holder),
        fault=fault,
    )


def revocation(call: PageCall) -> Response:
    """The grants of a principal that would be removed, and how many would be left. Raises NotFound."""
    holder, to = holder_of(call), call.param("to") or ""
    profile = find_profile(call, holder)
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
    """Remove the grants of a principal."""
    holder = holder_of(call)
    call.operating().revoke(holder, call.form.get("to", ""))
    return call.go(of_holder(call, holder, done="revoke"))


def show_keys(call: PageCall) -> Response:
    """The keys of the tenant, expired ones too."""
    keys = call.operating().keys(call.tenant)
    return call.render("tenants/keys.html", keys=keys, done=call.param("done"))


def new_key(call: PageCall) -> Response:
    """The form of a new key."""
    keys = call.operating().keys(call.tenant)
    call.require(Verb.GRANT)
    given = {"name": call.param("name") or "", "can": call.param("can") or "submit", "jobs": "*", "days": "90"}
    return _key_form(call, given, ",".join(key.id for key in keys), None)


def create_key(call: PageCall) -> Response:
    """Make the key, and show its text, which no other page shows."""
    form = call.form
    given = {word: form.get(word, "").strip() for word in _KEY}
    days = LIVES[chosen(given["days"], LIVES, "days")][1]
    try:
        made = call.operating().create_key(
            call.tenant,
            given["name"],
            words_of(given["can"]),
            jobs=words_of(given["jobs"]) or ["*"],
            expires_at=None if days is None else call.now + timedelta(days=days),
            seen=[each for each in form.get("seen", "").split(",") if each],
        )
    except InvalidInput as problem:
        return _key_form(call, given, form.get("seen", ""), problem)
    return call.render("tenants/key_made.html", 201, made=made)


def _key_form(call: PageCall, given: Mapping[str, str], seen: str, fault: InvalidInput | None) -> Response:
    return call.render("tenants/key_new.html", given=given, seen=seen, lives=LIVES, fault=fault, **_HELP)


def key_revocation(call: PageCall) -> Response:
    """The key that would be revoked, and when it was last used."""
    key = _key(call)
    call.require(Verb.GRANT)
    return call.render("tenants/key_revoke.html", key=key)


def revoke_key(call: PageCall) -> Response:
    """Revoke the key."""
    call.operating().revoke_key(call.tenant, str(call.request.path_params["key"]))
    return call.go(call.address("keys", done="revoke"))


def _key(call: PageCall) -> KeyView:
    wanted = str(call.request.path_params["key"])
    for key in call.operating().keys(call.tenant):
        if key.id == wanted:
            return key
    raise NotFound(f"key={wanted!r}: tenant {call.tenant!r} has no such key; the list has those there are")


ROUTES = (
    get("/tenant/{holder}/grant", grant_form),
    post("/tenant/{holder}/grant", grant),
    get("/tenant/{holder}/revoke", revocation),
    post("/tenant/{holder}/revoke", revoke),
    get("/keys", show_keys),
    get("/keys/new", new_key),
    post("/keys/new", create_key),
    get("/keys/{key}/revoke", key_revocation),
    post("/keys/{key}/revoke", revoke_key),
)
