"""SDK: links by which a person without an account answers a run that waits."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from quarterjack.domain.names import check_name, parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import LINKED, MAX_ACTOR, claimed_actor
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner.runs.links import (
    CHANNEL,
    ID,
    FoundLink,
    LinkState,
    answer_by_link,
    find_link,
    link_id,
    make_link,
    revoke_link,
    state_of,
)
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.requests import refuse_secrets
from quarterjack.sdk.session import Session
from quarterjack.sdk.waits.signals import answer_text
from quarterjack.state.waits.park import MAX_WAIT
from quarterjack.stores.waits import LinkRow

_DAY = 86_400.0  # seconds
_BASE = re.compile(r"https?://[^\s@/?#]+(?:/[^\s?#]*)?")  # without name, password, query and fragment
_ID = re.compile(rf"[0-9a-f]{{{ID}}}")


@dataclass(frozen=True, kw_only=True)
class SignalLink:
    """A link that gives one answer to a run. Whoever has its URL may give the answer."""

    id: str  # by which it is revoked
    url: str  # of the page that shows what is asked
    run_id: str  # of the run
    name: str  # of the signal
    to: str  # for whom it was made; the audit has "link:<to>" as the actor of the answer
    expires_at: datetime  # UTC


@dataclass(frozen=True, kw_only=True)
class RunLink:
    """A link of a run, without its URL, which is not stored."""

    id: str  # by which it is revoked
    run_id: str  # of the run
    name: str  # of the signal
    to: str  # for whom it was made
    state: LinkState  # what it is good for now
    payload: Any = None  # the answer that it gives; None for a caller who may not read-payloads
    made_at: datetime  # UTC
    made_by: str  # actor
    expires_at: datetime  # UTC
    revoked_at: datetime | None = None  # UTC


@dataclass(frozen=True, kw_only=True)
class LinkView:
    """A link as its page shows it."""

    state: LinkState
    run_id: str
    job: str
    name: str  # of the signal
    to: str  # for whom it was made
    payload: Any  # the answer that it gives
    expires_at: datetime  # UTC
    answered_at: datetime | None = None  # UTC: when the answer came, or the wait timed out
    answered_by: str | None = None  # actor
    answer: Any = None  # that the run has, if it came by a link; None: it came by a call, and its links do not show it
    timed_out: bool = False  # the wait was over before an answer came
    is_mine: bool = False  # this link's answer is the one that the run has


class LinkMethods(SchedulerBase):
    def signal_link(
        self,
        run_id: str,
        name: str,
        payload: Any = None,
        *,
        to: str,
        base: str,
        expires_in: float = 7 * _DAY,
    ) -> SignalLink:
        """Make a link that answers ``ctx.wait_for(name)`` of a run with ``payload``: for a person without an account, in a mail or a chat.

        The page of the link shows the answer and asks for a confirmation; opened alone it does nothing. ``to`` says for whom it is, e.g.
        a mail address: the audit has it as the actor of the answer. ``base`` is the URL of the console, e.g.
        "https://jobs.example.com/console". ``expires_in``: seconds, at most 366 days. Whoever has the URL may give the answer, so it
        belongs into no log. Raises InvalidInput, NotFound, Conflict (the run has ended), Throttled, Unavailable.
        """
        check_name(name, "name")
        label = _label(to)
        below, lasts = _base(base), _lasts(expires_in)
        refuse_secrets("to", lambda: to, self.tenant)
        run = self._access.read_run(run_id, Verb.SIGNAL)
        text = answer_text(payload, self._pending(payload).text)
        self._take(RateWord.CHANGES)
        now = self.session.clock()
        row = LinkRow(
            signal=name, payload=text, label=label, actor="", made_at=now, expires_at=now + int(lasts * SECOND)
        )
        made, token = make_link(run, row, self._context)
        url = f"{below}/answer/{run_segment(str(run.ref))}/{token}"
        return SignalLink(
            id=link_id(made), url=url, run_id=run_id, name=name, to=label, expires_at=from_ms(row.expires_at)
        )

    def list_links(self, run_id: str) -> Sequence[RunLink]:
        """The links that were made for a run, oldest first, also those that are of no use any more.

        Raises InvalidInput, NotFound, Unavailable.
        """
        run = self._access.read_run(run_id, Verb.READ_RUNS)
        rows = sorted(self.session.services.waits.links(run.ref), key=lambda row: (row.made_at, row.digest))
        signals = {name: self.session.services.waits.signal(run.ref, name) for name in {row.signal for row in rows}}
        now = self.session.clock()
        return [self._link_view(run, row, state_of(row, run, signals[row.signal], now)) for row in rows]

    def revoke_link(self, run_id: str, link: str) -> RunLink:
        """Revoke a link (its ``id``): it gives no answer once this has returned. An answer that it gave before stays.

        A link that is revoked stays so. Raises InvalidInput, NotFound, Throttled, Unavailable.
        """
        if not isinstance(link, str) or not _ID.fullmatch(link):
            raise InvalidInput("link", link, "is not the id of a link", "use the id of a link that list_links returns")
        run = self._access.read_run(run_id, Verb.SIGNAL)
        self._take(RateWord.CHANGES)
        return self._link_view(run, revoke_link(run, link, self._context), LinkState.REVOKED)

    def _link_view(self, run: RunRow, row: LinkRow, state: LinkState) -> RunLink:
        may_read = self._access.may_read_payloads(run.job)
        return RunLink(
            id=link_id(row),
            run_id=str(run.ref),
            name=row.signal,
            to=row.label,
            state=state,
            payload=json.loads(row.payload) if may_read else None,
            made_at=from_ms(row.made_at),
            made_by=row.actor,
            expires_at=from_ms(row.expires_at),
            revoked_at=None if row.revoked_at is None else from_ms(row.revoked_at),
        )


def _label(to: object) -> str:
    try:
        claimed = claimed_actor(to, "to")
    except InvalidInput as problem:
        raise problem.about("to") from None
    if claimed is None:
        raise InvalidInput("to", to, "is missing", "say for whom the link is, e.g. 'alice@acme.example'")
    return claimed.partition(":")[2][: MAX_ACTOR - len(LINKED)]


def _base(base: object) -> str:
    if not isinstance(base, str) or not base.isprintable() or not _BASE.fullmatch(base) or not _has_host(base):
        raise InvalidInput("base", base, "is not the URL of a console", "use e.g. https://jobs.example.com/console")
    return base.rstrip("/")


def _has_host(url: str) -> bool:
    try:
        found = urlsplit(url)
        return found.port != 0 and bool(found.hostname)
    except ValueError:  # "https://[" and "https://jobs:many" are no addresses
        return False


def _lasts(expires_in: object) -> float:
    most = MAX_WAIT // SECOND
    is_number = isinstance(expires_in, (int, float)) and not isinstance(expires_in, bool)
    if not is_number or not 1 <= float(expires_in) <= most:  # type: ignore[arg-type]
        raise InvalidInput("expires_in", expires_in, "is not a fitting time", f"use 1 to {most:,} seconds")
    return float(expires_in)  # type: ignore[arg-type]


def run_segment(run_id: str) -> str:
    """The id of a run as a segment of an address."""
    return urlsafe_b64encode(run_id.encode()).decode().rstrip("=")


def read_link(session: Session, run_id: str, token: str) -> LinkView:
    """What a link shows. The token is all that is asked for. Raises InvalidInput, NotFound, Unavailable."""
    return _view(find_link(parse_run_id(run_id), token, session.services, session.clock()), brought=False)


def use_link(session: Session, run_id: str, token: str) -> LinkView:
    """Give the answer of a link, if it is open, and what it shows then. Raises InvalidInput, NotFound, Unavailable."""
    found, brought = answer_by_link(parse_run_id(run_id), token, session.context())
    return _view(found, brought=brought)


def _view(found: FoundLink, *, brought: bool) -> LinkView:
    signal, row = found.signal, found.row
    by_link = signal is not None and signal.channel == CHANNEL
    answer = json.loads(signal.payload) if by_link and signal is not None and signal.payload is not None else None
    own = f"{LINKED}{row.label}"
    return LinkView(
        state=found.state,
        run_id=str(found.run.ref),
        job=found.run.job,
        name=row.signal,
        to=row.label,
        payload=json.loads(row.payload),
        expires_at=from_ms(row.expires_at),
        answered_at=None if signal is None else from_ms(signal.at),
        answered_by=None if signal is None else signal.actor,
        answer=answer,
        timed_out=signal is not None and signal.payload is None,
        is_mine=brought or (by_link and signal is not None and (signal.actor, signal.payload) == (own, row.payload)),
    )
