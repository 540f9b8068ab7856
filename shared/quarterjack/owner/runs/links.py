"""Links by which a person without an account answers a run: each holds one answer to one signal, and expires.

    make: audit entry and row of the link, one transaction ─► URL
    GET: the page shows what is asked                      nothing is written: scanners of mail open links
    POST: the signal, with channel "link"                  the first answer counts, whoever sends it

The token is 256 random bits. As with API keys, only its SHA-256 is stored, so nobody who reads the tables can answer, and a token that is
changed, or is that of another run, is found nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from enum import StrEnum

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
from quarterjack.values import value

CHANNEL = "link"  # of signals that come by a link
_BYTES = 32  # of chance in a token


class LinkState(StrEnum):
    """What a link is good for now."""

    OPEN = "open"  # its answer may be given
    ANSWERED = "answered"  # the run has an answer
    EXPIRED = "expired"
    ENDED = "ended"  # the run ended without an answer


@value(kw_only=True)
class FoundLink:
    """A link as its token found it."""

    state: LinkState
    row: LinkRow
    run: RunRow
    signal: SignalRow | None  # the answer that the run has


def make_link(run: RunRow, link: LinkRow, context: FireContext) -> str:
    """Store a link; its token. Raises Conflict for a run that has ended, InvalidInput for an answer that does not fit, Unavailable."""
    if run.is_terminal:
        raise Conflict(f"run_id={str(run.ref)!r}: it is {run.state}, so no answer reaches it; nothing was written")
    check_terms(run, link.signal, link.payload, context)
    token = secrets.token_urlsafe(_BYTES)
    link = replace(link, actor=actor_of(context))
    expires = link.expires_at
    audit = audit_entry(AuditAct.LINK, str(run.ref), context, signal=link.signal, to=link.label, expires_at=expires)
    context.services.waits.put_link(run.ref, _digest(token), link, audit)
    return token


def find_link(ref: RunRef, token: str, services: Services, now: int) -> FoundLink:
    """The link of a token. Raises NotFound, Unavailable."""
    row = services.waits.link(ref, _digest(token))
    run = None if row is None else services.ledger.read(ref)
    if row is None or run is None:
        raise NotFound(
            "there is no such link: it is incomplete, or its run has left the ledger; ask its sender for a new one"
        )
    signal = services.waits.signal(ref, row.signal)
    if signal is not None:
        state = LinkState.ANSWERED
    elif run.is_terminal:
        state = LinkState.ENDED
    else:
        state = LinkState.EXPIRED if now >= row.expires_at else LinkState.OPEN
    return FoundLink(state=state, row=row, run=run, signal=signal)


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
        signal, brought = send_signal(found.run, found.row.signal, found.row.payload, acting, channel=CHANNEL)
    except Conflict:  # the run has ended meanwhile
        return find_link(ref, token, context.services, context.clock()), False
    return replace(found, state=LinkState.ANSWERED, signal=signal), brought


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
