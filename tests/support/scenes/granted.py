"""An installation with two tenants whose callers need grants, and one call of every method of ``Scheduler`` for a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Grant, Registry, Scheduler, Submission, Tenants
from quarterjack.apply.plan import ApplyAction, ApplyPlan, PlannedChange
from quarterjack.declare import declaration
from quarterjack.domain.names import callback_token
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION, TenantProfile, TenantState
from quarterjack.errors import Forbidden, QuarterjackError
from quarterjack.pipelines import Pipeline, pipeline
from quarterjack.sdk.call_verbs import BULK_RUN_VERBS
from quarterjack.stores.tables import AUDIT, TENANTS
from quarterjack.testing import ManualClock, Memory

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
CALLER = "iam:arn:aws:sts::111111111111:assumed-role/app/session"
OTHER = "iam:arn:aws:sts::111111111111:assumed-role/other/session"
OWN, FOREIGN = "acme", "globex"
GRANTED, REFUSED = "report.daily", "refund.pay"  # jobs: grants to `report.*` cover the first
LIMIT = "report.*"


def registry() -> Registry:
    jobs = Registry()

    def work(ctx: Context, payload: object) -> None: ...

    for name in (GRANTED, REFUSED):
        jobs.job(name)(work)
    return jobs


@dataclass(frozen=True)
class Things:
    """What there is of one job of one tenant."""

    job: str
    name: str  # of its schedule
    run: str  # id of a one-off that waits
    backfill: str = "0"


class Installation:
    """In memory. Nobody needs a grant until ``grant`` was called."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.memory = Memory(self.clock)
        self.things: dict[tuple[str, str], Things] = {}
        for tenant in (OWN, FOREIGN):
            maker = self.scheduler(tenant, OTHER)
            for job in (GRANTED, REFUSED):
                name = job.replace(".", "-")
                maker.create_schedule(name, job, "0 9 * * *", payload={"secret": 7})
                run = maker.submit(job, {"secret": 7}, delay=9_000)
                self.things[tenant, job] = Things(job=job, name=name, run=run.id)
        self.services = replace(self.memory.connect(), identity=lambda: CALLER)

    def scheduler(self, tenant: str = OWN, identity: str = CALLER) -> Scheduler:
        services = replace(self.memory.connect(), identity=lambda: identity)
        return Scheduler(tenant, jobs=registry(), services=services, clock=self.clock)

    def caller(self, tenant: str = OWN) -> Scheduler:
        """One that goes by the profiles at once: they were put by its own process."""
        return Scheduler(tenant, jobs=registry(), services=self.services, clock=self.clock)

    def tenants(self) -> Tenants:
        return Tenants(services=self.services, clock=self.clock)

    def grant(self, tenant: str, *grants: Grant) -> None:
        """Replace the grants of a tenant, or of the installation. The foreign tenant's own are somebody else's."""
        store = self.services.tenants
        present = store.profile(tenant) or TenantProfile(tenant=tenant)
        assert store.put(replace(present, grants=tuple(grants)), expected=present.version)

    def put_state(self, tenant: str, state: TenantState) -> None:
        """Put a tenant into a state, as its operators do, or its erasure."""
        store = self.services.tenants
        present = store.profile(tenant) or TenantProfile(tenant=tenant)
        assert store.put(replace(present, state=state), expected=present.version)

    def close(self) -> None:
        """Both tenants have an admin who is not the caller."""
        for tenant in (OWN, FOREIGN):
            self.grant(tenant, Grant(to=OTHER, can=("admin",)))

    def rows(self) -> dict[str, list[Any]]:
        """All rows but those of the audit and of the registry."""
        content = self.memory._tables
        return {str(table): [*map(repr, content[table])] for table in content if table not in (AUDIT, TENANTS)}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def plan_of(act: ApplyAction, of: Things) -> ApplyPlan:
    name = of.name if act is not ApplyAction.CREATE else f"new-{of.name}"
    declared = (
        None if act is ApplyAction.PRUNE else declaration(place="test", name=name, job=of.job, expression="0 8 * * *")
    )
    revision = None if act is ApplyAction.CREATE else 1
    change = PlannedChange(name=name, act=act, revision=revision, declaration=declared, job=of.job)
    return ApplyPlan(managed_by="me", changes=[change])


def pipeline_of(of: Things) -> Pipeline:
    made = pipeline(f"pipeline-{of.name}", registry=registry())
    made.task(of.job, name="task")
    return made


Act = Callable[[Scheduler, Things], object]


@dataclass(frozen=True)
class Case:
    """One call of a method, and the verbs that it needs."""

    method: str
    needs: frozenset[Verb]
    act: Act
    about_job: bool = True  # False: it concerns all jobs, or none


def case(method: str, needs: Verb | Sequence[Verb], act: Act, *, about_job: bool = True) -> Case:
    return Case(method, frozenset([needs] if isinstance(needs, Verb) else needs), act, about_job)


V = Verb
HOUR = (at(-3_600), at(0))
DECLARED = (ApplyAction.CREATE, V.CREATE), (ApplyAction.UPDATE, V.UPDATE), (ApplyAction.PRUNE, V.DELETE)
ACTIONS: tuple[tuple[Any, Verb, dict[str, Any]], ...] = (
    ("pause", V.PAUSE, {}),
    ("resume", V.RESUME, {}),
    ("delete", V.DELETE, {}),
    ("retag", V.UPDATE, {"tags": {"a": "b"}}),
    ("trigger", V.TRIGGER, {}),
)


def carried_out(act: ApplyAction) -> Act:
    return lambda on, of: on.carry_out(plan_of(act, of), prune=True)


def bulk(action: Any, words: dict[str, Any], **more: Any) -> Act:
    return lambda on, of: on.bulk(action, **({"job": of.job} | more | words))


def run_bulk(action: Any, *, job: bool, **more: Any) -> Act:
    words = more | {"reassign": {"version": "1"}, "requeue": {"to_priority": "low"}}.get(action, {})
    return lambda on, of: on.bulk_runs(action, job=of.job if job else None, **words)


CASES: tuple[Case, ...] = (
    case("create_schedule", V.CREATE, lambda on, of: on.create_schedule(f"new-{of.name}", of.job, "0 9 * * *")),
    case("upsert_schedule", V.CREATE, lambda on, of: on.upsert_schedule(f"new-{of.name}", of.job, "0 9 * * *")),
    case(
        "upsert_schedule", V.UPDATE, lambda on, of: on.upsert_schedule(of.name, of.job, "0 7 * * *", keep_payload=True)
    ),
    case("update_schedule", V.UPDATE, lambda on, of: on.update_schedule(of.name, description="d")),
    case("pause_schedule", V.PAUSE, lambda on, of: on.pause_schedule(of.name)),
    case("resume_schedule", V.RESUME, lambda on, of: on.resume_schedule(of.name)),
    case("delete_schedule", V.DELETE, lambda on, of: on.delete_schedule(of.name)),
    case("skip_next", V.SKIP, lambda on, of: on.skip_next(of.name)),
    case("get_schedule", V.READ_SCHEDULES, lambda on, of: on.get_schedule(of.name)),
    case("describe_schedule", V.READ_SCHEDULES, lambda on, of: on.describe_schedule(of.name)),
    case("preview", V.PREVIEW, lambda on, of: on.preview(of.name)),
    case("list_schedules", V.READ_SCHEDULES, lambda on, of: on.list_schedules(job=of.job)),
    case("list_schedules", V.READ_SCHEDULES, lambda on, _: on.list_schedules(), about_job=False),
    case("forecast", V.READ_SCHEDULES, lambda on, of: on.forecast(job=of.job)),
    case("forecast", V.READ_SCHEDULES, lambda on, _: on.forecast(), about_job=False),
    *(case("bulk", verb, bulk(action, words)) for action, verb, words in ACTIONS),
    *(case("bulk", verb, bulk(action, words, dry_run=True)) for action, verb, words in ACTIONS),
    *(
        case("bulk", verb, bulk(action, words, job=None, prefix="r"), about_job=False)
        for action, verb, words in ACTIONS
    ),
    *(case("carry_out", verb, carried_out(act)) for act, verb in DECLARED),
    case("submit", V.SUBMIT, lambda on, of: on.submit(of.job, delay=60)),
    case("submit_all", V.SUBMIT, lambda on, of: on.submit_all([Submission(of.job, delay=60)], on_end=of.job)),
    case("trigger", V.TRIGGER, lambda on, of: on.trigger(of.name)),
    case("get_run", V.READ_RUNS, lambda on, of: on.get_run(of.run)),
    case("wait_for", V.READ_RUNS, lambda on, of: on.wait_for(of.run, timeout=0.001)),
    case("list_runs", V.READ_RUNS, lambda on, of: on.list_runs(of.name)),
    case("list_runs", V.READ_RUNS, lambda on, of: on.list_runs(of.name, failed=True)),
    case("list_runs", V.READ_RUNS, lambda on, of: on.list_runs(job=of.job)),
    case("list_runs", V.READ_RUNS, lambda on, of: on.list_runs(job=of.job, state="RUNNING")),
    case("list_runs", V.READ_RUNS, lambda on, _: on.list_runs(), about_job=False),
    case("list_running", V.READ_RUNS, lambda on, _: on.list_running(), about_job=False),
    case("cancel_run", V.CANCEL, lambda on, of: on.cancel_run(of.run)),
    case("cancel_runs", V.CANCEL, lambda on, of: on.cancel_runs(of.name, between=HOUR)),
    case("retry_run", V.RETRY, lambda on, of: on.retry_run(of.run)),
    case("signal", V.SIGNAL, lambda on, of: on.signal(of.run, "go")),
    case(
        "signal_link", V.SIGNAL, lambda on, of: on.signal_link(of.run, "go", to="ada", base="https://jobs.example.com")
    ),
    case("list_links", V.READ_RUNS, lambda on, of: on.list_links(of.run)),
    case("revoke_link", V.SIGNAL, lambda on, of: on.revoke_link(of.run, "0" * 12)),
    case("complete", V.SIGNAL, lambda on, of: on.complete(callback_token(of.run, "go"))),
    case("fail", V.SIGNAL, lambda on, of: on.fail(callback_token(of.run, "go"), "no")),
    case("heartbeat", V.SIGNAL, lambda on, of: on.heartbeat(callback_token(of.run, "go"))),
    case("reschedule", V.RESCHEDULE, lambda on, of: on.reschedule(of.run, delay=90)),
    case("requeue", V.RESCHEDULE, lambda on, of: on.requeue(of.run, priority="low")),
    case("replay_run", V.REPLAY, lambda on, of: on.replay_run(of.run)),
    case("reassign_run", V.RETRY, lambda on, of: on.reassign_run(of.run, "1")),
    case(
        "list_application_versions", V.READ_INSTALLATION, lambda on, _: on.list_application_versions(), about_job=False
    ),
    case(
        "get_latest_application_version",
        V.READ_INSTALLATION,
        lambda on, _: on.get_latest_application_version(),
        about_job=False,
    ),
    case("upsert_pipeline", (V.CREATE, V.SUBMIT), lambda on, of: on.upsert_pipeline(pipeline_of(of)), about_job=False),
    case("list_pipelines", V.READ_SCHEDULES, lambda on, _: on.list_pipelines(), about_job=False),
    case("pipeline_run", V.READ_RUNS, lambda on, of: on.pipeline_run(of.run)),
    case("task_stats", V.READ_RUNS, lambda on, of: on.task_stats(of.name)),
    case("skip_task", V.SKIP, lambda on, of: on.skip_task(of.run, "task")),
    case("retry_pipeline", V.REPLAY, lambda on, of: on.retry_pipeline(of.run)),
    case("list_dead", V.READ_RUNS, lambda on, of: on.list_dead(job=of.job)),
    case("list_dead", V.READ_RUNS, lambda on, _: on.list_dead(), about_job=False),
    case("redrive", V.REDRIVE, lambda on, of: on.redrive(of.run)),
    case("redrive", V.REDRIVE, lambda on, of: on.redrive(job=of.job)),
    case("redrive", V.REDRIVE, lambda on, of: on.redrive(schedule=of.name, dry_run=True), about_job=False),
    *(
        case("bulk_runs", (V.READ_RUNS, verb), run_bulk(action, job=True, dry_run=dry))
        for action, verb in BULK_RUN_VERBS.items()
        for dry in (False, True)
    ),
    *(
        case("bulk_runs", (V.READ_RUNS, verb), run_bulk(action, job=False, tag="team"), about_job=False)
        for action, verb in BULK_RUN_VERBS.items()
    ),
    case("purge", V.PURGE, lambda on, of: on.purge(of.run)),
    case("purge", V.PURGE, lambda on, of: on.purge(job=of.job)),
    case("purge", V.PURGE, lambda on, of: on.purge(schedule=of.name), about_job=False),
    case("backfill", V.BACKFILL, lambda on, of: on.backfill(of.name, *HOUR, current=True)),
    case("get_backfill", V.READ_RUNS, lambda on, of: on.get_backfill(of.name, of.backfill)),
    case("list_backfills", V.READ_RUNS, lambda on, of: on.list_backfills(of.name)),
    case("backfills", V.READ_RUNS, lambda on, _: on.backfills(), about_job=False),
    case("backfill_runs", V.READ_RUNS, lambda on, of: on.backfill_runs(of.name, of.backfill)),
    case("pause_backfill", V.PAUSE, lambda on, of: on.pause_backfill(of.name, of.backfill)),
    case("resume_backfill", V.RESUME, lambda on, of: on.resume_backfill(of.name, of.backfill)),
    case("cancel_backfill", V.CANCEL, lambda on, of: on.cancel_backfill(of.name, of.backfill)),
    case("stats", V.READ_HISTORY, lambda on, of: on.stats(job=of.job)),
    case("stats", V.READ_HISTORY, lambda on, _: on.stats(), about_job=False),
    case("transitions", V.READ_HISTORY, lambda on, of: on.transitions(of.run)),
    case("run_logs", V.READ_LOGS, lambda on, of: on.run_logs(of.run)),
    case("why", V.READ_HISTORY, lambda on, of: on.why(of.name, at(0))),
    case("why_run", V.READ_HISTORY, lambda on, of: on.why_run(of.run)),
    case("archive", V.READ_ARCHIVE, lambda on, of: list(on.archive(since=at(-60), job=of.job))),
    case("archive", V.READ_ARCHIVE, lambda on, _: list(on.archive(since=at(-60))), about_job=False),
    case("audit", V.READ_AUDIT, lambda on, _: on.audit(), about_job=False),
    case("verify_audit", V.READ_AUDIT, lambda on, _: on.verify_audit(), about_job=False),
    case("freeze", V.FREEZE, lambda on, _: on.freeze(at(60)), about_job=False),
    case("thaw", V.FREEZE, lambda on, _: on.thaw(), about_job=False),
    # Some job is enough.
    case("holds", V.READ_SCHEDULES, lambda on, _: on.holds(), about_job=False),
    case("ticker", V.READ_INSTALLATION, lambda on, _: on.ticker(), about_job=False),
    case("hourly_outcomes", V.READ_HISTORY, lambda on, _: on.hourly_outcomes(), about_job=False),
    case("last_runs", V.READ_RUNS, lambda on, of: on.last_runs([of.name]), about_job=False),
    case("frozen", V.READ_SCHEDULES, lambda on, _: on.frozen(), about_job=False),
    case("jobs", V.READ_INSTALLATION, lambda on, _: on.jobs(), about_job=False),
    case("queues", V.READ_INSTALLATION, lambda on, _: on.queues(), about_job=False),
    case("workers", V.READ_INSTALLATION, lambda on, _: on.workers(), about_job=False),
    case(
        "compare_declared", [V.READ_SCHEDULES, V.READ_PAYLOADS], lambda on, _: on.compare_declared([]), about_job=False
    ),
    case(
        "compare_schedule",
        [V.READ_SCHEDULES, V.READ_PAYLOADS],
        lambda on, of: on.compare_schedule(declaration(place="test", name=of.name, job=of.job, expression="0 8 * * *")),
    ),
    case("export_declared", [V.READ_SCHEDULES, V.READ_PAYLOADS], lambda on, _: on.export_declared(), about_job=False),
)
OF_INSTALLATION: tuple[Case, ...] = (
    case("resend", V.RESEND, lambda on, _: on.resend(dry_run=True), about_job=False),
    case(
        "set_latest_application_version",
        V.SET_VERSION,
        lambda on, _: on.set_latest_application_version("1"),
        about_job=False,
    ),
    case(
        "retire_application_version",
        V.SET_VERSION,
        lambda on, _: on.retire_application_version("1", to="2"),
        about_job=False,
    ),
    case("rebuild_history", V.REBUILD_HISTORY, lambda on, _: on.rebuild_history(since=at(-60)), about_job=False),
    case("list_runs", V.READ_RUNS, lambda on, of: on.list_runs(job=of.job, all_tenants=True), about_job=False),
    case("list_running", V.READ_RUNS, lambda on, _: on.list_running(all_tenants=True), about_job=False),
)


def is_refused(call: Callable[..., object], *arguments: object) -> Forbidden | None:
    """The refusal for want of a grant. Whatever else a call raises, it was let in."""
    try:
        call(*arguments)
    except Forbidden as problem:
        return problem
    except QuarterjackError:
        pass
    return None


__all__ = ["CASES", "INSTALLATION", "OF_INSTALLATION", "Case", "Installation", "Things", "is_refused"]
