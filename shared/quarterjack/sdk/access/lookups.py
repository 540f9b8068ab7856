"""Reads of one schedule or run, for a caller who has a verb for its job."""

from __future__ import annotations

from difflib import get_close_matches

from quarterjack.domain.names import check_name, parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import NotFound, shorten
from quarterjack.sdk.access.permits import Permits
from quarterjack.sdk.session import Session

_NEIGHBOURS = 200  # existing names that an unknown name is compared with


def read_run(session: Session, tenant: str, run_id: str, verb: Verb) -> RunRow:
    """A run of a tenant for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
    what = f"run {shorten(run_id, 300)}"
    session.gate.check_some(tenant, session.caller, verb, what=what)
    ref = parse_run_id(run_id)
    run = session.services.ledger.read(ref) if ref.tenant == tenant else None
    session.gate.check_seen(tenant, session.caller, verb, None if run is None else run.job, what)
    if run is None:
        raise NotFound(
            f"run_id={run_id!r}: tenant {tenant!r} has no such run, or its retention is over; list_runs() shows those it has"
        )
    return run


class Lookups(Permits):
    """What methods look up first. What is missing, and what is another tenant's, are told apart by nothing."""

    def _read(self, run_id: str, verb: Verb) -> RunRow:
        """As ``read_run``."""
        return read_run(self.session, self.tenant, run_id, verb)

    def _head(self, name: str, verb: Verb) -> Head:
        """The head of a schedule that is not deleted, for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
        permit = self._permit_head(verb, name)
        head = self.session.services.schedules.head(self.tenant, check_name(name))
        permit(head)
        if head is None or head.state is ScheduleState.DELETED:
            raise self._no_schedule(name)
        return head

    def _permit_schedule(self, verb: Verb, name: str) -> None:
        """Raises Forbidden unless the caller has a verb for a schedule: its head is read for a caller with grants for some jobs only."""
        permit = self._permit_head(verb, name)
        if self._is_limited(verb):
            permit(self.session.services.schedules.head(self.tenant, check_name(name)))

    def _no_schedule(self, name: str) -> NotFound:
        if not self._may(Verb.READ_SCHEDULES):
            return NotFound(f"name={name!r}: tenant {self.tenant!r} has no schedule of that name")
        page = self.session.services.schedules.page(self.tenant, prefix=name[:1], limit=_NEIGHBOURS, cursor=None)
        names = [head.name for head in page.items if head.state is not ScheduleState.DELETED]
        near = [repr(other) for other in get_close_matches(name, names)]
        remedy = f"did you mean {' or '.join(near)}?" if near else "list_schedules() shows the existing ones"
        return NotFound(f"name={name!r}: tenant {self.tenant!r} has no schedule of that name; {remedy}")
