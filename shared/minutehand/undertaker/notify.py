"""Tell: the timer that takes a notice to whom it is for, an SNS topic or a job.

The notice lies beside the runs as it will be told, so a repetition says the same. A job is told by a one-off whose key follows from the
notice: it runs once. A topic may be told twice, if the ticker dies between the publication and the removal of the entry; never not at all.
One that cannot be told fails by itself: it is counted on its entry and moved aside in the end, and the others of its topic wait for
the next tick meanwhile.
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
from minutehand.ports.services import Services
from minutehand.undertaker.incidents import notice_key

log = logging.getLogger(__name__)

AT_ONCE = 50  # notices told in one go: what is due to run goes on meanwhile


def notify(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Tell one notice. True when the entry may go."""
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
        submit(_order(to.removeprefix(JOB), notice, clock()), services, clock, same_time=False, trace=context.trace)
    else:
        _publish(to, notice, services, counts)
    counts.told += 1
    ids = {"tenant": notice.tenant, "schedule": notice.schedule, "incident": notice.incident}
    log.info("notice.told", extra=ids | {"kind": str(notice.kind), "to": to})
    return True


def _publish(topic: str, notice: Notice, services: Services, result: TickCounts) -> None:
    try:
        services.notices.publish(topic, notice)
    except Exception:
        result.deaf.append(topic)
        raise


def _order(job: str, notice: Notice, now: int) -> RunRow:
    """The run of a job that is given the notice: a one-off, which has no schedule, so that its own failure is no incident."""
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
