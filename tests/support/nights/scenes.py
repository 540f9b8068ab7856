"""The scenes of the runbooks: a fault, the alarm that has to tell of it, in which time, and the command of its page that cures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from minutehand import Context, Retry
from minutehand.domain.message import Message
from minutehand.domain.names import RunRef
from minutehand.errors import Misconfigured
from minutehand.testing import Hook

from tests.support.nights import faults
from tests.support.nights.night import Night

Cure = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One fault. Times in minutes."""

    name: str
    alarm: str  # the one that tells, without the prefix
    page: str  # the alarm's page
    fault: Callable[[Night], Cure | None]  # begins it; returns what ends it
    act: str = ""  # the page's command that stands for the cure; "": the page's commands of Minutehand cure it, or time does
    knows: Mapping[str, str] = field(default_factory=dict)  # what stands for the places in the page's commands
    within: int  # from the fault to the alarm
    heals: int  # from the cure to the end
    before: Callable[[Night], None] = lambda night: None  # what the night is like


def _asleep(*roles: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        night.asleep |= set(roles)
        return night.asleep.clear

    return fault


def _without_rights(role: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        faults.without_rights(night, role)
        return lambda: faults.healed(night)

    return fault


def _short(role: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        night.short.add(role)
        return night.short.clear

    return fault


def _throttled(table: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        faults.throttled(night, table)
        return lambda: faults.healed(night)

    return fault


def _killed_for_good(night: Night) -> Cure:
    """A process is killed at work, and nobody starts another."""

    def killed_and_gone(queue: str | None) -> int | None:
        took = die(queue)
        if took:
            night.asleep.add("worker-gpu")
        return took

    def started() -> None:
        night.instead.clear()
        night.asleep.clear()

    faults.killed(night, "worker-gpu")
    die = night.instead["worker-gpu"]
    night.instead["worker-gpu"] = killed_and_gone
    return started


def _killed_at_first(night: Night) -> Cure:
    """A job that needs so much memory at its first attempt that its process is killed."""
    faults.killed(night, "worker-gpu", first_only=True)
    return night.instead.clear


def _poisoned(night: Night) -> Cure:
    return faults.poisoned(night, "a")


@dataclass
class Broken:
    """A job that fails while it is broken."""

    is_broken: bool = True

    def __call__(self, ctx: Context, payload: object) -> None:
        if self.is_broken:
            raise ValueError("the shop does not answer")

    def mend(self) -> None:
        self.is_broken = False


def _schedules(job: str, number: int, **options: object) -> Callable[[Night], None]:
    def before(night: Night) -> None:
        for count in range(number):
            night.schedule(f"{job}{count}", job, **options)

    return before


def _fails(job: str, attempts: int, number: int) -> Callable[[Night], Cure]:
    """A job of so many schedules that begins to fail."""

    def fault(night: Night) -> Cure:
        broken = Broken()
        retry = Retry(max_attempts=attempts, base=120.0, backoff="fixed", jitter=0.0)
        night.job(job, broken, retry=retry)
        _schedules(job, number)(night)
        return broken.mend

    return fault


def _slow(night: Night) -> Cure:
    """A job that takes 40 s from now on."""
    slow = [40.0]
    night.job("slow", lambda ctx, payload: night.passes(slow[0]), queue="reports")
    night.schedule("slow", "slow")
    return lambda: slow.clear() or slow.append(1.0)


def _crowd(night: Night) -> Cure:
    """Jobs of 1 s each, one after the other: the last of a crowd begin late."""
    lasts = [4.0]
    night.job("crowd", lambda ctx, payload: night.passes(lasts[0] / 10))
    for count in range(25):
        night.schedule(f"crowd{count}", "crowd")
    return lambda: lasts.clear() or lasts.append(0.0)


class MayNotSend(Hook):
    """An application that may schedule and not send."""

    def before_call(self, operation: str, detail: object) -> tuple[int, ...]:
        if operation == "SendMessageBatch":
            raise Misconfigured("SendMessage: AccessDenied; allow sqs:SendMessage")
        return ()


def _letters_wait(night: Night) -> Cure:
    night.asleep.add("undertaker")
    night.schedule("bad", "bad")
    return night.asleep.clear


def _garbage(night: Night) -> None:
    night.memory.work.put("{}")


def _of_nobody(night: Night) -> None:
    ref = RunRef("acme/~nobody", "once")
    night.memory.work.put(Message(run=ref, revision=0, not_before=night.clock()).encode())


def _expires(night: Night) -> Cure:
    """Workers are away for three minutes, and runs have a deadline of one."""
    night.schedule("urgent", "report", deadline=60)
    night.live(20)
    night.asleep.add("worker-reports")
    night.live(3)
    night.asleep.clear()
    return lambda: None


def _is_lost(night: Night) -> Cure:
    night.job("once", lambda ctx, payload: None, delivery="at_most_once", queue="gpu")
    night.scheduler.pause_schedule("g")
    night.schedule("once", "once")
    night.live(15)
    faults.killed(night, "worker-gpu", times=1)
    return lambda: None


def _contradicted(night: Night) -> Cure:
    """The audit finds a close that differs."""
    from minutehand.auditor.closing import ClosingReport  # noqa: PLC0415

    from functions.auditor import handler  # noqa: PLC0415

    real = handler.close_days
    night.patch.setattr(handler, "close_days", lambda *given, **named: ClosingReport(contradicted=1))
    return lambda: night.patch.setattr(handler, "close_days", real)


SIX = (
    Scene(
        name="a worker process is killed and not started again",
        alarm="nothing-runs-gpu",
        page="nothing-runs",
        fault=_killed_for_good,
        act="minutehand worker",
        within=9,
        heals=3,
    ),
    Scene(
        name="a jobs package that cannot be imported",
        alarm="function-errors-worker",
        page="function-errors",
        fault=faults.not_importable,
        act="cdk deploy",
        within=5,
        heals=6,
    ),
    Scene(
        name="a ticker without rights",
        alarm="no-tick",
        page="no-tick",
        fault=_without_rights("ticker"),
        act="cdk deploy",
        within=4,
        heals=6,
    ),
    Scene(
        name="a queue without workers",
        alarm="nothing-runs-gpu",
        page="nothing-runs",
        fault=_asleep("worker-gpu"),
        act="minutehand worker",
        within=7,
        heals=3,
    ),
    Scene(
        name="a table throttled for ten minutes",
        alarm="behind",
        page="behind",
        fault=_throttled("runs"),
        act="aws dynamodb update-table",
        within=14,
        heals=8,
    ),
    Scene(
        name="a poisoned schedule",
        alarm="quarantined",
        page="quarantined",
        fault=_poisoned,
        act="aws dynamodb put-item",
        knows={"SCHEDULE": "a"},
        within=24,
        heals=125,
    ),
)
OTHERS = (
    Scene(
        name="the ticker's clock is switched off",
        alarm="no-tick",
        page="no-tick",
        fault=_asleep("ticker"),
        act="cdk deploy",
        within=4,
        heals=6,
    ),
    Scene(
        name="somebody reserves no concurrency for the worker",
        alarm="nothing-runs",
        page="nothing-runs",
        fault=_short("worker"),
        act="aws lambda delete-function-concurrency",
        within=7,
        heals=3,
    ),
    Scene(
        name="a job kills its workers",
        alarm="rescued-leases-gpu",
        page="rescued-leases",
        fault=_killed_at_first,
        act="minutehand schedules bulk pause",
        within=9,
        heals=8,
    ),
    Scene(
        name="a release in which a job of many runs fails for good",
        alarm="dead-runs",
        page="dead-runs",
        fault=_fails("prices", 1, 14),
        act="cdk deploy",
        knows={"JOB": "prices"},
        within=14,
        heals=5,
    ),
    Scene(
        name="a service that jobs need is down",
        alarm="failing-attempts",
        page="failing-attempts",
        fault=_fails("fetch", 9, 9),
        act="cdk deploy",
        within=20,
        heals=35,
    ),
    Scene(name="jobs become slow", alarm="slow-runs-reports", page="slow-runs", fault=_slow, act="minutehand runs cancel", within=17, heals=7),
    Scene(
        name="letters wait",
        alarm="unburied",
        page="unburied",
        fault=_letters_wait,
        act="aws lambda update-event-source-mapping",
        within=9,
        heals=3,
    ),
    Scene(
        name="no audit", alarm="no-audit", page="no-audit", fault=_asleep("auditor"), act="cdk deploy", within=185, heals=70
    ),
    Scene(
        name="a close of the audit differs",
        alarm="audit-contradicted",
        page="audit-contradicted",
        fault=_contradicted,
        act="aws cloudtrail",
        within=70,
        heals=130,
    ),
    Scene(name="a message that is not ours", alarm="unreadable", page="unreadable", fault=_garbage, within=8, heals=10),
    Scene(name="a message of nobody's run", alarm="rejected", page="rejected", fault=_of_nobody, within=8, heals=10),
    Scene(name="runs pass their deadline", alarm="expired", page="expired", fault=_expires, within=40, heals=10),
    Scene(name="an at-most-once run is lost", alarm="lost", page="lost", fault=_is_lost, within=75, heals=10),
)
