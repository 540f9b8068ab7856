"""Links by which a person without an account answers a run: each holds one answer to one signal, and expires.

    make: audit entry and row of the link, one transaction ─► URL
    revoke: audit entry and ``revoked_at``, one transaction
    GET: the page shows what is asked                      nothing is written: scanners of mail open links
    POST: the signal, with channel "link"                  the first answer counts, whoever sends it; its transaction checks that the
                                                           link is not revoked

The token is 256 random bits. As with API keys, only its SHA-256 is stored, so nobody who reads the tables can answer, and a token that is
changed, or is that of another run, is found nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.caller import LINKED, Caller, Via
from quarterjack.errors import Conflict, NotFound
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.owner.runs.signal import check_terms, send_signal
from quarterjack.ports.services import Services
from quarterjack.stores.waits import LinkRow, SignalRow
from quarterjack.values import replace, value

CHANNEL = "link"  # of signals that come by a link
_BYTES = 32  # of chance in a token
ID = 12  # hexadecimal digits of a link's id: the beginning of its token's digest, which tells nothing about the token


class LinkState(StrEnum):
    """What a link is good for now."""

    OPEN = "open"  # its answer may be given
    ANSWERED = "answered"  # the run has an answer
    EXPIRED = "expired"
    REVOKED = "revoked"
    ENDED = "ended"  # the run ended without an answer


@value(kw_only=True)
class FoundLink:
    """A link as its token found it."""

    state: LinkState
    row: LinkRow
    run: RunRow
    signal: SignalRow | None  # the answer that the run has


def make_link(run: RunRow, link: LinkRow, context: FireContext) -> tuple[LinkRow, str]:
    """Store a link; it, and its token.

    Raises Conflict for a run that has ended, InvalidInput for an answer that does not fit, Unavailable.
    """
    if run.is_terminal:
        raise Conflict(f"run_id={str(run.ref)!r}: it is {run.state}, so no answer reaches it; nothing was written")
    check_terms(run, link.signal, link.payload, context)
    token = secrets.token_urlsafe(_BYTES)
    link = replace(link, actor=actor_of(context), digest=_digest(token))
    told: Mapping[str, Any] = _told(link) | {"expires_at": link.expires_at}
    context.services.waits.put_link(run.ref, link, audit_entry(AuditAct.LINK, str(run.ref), context, **told))
    return link, token


def link_id(link: LinkRow) -> str:
    """By which its makers name a link."""
    return link.digest[:ID]


def _told(link: LinkRow) -> dict[str, Any]:
    """What the audit has of a link."""
    return {"signal": link.signal, "to": link.label, "link": link_id(link)}


def revoke_link(run: RunRow, which: str, context: FireContext) -> LinkRow:
    """Revoke a link by its id; it as it is then. One that is revoked stays so. Raises NotFound, Unavailable.

    No answer comes by it once this has returned. An answer that it gave before stays.
    """
    waits = context.services.waits
    link = next(iter(waits.links(run.ref, which)), None)
    if link is None:
        raise NotFound(f"link={which!r}: run {run.ref} has no such link; list_links() has their ids")
    if link.revoked_at is not None:
        return link
    now = context.clock()
    audit = audit_entry(AuditAct.REVOKE_LINK, str(run.ref), context, **_told(link))
    if waits.revoke_link(run.ref, link.digest, now, audit):
        return replace(link, revoked_at=now)
    return waits.link(run.ref, link.digest) or replace(link, revoked_at=now)  # another call was first


def find_link(ref: RunRef, token: str, services: Services, now: int) -> FoundLink:
    """The link of a token. Raises NotFound, Unavailable."""
    row = services.waits.link(ref, _digest(token))
    run = None if row is None else services.ledger.read(ref)
    if row is None or run is None:
        raise NotFound(
            "there is no such link: it is incomplete, or its run has left the ledger; ask its sender for a new one"
        )
    signal = services.waits.signal(ref, row.signal)
    return FoundLink(state=state_of(row, run, signal, now), row=row, run=run, signal=signal)


def state_of(link: LinkRow, run: RunRow, signal: SignalRow | None, now: int) -> LinkState:
    """What a link is good for at ``now`` (UTC ms). ``signal``: the answer that the run has."""
    if link.revoked_at is not None:
        return LinkState.REVOKED
    if signal is not None:
        return LinkState.ANSWERED
    if run.is_terminal:
        return LinkState.ENDED
    return LinkState.EXPIRED if now >= link.expires_at else LinkState.OPEN


def answer_by_link(ref: RunRef, token: str, context: FireContext) -> tuple[FoundLink, bool]:
    """Give the answer of a link that is open; the link as it is then, and whether this call brought the answer.

    Raises NotFound, InvalidInput for an answer that the wait does not take any more, Unavailable.
    """
    found = find_link(ref, token, context.services, context.clock())
    if found.state is not LinkState.OPEN:
        return found, False
    caller = Caller(actor=f"{LINKED}{found.row.label}", via=Via.CONSOLE, call=context.caller.call)
    acting = replace(context, caller=caller)
    try:
        signal, brought = send_signal(
            found.run, found.row.signal, found.row.payload, acting, channel=CHANNEL, link=found.row
        )
    except Conflict:  # the run has ended, or the link was revoked meanwhile
        return find_link(ref, token, context.services, context.clock()), False
    return replace(found, state=LinkState.ANSWERED, signal=signal), brought


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
