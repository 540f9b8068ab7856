"""API keys of the tenant: who uses which, since when it was not used, and the acts on them. A key's text is shown once, to its maker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen
from quarterjack.console.pages.tenants.operators import operating, words_of
from quarterjack.domain.tenants.access import ROLES, Verb
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.tenants.keys import KeyView

LIVES: Mapping[str, tuple[str, int | None]] = {  # days
    "30": ("30 days", 30),
    "90": ("90 days", 90),
    "365": ("a year", 365),
    "": ("until it is revoked", None),
}
_WORDS = ("name", "can", "jobs", "days")


def show(call: PageCall) -> Response:
    """The keys of the tenant, expired ones too."""
    keys = operating(call).keys(call.tenant)
    return call.render("tenants/keys.html", keys=keys, done=call.param("done"), now=call.now)


def new(call: PageCall) -> Response:
    """The form of a new key."""
    keys = operating(call).keys(call.tenant)
    call.require(Verb.GRANT)
    given = {"name": call.param("name") or "", "can": call.param("can") or "submit", "jobs": "*", "days": "90"}
    return _form(call, given, ",".join(key.id for key in keys), None)


def create(call: PageCall) -> Response:
    """Make it, and show its text this once."""
    form = call.form
    given = {word: form.get(word, "").strip() for word in _WORDS}
    days = LIVES[chosen(given["days"], LIVES, "days")][1]
    try:
        made = operating(call).create_key(
            call.tenant,
            given["name"],
            words_of(given["can"]),
            jobs=words_of(given["jobs"]) or ["*"],
            expires_at=None if days is None else call.now + timedelta(days=days),
            seen=[each for each in form.get("seen", "").split(",") if each],
        )
    except InvalidInput as problem:
        return _form(call, given, form.get("seen", ""), problem)
    return call.render("tenants/key_made.html", 201, made=made, now=call.now)


def _form(call: PageCall, given: Mapping[str, str], seen: str, fault: InvalidInput | None) -> Response:
    return call.render(
        "tenants/key_new.html",
        200 if fault is None else 422,
        given=given,
        seen=seen,
        lives=LIVES,
        roles={str(role): len(verbs) for role, verbs in ROLES.items()},
        every=[str(verb) for verb in Verb],
        fault=fault,
    )


def show_revoke(call: PageCall) -> Response:
    """The key that would be removed, and when it was used last."""
    key = _key(call)
    call.require(Verb.GRANT)
    return call.render("tenants/key_revoke.html", key=key, now=call.now)


def revoke(call: PageCall) -> Response:
    """Remove it."""
    operating(call).revoke_key(call.tenant, str(call.request.path_params["key"]))
    return call.go(call.address("keys", done="revoke"))


def _key(call: PageCall) -> KeyView:
    wanted = str(call.request.path_params["key"])
    for key in operating(call).keys(call.tenant):
        if key.id == wanted:
            return key
    raise NotFound(f"key={wanted!r}: tenant {call.tenant!r} has no such key; the list has those there are")
