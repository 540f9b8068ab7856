"""The faults of the scenes: each begins one, and returns what ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quarterjack import Context, Retry, Tenants
from quarterjack.auditor.log_closing import ClosingReport, close_days
from quarterjack.daemon import auditor_hour
from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.errors import Misconfigured
from quarterjack.owner.app_versions import register
from quarterjack.testing import Hook

from tests.support.nights import faults
from tests.support.nights.night import PREFIX, Night

Cure = Callable[[], object]


def asleep(*roles: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        night.asleep |= set(roles)
        return night.asleep.clear

    return fault


def without_rights(role: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        faults.without_rights(night, role)
        return lambda: faults.healed(night)

    return fault


def short(role: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        night.short.add(role)
        return night.short.clear

    return fault


def throttled(table: str) -> Callable[[Night], Cure]:
    def fault(night: Night) -> Cure:
        faults.throttled(night, table)
        return lambda: faults.healed(night)

    return fault


def killed_for_good(night: Night) -> Cure:
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


def killed_at_first(night: Night) -> Cure:
    """A job that needs so much memory at its first attempt that its process is killed."""
    faults.killed(night, "worker-gpu", first_only=True)
    return night.instead.clear


def poisoned(night: Night) -> Cure:
    """The stored definition of a schedule is damaged."""
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


def schedules(job: str, number: int, **options: Any) -> Callable[[Night], None]:
    def before(night: Night) -> None:
        for count in range(number):
            night.schedule(f"{job}{count}", job, **options)

    return before


def fails(job: str, attempts: int, number: int, **options: Any) -> Callable[[Night], Cure]:
    """A job of so many schedules that begins to fail."""

    def fault(night: Night) -> Cure:
        broken = Broken()
        retry = Retry(max_attempts=attempts, base=120.0, backoff="fixed", jitter=0.0)
        night.job(job, broken, retry=retry)
        schedules(job, number, **options)(night)
        return broken.mend

    return fault


def breaks(night: Night) -> Cure:
    """A job of a tenant with circuit breakers fails at once, whatever is tried."""
    Tenants(services=night.memory.connect(), clock=night.clock).set(
        night.scheduler.tenant, limits={"breaker_percent": 90}
    )
    return fails("breaks", 1, 10, catch_up="none")(night)


def without_worker(night: Night) -> None:
    """A version is made the latest, and its workers are not deployed. Nothing but the page's commands ends it."""
    night.patch.setenv("QUARTERJACK_APP_VERSION", "8")
    for name in ("8", "9"):
        register(name, 1.0, night.memory.connect(), night.clock())
    night.job("bound", lambda ctx, payload: None, version="assigned")
    night.schedule("bound", "bound")


def slow(night: Night) -> Cure:
    """A job that takes 40 s from now on."""
    slow = {"seconds": 40.0}
    night.job("slow", lambda ctx, payload: night.passes(slow["seconds"]), queue="reports")
    night.schedule("slow", "slow")
    return lambda: slow.update(seconds=1.0)


def crowd(night: Night) -> Cure:
    """More runs are due in a minute than a worker takes at once, and each takes a while."""
    lasts = {"seconds": 0.4}
    night.job("crowd", lambda ctx, payload: night.passes(lasts["seconds"]))
    for count in range(25):
        night.schedule(f"crowd{count}", "crowd")
    return lambda: lasts.update(seconds=0.0)


class MayNotSend(Hook):
    """An application that may schedule and not send."""

    def before_call(self, operation: str, detail: object) -> tuple[int, ...]:
        if operation == "SendMessageBatch":
            raise Misconfigured("SendMessage: AccessDenied; allow sqs:SendMessage")
        return ()


def may_not_send(night: Night) -> Cure:
    """An application that submits runs for now loses the right to send: the next tick sends them, late."""
    night.hooks["owner"] = MayNotSend()
    applications = [night.owner()]
    night.habits.append(lambda: [applications[-1].submit("note") for _ in range(5)])

    def given_back() -> None:
        night.hooks.clear()
        applications.append(night.owner())

    return given_back


def squeezed(night: Night) -> Cure:
    """Lambda refuses some invocations of the worker."""
    night.squeezed.add("worker")
    return night.squeezed.clear


def of_aws(name: str, value: float, **dimension: str) -> Callable[[Night], Cure]:
    """A figure of a part that an installation in memory does not have."""

    def fault(night: Night) -> Cure:
        ((of, part),) = dimension.items()
        namespace = "AWS/SQS" if of == "QueueName" else "AWS/Lambda"
        night.of_aws[namespace, name, ((of, f"{PREFIX}-{part}"),)] = value
        return night.of_aws.clear

    return fault


def of_ours(name: str, part: str) -> Callable[[Night], Cure]:
    """A metric of ours that no fault of a night in memory makes."""

    def fault(night: Night) -> Cure:
        night.of_aws["Quarterjack", name, (("service", f"{PREFIX}-{part}"),)] = 1
        return night.of_aws.clear

    return fault


def grows(queue: str, by: int) -> Callable[[Night], Cure]:
    """So many more messages wait in each minute than workers take; those that start are in time."""

    def fault(night: Night) -> Cure:
        night.rising["AWS/SQS", "ApproximateNumberOfMessagesVisible", (("QueueName", f"{PREFIX}-{queue}"),)] = by
        return night.rising.clear

    return fault


def letters_wait(night: Night) -> Cure:
    night.asleep.add("undertaker")
    night.schedule("bad", "bad")
    return night.asleep.clear


def garbage(night: Night) -> None:
    night.memory.work.put("{}")


def of_nobody(night: Night) -> None:
    ref = RunRef("acme/~nobody", "once")
    night.memory.work.put(Message(run=ref, revision=0, not_before=night.clock()).encode())


def expires(night: Night) -> Cure:
    """Workers are away for three minutes, and runs have a deadline of one."""
    night.schedule("urgent", "report", deadline=60)
    night.live(20)
    night.asleep.add("worker-reports")
    night.live(3)
    night.asleep.clear()
    return lambda: None


def is_lost(night: Night) -> Cure:
    night.job("once", lambda ctx, payload: None, delivery="at_most_once", queue="gpu")
    night.scheduler.pause_schedule("g")
    night.schedule("once", "once")
    night.live(15)
    faults.killed(night, "worker-gpu", times=1)
    return lambda: None


def contradicted(night: Night) -> Cure:
    """The audit finds a close that differs."""

    night.patch.setattr(auditor_hour, "close_days", lambda *given, **named: ClosingReport(contradicted=1))
    return lambda: night.patch.setattr(auditor_hour, "close_days", close_days)
