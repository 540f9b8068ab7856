"""Notices: an event of a schedule as a document for its owner. Pure."""

from __future__ import annotations

from minutehand.domain.dead_run import DeadRunRow
from minutehand.domain.notice import Notice, NoticeKind
from minutehand.domain.options import Options
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Head
from minutehand.domain.times import from_ms
from minutehand.state.incidents import IncidentEvent, began


def target(kind: NoticeKind, options: Options) -> str | None:
    """The receiver of a notice: the ARN of an SNS topic or ``job:NAME``; None: no notice is sent."""
    return options.on_recovery if kind is NoticeKind.RECOVERY else options.on_failure


def notice_of(
    event: IncidentEvent, head: Head, *, dead: DeadRunRow | None = None, success: RunRow | None = None
) -> Notice:
    """The notice of an event. ``dead`` is the run that failed, ``success`` the run that succeeded, if there is one."""
    recovered = event.kind is NoticeKind.RECOVERY
    failed, succeeded = (None, success) if recovered else (dead, None)
    return Notice(
        kind=event.kind,
        tenant=head.tenant,
        schedule=head.name,
        job=head.job,
        incident=event.incident,
        began=_when(began(event.incident)),
        at=_when(event.at),
        count=event.count,
        text=_sentence(event, head, failed),
        run=str(succeeded.ref) if succeeded else str(failed.run) if failed else None,
        state=str(succeeded.state) if succeeded else str(failed.state) if failed else None,
        reason=failed.reason if failed else None,
        error_type=failed.error_type if failed else None,
        error=failed.error if failed else None,
    )


def _sentence(event: IncidentEvent, head: Head, failed: DeadRunRow | None) -> str:
    match event.kind:
        case NoticeKind.RECOVERY:
            return f"{head.owner} has recovered: a run succeeded at {_when(event.at)}."
        case NoticeKind.NO_SUCCESS:
            return f"{head.owner} had no success in time: one was expected by {_when(event.at)}."
        case NoticeKind.PAUSED:
            return f"{head.owner} is paused, because {event.count} of its runs in a row failed for good{_why(failed)}"
        case NoticeKind.FAILURE:
            return f"{head.owner} fails: a run of job {head.job!r} failed for good{_why(failed)}"


def _why(failed: DeadRunRow | None) -> str:
    if failed is None:
        return "."
    error = f": {failed.error_type}: {failed.error}" if failed.error_type else ""
    return f" ({failed.reason}){error}"


def _when(ms: int) -> str:
    return from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
