"""Reads of one schedule or run, for a caller who has a verb for its job."""

from __future__ import annotations

from difflib import get_close_matches

from quarterjack.domain.names import check_name, parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import NotFound, shorten
from quarterjack.ports.services import Services
from quarterjack.sdk.access.permits import Permits

_NEIGHBOURS = 200  # existing names that an unknown name is compared with


class Lookups(Permits):
    """What methods look up first. What is missing, and what is another tenant's, are told apart by nothing."""

    _services: Services

    def _read(self, run_id: str, verb: Verb) -> RunRow:
        """A run for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
        self._permit_some(verb, what=f"run {shorten(run_id, 300)}")
        ref = parse_run_id(run_id)
        run = self._services.ledger.read(ref) if ref.tenant == self.tenant else None
        self._permit_seen(verb, None if run is None else run.job, f"run {shorten(run_id, 300)}")
        if run is None:
            raise NotFound(
                f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over; list_runs() shows those it has"
            )
        return run

    def _head(self, name: str, verb: Verb) -> Head:
        """The head of a schedule that is not deleted, for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
        permit = self._permit_head(verb, name)
        head = self._services.schedules.head(self.tenant, check_name(name))
        permit(head)
        if head is None or head.state is ScheduleState.DELETED:
            raise self._no_schedule(name)
        return head

    def _permit_schedule(self, verb: Verb, name: str) -> None:
        """Raises Forbidden unless the caller has a verb for a schedule: its head is read for a caller with grants for some jobs only."""
        permit = self._permit_head(verb, name)
        if self._is_limited(verb):
            permit(self._services.schedules.head(self.tenant, check_name(name)))

    def _no_schedule(self, name: str) -> NotFound:
        if not self._may(Verb.READ_SCHEDULES):
            return NotFound(f"name={name!r}: tenant {self.tenant!r} has no schedule of that name")
        page = self._services.schedules.page(self.tenant, prefix=name[:1], limit=_NEIGHBOURS, cursor=None)
        names = [head.name for head in page.items if head.state is not ScheduleState.DELETED]
        near = [repr(other) for other in get_close_matches(name, names)]
        remedy = f"did you mean {' or '.join(near)}?" if near else "list_schedules() shows the existing ones"
        return NotFound(f"name={name!r}: tenant {self.tenant!r} has no schedule of that name; {remedy}")
