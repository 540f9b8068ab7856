"""The verbs of every public method of ``Scheduler`` and ``Tenants``: one table, in the reference too; tests hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from quarterjack.domain.tenants.access import Verb


class About(StrEnum):
    """For which jobs a call needs its verb."""

    JOB = "the job that is given"
    SCHEDULE = "the job of the schedule"
    RUN = "the job of the run"
    FILTER = "the job of the filter `job`; all jobs without it"
    ALL = "all jobs"
    SOME = "some job; what is about others is left out"
    INSTALLATION = "all jobs, by a grant of the installation"


@dataclass(frozen=True)
class Call:
    """What a method needs."""

    about: About
    verbs: tuple[Verb, ...]
    when: str = ""  # which of the verbs, if it is not each


def _call(about: About, *verbs: Verb, when: str = "") -> Call:
    return Call(about, verbs, when)


BULK_VERBS: Mapping[str, Verb] = {
    "pause": Verb.PAUSE,
    "resume": Verb.RESUME,
    "delete": Verb.DELETE,
    "retag": Verb.UPDATE,
    "trigger": Verb.TRIGGER,
}
BULK_RUN_VERBS: Mapping[str, Verb] = {
    "cancel": Verb.CANCEL,
    "redrive": Verb.REDRIVE,
    "replay": Verb.REPLAY,
    "hasten": Verb.RESCHEDULE,
    "requeue": Verb.RESCHEDULE,
    "reassign": Verb.RETRY,
}
CALLS: Mapping[str, Call] = {
    # Schedules.
    "create_schedule": _call(About.JOB, Verb.CREATE),
    "upsert_schedule": _call(
        About.SCHEDULE, Verb.CREATE, Verb.UPDATE, when="as there is such a schedule or not; `update` of both jobs"
    ),
    "update_schedule": _call(About.SCHEDULE, Verb.UPDATE, when="of both jobs, if it gets another one"),
    "pause_schedule": _call(About.SCHEDULE, Verb.PAUSE),
    "resume_schedule": _call(About.SCHEDULE, Verb.RESUME),
    "delete_schedule": _call(About.SCHEDULE, Verb.DELETE),
    "skip_next": _call(About.SCHEDULE, Verb.SKIP),
    "get_schedule": _call(About.SCHEDULE, Verb.READ_SCHEDULES),
    "describe_schedule": _call(About.SCHEDULE, Verb.READ_SCHEDULES, when="its last runs with `read-runs`"),
    "preview": _call(About.SCHEDULE, Verb.PREVIEW),
    "list_schedules": _call(About.FILTER, Verb.READ_SCHEDULES),
    "forecast": _call(About.FILTER, Verb.READ_SCHEDULES),
    "bulk": _call(
        About.FILTER,
        *BULK_VERBS.values(),
        when="by the action; `update` to retag",
    ),
    "compare_declared": _call(About.SOME, Verb.READ_SCHEDULES, Verb.READ_PAYLOADS, when="both"),
    "compare_schedule": _call(
        About.SCHEDULE, Verb.READ_SCHEDULES, Verb.READ_PAYLOADS, when="both; the latter unless its payload is kept"
    ),
    "export_declared": _call(About.SOME, Verb.READ_SCHEDULES, Verb.READ_PAYLOADS, when="both"),
    "carry_out": _call(
        About.SCHEDULE, Verb.CREATE, Verb.UPDATE, Verb.DELETE, when="those of all its changes, before the first"
    ),
    # Runs.
    "submit": _call(About.JOB, Verb.SUBMIT),
    "submit_all": _call(About.JOB, Verb.SUBMIT, when="of each item, and of `on_end`"),
    "trigger": _call(About.SCHEDULE, Verb.TRIGGER),
    "get_run": _call(About.RUN, Verb.READ_RUNS),
    "wait_for": _call(About.RUN, Verb.READ_RUNS),
    "list_runs": _call(About.FILTER, Verb.READ_RUNS, when="with a name: of the schedule's job"),
    "last_runs": _call(About.SOME, Verb.READ_RUNS),
    "list_running": _call(About.ALL, Verb.READ_RUNS),
    "cancel_run": _call(About.RUN, Verb.CANCEL),
    "cancel_runs": _call(About.SCHEDULE, Verb.CANCEL),
    "retry_run": _call(About.RUN, Verb.RETRY),
    "signal": _call(About.RUN, Verb.SIGNAL),
    "complete": _call(About.RUN, Verb.SIGNAL),
    "fail": _call(About.RUN, Verb.SIGNAL),
    "heartbeat": _call(About.RUN, Verb.SIGNAL),
    "signal_link": _call(About.RUN, Verb.SIGNAL),
    "list_links": _call(About.RUN, Verb.READ_RUNS),
    "revoke_link": _call(About.RUN, Verb.SIGNAL),
    "reschedule": _call(About.RUN, Verb.RESCHEDULE),
    "requeue": _call(About.RUN, Verb.RESCHEDULE),
    "replay_run": _call(About.RUN, Verb.REPLAY),
    # Pipelines.
    "upsert_pipeline": _call(
        About.SCHEDULE,
        Verb.CREATE,
        Verb.SUBMIT,
        when="as there is such a pipeline or not: `update`; `submit` of each task's job",
    ),
    "list_pipelines": _call(About.FILTER, Verb.READ_SCHEDULES),
    "pipeline_run": _call(About.RUN, Verb.READ_RUNS),
    "task_stats": _call(About.SCHEDULE, Verb.READ_RUNS),
    "skip_task": _call(About.RUN, Verb.SKIP),
    "retry_pipeline": _call(About.RUN, Verb.REPLAY),
    "list_dead": _call(About.FILTER, Verb.READ_RUNS),
    "redrive": _call(About.FILTER, Verb.REDRIVE, when="of one run: of its job"),
    "bulk_runs": _call(
        About.FILTER,
        Verb.READ_RUNS,
        *BULK_RUN_VERBS.values(),
        when="`read-runs` and that of the action: `reschedule` to requeue, also to hasten (`retry` between attempts); `retry` to reassign",
    ),
    "purge": _call(About.FILTER, Verb.PURGE, when="of one run: of its job"),
    # Backfills.
    "backfill": _call(About.SCHEDULE, Verb.BACKFILL, when="of the jobs of all revisions that it runs"),
    "get_backfill": _call(About.SCHEDULE, Verb.READ_RUNS),
    "list_backfills": _call(About.SCHEDULE, Verb.READ_RUNS),
    "backfills": _call(About.ALL, Verb.READ_RUNS),
    "backfill_runs": _call(About.SCHEDULE, Verb.READ_RUNS),
    "pause_backfill": _call(About.SCHEDULE, Verb.PAUSE),
    "resume_backfill": _call(About.SCHEDULE, Verb.RESUME),
    "cancel_backfill": _call(About.SCHEDULE, Verb.CANCEL),
    # What was, and why.
    "stats": _call(About.FILTER, Verb.READ_HISTORY),
    "hourly_outcomes": _call(About.ALL, Verb.READ_HISTORY),
    "transitions": _call(About.RUN, Verb.READ_HISTORY),
    "run_logs": _call(About.RUN, Verb.READ_LOGS),
    "why": _call(About.SCHEDULE, Verb.READ_HISTORY),
    "why_run": _call(About.RUN, Verb.READ_HISTORY),
    "archive": _call(About.FILTER, Verb.READ_ARCHIVE),
    "audit": _call(About.ALL, Verb.READ_AUDIT),
    "verify_audit": _call(About.ALL, Verb.READ_AUDIT),
    "resend": _call(About.INSTALLATION, Verb.RESEND),
    "rebuild_history": _call(About.INSTALLATION, Verb.REBUILD_HISTORY),
    "list_application_versions": _call(About.SOME, Verb.READ_INSTALLATION),
    "get_latest_application_version": _call(About.SOME, Verb.READ_INSTALLATION),
    "set_latest_application_version": _call(About.INSTALLATION, Verb.SET_VERSION),
    "retire_application_version": _call(About.INSTALLATION, Verb.SET_VERSION),
    "reassign_run": _call(About.RUN, Verb.RETRY),
    # The tenant, and what all tenants share.
    "freeze": _call(About.ALL, Verb.FREEZE),
    "thaw": _call(About.ALL, Verb.FREEZE),
    "frozen": _call(About.SOME, Verb.READ_SCHEDULES),
    "holds": _call(About.SOME, Verb.READ_SCHEDULES),
    "ticker": _call(About.SOME, Verb.READ_INSTALLATION),
    "jobs": _call(About.SOME, Verb.READ_INSTALLATION),
    "queues": _call(About.SOME, Verb.READ_INSTALLATION),
    "workers": _call(About.SOME, Verb.READ_INSTALLATION, when="their runs with `read-runs`"),
}
OF_TENANTS: Mapping[str, Call] = {
    "get": _call(About.ALL, Verb.READ_TENANT),
    "list": _call(About.INSTALLATION, Verb.READ_TENANT),
    "create": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "set": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "suspend": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "resume": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "count_erasure": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "erase": _call(About.INSTALLATION, Verb.MANAGE_TENANTS),
    "erasure": _call(About.ALL, Verb.READ_TENANT),
    "grant": _call(About.ALL, Verb.GRANT),
    "revoke": _call(About.ALL, Verb.GRANT),
    "check_operator": _call(About.INSTALLATION, Verb.READ_TENANT),
    "breakers": _call(About.ALL, Verb.READ_TENANT),
    "reset_breaker": _call(About.ALL, Verb.MANAGE_TENANTS),
    "create_key": _call(About.ALL, Verb.GRANT),
    "keys": _call(About.ALL, Verb.READ_TENANT),
    "figures": _call(About.ALL, Verb.READ_TENANT),
    "revoke_key": _call(About.ALL, Verb.GRANT),
    "secrets": _call(About.ALL, Verb.SECRETS),
    "set_secret": _call(About.ALL, Verb.SECRETS),
    "delete_secret": _call(About.ALL, Verb.SECRETS),
    "dump": _call(About.ALL, Verb.DUMP),
    "load": _call(About.INSTALLATION, Verb.LOAD),
    "end_schedules": _call(About.ALL, Verb.PAUSE, when="`resume` to undo"),
}
FREE = frozenset(
    {"acting_as", "strictly", "tenant", "with_caller", "with_tenant"}
)  # they make a copy, and ask for nothing
