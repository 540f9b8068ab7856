"""Checks of the tenant's profile, and of a sample of its active schedules: agenda entries, failures, and the jobs that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from quarterjack.doctor.context import DoctorContext, Finding, at_once, fail, ok, warn
from quarterjack.domain.job_catalogue import JobCatalogue, nearest
from quarterjack.domain.names import is_builtin
from quarterjack.domain.queue import declared_name
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import KIND, grant_command, job_problem
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput, QuarterjackError, Unreadable
from quarterjack.isolation import modules_of, report_of
from quarterjack.job_packages import load
from quarterjack.jobs import default_registry
from quarterjack.owner.catalogue import read_catalogue
from quarterjack.owner.schedules.chain_health import ChainHealth, check_chain


def tenant(context: DoctorContext) -> Iterator[Finding]:
    """One finding: what holds for the tenant. One read of two profiles."""
    if "tenants" not in context.tables:
        return
    name = context.settings.tenant
    try:
        governance = context.services.tenants.governance(name, context.clock())
    except Unreadable as problem:
        yield fail(
            f"no run of tenant {name} starts: {problem}",
            "finish the deployment if it is of a later release; else correct or remove the item by hand",
        )
        return
    profile = governance.profile
    if profile.is_erased:
        yield warn(f"tenant {name} is {profile.state}: nothing is accepted or started", "use another tenant's name")
    elif not profile.accepts:
        why = f": {profile.suspension_reason}" if profile.suspension_reason else ""
        yield warn(
            f"tenant {name} is suspended{why}: nothing is accepted or started",
            f"`quarterjack tenants resume {name}` ends it",
        )
    elif profile.queue is not None and declared_name(profile.queue) not in (None, *context.services.work.names()):
        yield fail(
            f"queue={profile.queue!r} of the profile of tenant {name}, its tier or the installation does not exist: "
            "work for which neither job nor caller names a queue is refused",
            f"`quarterjack tenants set {name} --queue …` names another, or declare it beside its jobs and deploy",
        )
    elif governance.own is None:
        yield ok(f"tenant {name} has no profile: the defaults of the installation hold")
    else:
        yield ok(f"tenant {name} is served")


_FIRST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_NAMED = 10  # schedules


def chains(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the sample: the schedules whose next fire is not in the agenda. A few reads each."""
    if not {"schedules", "revisions", "agenda", "runs"} <= context.tables:
        return
    context.active = [head for head in _sample(context) if head.state is ScheduleState.ACTIVE]
    found = at_once(partial(_is_missing, context), context.active)
    missing = [head for head, is_missing in zip(context.active, found, strict=True) if is_missing]
    missing = [head for head in missing if _is_unchanged(context, head) and _is_missing(context, head)]
    if missing:
        yield fail(
            f"{_some(context, missing)} have no entry in the agenda: {_names(missing)}",
            "run `quarterjack audit`: it arms them again and claims what was missed",
        )
    else:
        yield ok(f"{len(context.active)} active schedules of {context.settings.tenant} checked: each has its entry")


def incidents(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the same sample: the schedules that fail. Reads nothing more."""
    wrong = [head for head in context.active if head.incident is not None]
    if wrong:
        yield warn(
            f"{_some(context, wrong)} fail, or had no success in time: {_names(wrong)}",
            "`quarterjack schedules list --failing` shows all of them, `quarterjack dead list` what failed",
        )
    elif context.active:
        yield ok(f"{len(context.active)} active schedules checked: none fails")


def _some(context: DoctorContext, heads: Sequence[Head]) -> str:
    return f"{len(heads)} of {len(context.active)} active schedules"


def _names(heads: Sequence[Head]) -> str:
    return ", ".join(head.name for head in heads[:_NAMED])


def _sample(context: DoctorContext) -> Sequence[Head]:
    """Heads from a random name on, continued from the first name if there are too few."""
    page, tenant, most = context.services.schedules.page, context.settings.tenant, context.sample
    first = page(tenant, prefix="", limit=most, cursor=None)
    context.unread += first.unread.values()
    if first.cursor is None:
        return list(first.items)
    later = page(tenant, prefix="", limit=most, cursor=context.chance.choice(_FIRST))
    context.unread += later.unread.values()
    return list({head.name: head for head in (*later.items, *first.items)}.values())[:most]


def _is_missing(context: DoctorContext, head: Head) -> bool:
    key = (head.owner, head.revision)
    answer = context.services.schedules.revisions([key])
    context.unread += answer.broken.values()
    revision = answer.found.get(key)
    if revision is None or revision.active_until is not None:
        return False  # a change is in progress
    try:
        return check_chain(head, revision, context.services, context.clock).health is ChainHealth.MISSING
    except InvalidInput:  # its fires cannot be computed here, e.g. a calendar that is not installed
        return False


def _is_unchanged(context: DoctorContext, head: Head) -> bool:
    """Whether the head is unchanged: the schedule may have advanced during the check."""
    present = context.services.schedules.head(head.tenant, head.name)
    return present is not None and present.version == head.version


def jobs(context: DoctorContext) -> Iterator[Finding]:
    """One finding a package that fails, and one for the jobs that the sampled schedules name and no worker or package has."""
    loaded = 0
    for package in context.packages:
        try:
            load(package, default_registry)
        except QuarterjackError as problem:
            yield fail(str(problem), "run this where the package is installed, or in the directory that it lies in")
        except Exception as problem:  # noqa: BLE001 (it is the user's code)
            yield fail(f"{package}: {type(problem).__name__}: {problem}", "fix the package: no worker can load it")
        else:
            loaded += 1
    if loaded < len(context.packages):
        return
    declared = set(default_registry.names()) if loaded else set[str]()
    catalogue = read_catalogue(context.services, context.clock()) if "runs" in context.tables else JobCatalogue()
    if not loaded and not catalogue:
        return  # no worker has published its jobs, so the answer is not known
    known = declared | catalogue.entries.keys()
    wanted = {head.job: head for head in reversed(context.active) if not is_builtin(head.job)}
    unknown = sorted(wanted.keys() - known)
    if unknown:
        named = "; ".join(f"{job!r} (schedule {wanted[job].name}): {nearest(job, known)}" for job in unknown[:_NAMED])
        yield warn(
            f"active schedules name jobs that no worker has ever known: {named}",
            "declare them and deploy the worker that knows them, or change the schedules: their runs end DEAD",
        )
    stale = sorted(job for job in wanted.keys() - declared if catalogue.is_stale(job))
    if stale:
        named = ", ".join(f"{job!r} since {from_ms(catalogue.entries[job].seen_at):%Y-%m-%d}" for job in stale[:_NAMED])
        yield warn(
            f"active schedules name jobs that no worker has named for a week, although others have spoken: {named}",
            "see `quarterjack jobs list`: if their worker is gone, deploy it again or change the schedules",
        )
    if not unknown and not stale:
        packages = f"{', '.join(context.packages)}: " if context.packages else ""
        yield ok(f"{packages}{len(known)} jobs, those of {len(context.active)} active schedules among them")


def grants(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the same sample: the schedules whose jobs the tenant may not run. Reads its profile and the catalogue."""
    if not {"tenants", "runs"} <= context.tables or not context.active:
        return
    tenant, now = context.settings.tenant, context.clock()
    governance = context.services.tenants.governance(tenant, now)
    if governance.profile.jobs is None:
        return
    published = read_catalogue(context.services, now).entries
    named = {job for job, entry in published.items() if entry.job.by_name}
    named |= {job.name for job in default_registry if job.by_name}
    wanted = {head.job: head for head in reversed(context.active)}
    denied = sorted(job for job in wanted if job_problem(governance, job, by_name=job in named) is not None)
    if denied:
        some = "; ".join(f"{job!r} (schedule {wanted[job].name})" for job in denied[:_NAMED])
        yield warn(
            f"active schedules name jobs that tenant {tenant!r} may not run: {some}: their runs end DEAD",
            f"`{grant_command(tenant, denied[0])}` gives it; or pause the schedules, and redrive with --error-type {KIND} afterwards",
        )
    else:
        yield ok(f"tenant {tenant} may run all {len(wanted)} jobs of the active schedules checked")


def secrets(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each HTTP job that reads secrets from the environment."""
    for job in default_registry if context.packages else ():
        names = getattr(job.function, "env_secrets", ())
        if names:
            yield warn(
                f"job {job.name!r} reads secrets from variables ({', '.join(names)}): readers of a function's configuration can read them",
                "use Secret(parameter=...) or Secret(secret=...); outside of `quarterjack local` variables need allow_env_secrets=True",
            )


def isolation(context: DoctorContext) -> Iterator[Finding]:
    """Whether processes of isolated jobs can import their modules: one finding, or one for each module that cannot be imported."""
    modules = modules_of(default_registry) if context.packages else []
    if not modules:
        return
    try:
        report = report_of(modules)
    except OSError as problem:
        yield fail(
            f"the process that imports isolated jobs ({', '.join(modules)}) fails: {problem}",
            "find the module whose import ends or blocks its process, and fix it",
        )
        return
    for module, text in report.failed.items():
        what = f"{module} cannot be imported by a process of its own: {text}"
        yield fail(what, "fix the module: every attempt of its isolated jobs fails")
    if report.module is not None:
        yield warn(
            f"the import of {report.module} leaves {', '.join(report.left)}; so each isolated attempt imports its module again",
            "start threads and open connections when a job first needs them, not on import; "
            "for threads of numerical libraries, set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1",
        )
    elif not report.failed:
        yield ok(f"isolated jobs start from a process that has imported {', '.join(modules)}")
