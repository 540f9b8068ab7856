"""The timer that delivers a notice to an SNS topic or to a job.

The notice's text is stored in a record, so a repetition has the same text. A job gets the notice as a one-off whose key follows from the
notice: it runs once. A topic gets the notice at least once, and twice if the ticker dies between publishing and the removal of the entry.
A failing delivery is counted on its entry, which moves aside in the end; the other notices of its topic wait for the next tick.
"""

from __future__ import annotations

import logging

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.names import one_off_ref
from minutehand.domain.notice import JOB, Notice
from minutehand.domain.run import RunRow, RunState
from minutehand.fires.context import FireContext
from minutehand.fires.tick_counts import TickCounts
from minutehand.owner.runs.submit import submit
from minutehand.undertaker.incidents import notice_key

log = logging.getLogger(__name__)

AT_ONCE = 50  # notices sent by one page of entries: they must not delay the runs that are due


def notify(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Deliver one notice. True when the entry may go."""
    services, clock = context.services, context.clock
    if counts.told >= AT_ONCE:
        return False
    owner, _, token = entry.id.partition("#")
    record = services.records.read(owner, notice_key(token))
    if record is None:
        return True
    to, notice = str(record.body["to"]), Notice.of(record.body["notice"])
    if to in counts.deaf:
        return False
    if to.startswith(JOB):
        submit(
            _notice_run(to.removeprefix(JOB), notice, clock()), services, clock, same_time=False, trace=context.trace
        )
    else:
        try:
            services.notices.publish(to, notice)
        except Exception:
            counts.deaf.append(to)
            raise
    counts.told += 1
    ids = {"tenant": notice.tenant, "schedule": notice.schedule, "incident": notice.incident}
    log.info("notice.told", extra=ids | {"kind": str(notice.kind), "to": to})
    return True


def _notice_run(job: str, notice: Notice, now: int) -> RunRow:
    """The one-off that gives a job the notice. It has no schedule, so its own failure is no incident."""
    return RunRow(
        ref=one_off_ref(notice.tenant, f"notice-{notice.token}"),
        state=RunState.QUEUED,
        revision=0,
        job=job,
        due=now,
        not_before=now,
        created_at=now,
        payload=notice.encode(),
    )
