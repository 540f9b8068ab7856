"""The scenes of the runbooks: a fault, the alarm that has to tell of it, in which time, and the command of its page that cures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from infra.alarms.specs import SPECS
from tests.support.nights import causes, faults
from tests.support.nights.causes import Cure
from tests.support.nights.night import Night

_BY_ID = {spec.id: spec for spec in SPECS}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One fault. Times in minutes."""

    name: str
    alarm: str  # the one that tells, without the prefix
    page: str  # the alarm's page
    fault: Callable[[Night], Cure | None]  # begins it; returns what ends it
    act: str = (
        ""  # the page's command that stands for the cure; "": the page's commands of Quarterjack cure it, or time does
    )
    knows: Mapping[str, str] = field(default_factory=dict)  # what stands for the places in the page's commands
    shows: int = 0  # from the fault to the begin of the first value beyond the alarm's threshold
    heals: int  # from the cure to the end
    lasts: int = 3  # from the alarm to the operator's first command
    follows: tuple[str, ...] = ()  # alarms that may go off after its end, as the page says
    before: Callable[[Night], None] = lambda night: None  # what the night is like
    hourly: bool = False  # it is of a function that is called once an hour

    @property
    def within(self) -> int:
        """From the fault to the alarm, as the reference says it of the alarm."""
        spec = _BY_ID[self.page]
        return self.shows + (spec.by_the_hour if self.hourly else spec).told_within


SCENES = (
    Scene(
        name="a worker process is killed and not started again",
        alarm="nothing-runs-gpu",
        page="nothing-runs",
        fault=causes.killed_for_good,
        act="quarterjack worker",
        shows=1,
        heals=7,
    ),
    Scene(
        name="a jobs package that cannot be imported",
        alarm="function-errors",
        page="function-errors",
        fault=faults.not_importable,
        act="cdk deploy",
        heals=8,
    ),
    Scene(
        name="an auditor without rights",
        alarm="function-errors",
        page="function-errors",
        fault=causes.without_rights("auditor"),
        act="cdk deploy",
        shows=32,
        heals=115,
        hourly=True,
    ),
    Scene(
        name="a ticker without rights",
        alarm="no-tick",
        page="no-tick",
        fault=causes.without_rights("ticker"),
        act="cdk deploy",
        heals=9,
    ),
    Scene(
        name="a queue without workers",
        alarm="nothing-runs-gpu",
        page="nothing-runs",
        fault=causes.asleep("worker-gpu"),
        act="quarterjack worker",
        heals=7,
    ),
    Scene(
        name="a table throttled for ten minutes",
        alarm="behind",
        page="behind",
        fault=causes.throttled("runs"),
        act="aws dynamodb update-table",
        shows=6,
        heals=8,
    ),
    Scene(
        name="a poisoned schedule",
        alarm="quarantined",
        page="quarantined",
        fault=causes.poisoned,
        act="aws dynamodb put-item",
        knows={"SCHEDULE": "a"},
        shows=18,
        heals=125,
    ),
    Scene(
        name="the ticker's clock is switched off",
        alarm="no-tick",
        page="no-tick",
        fault=causes.asleep("ticker"),
        act="cdk deploy",
        heals=9,
    ),
    Scene(
        name="somebody reserves no concurrency for the worker",
        alarm="nothing-runs",
        page="nothing-runs",
        fault=causes.short("worker"),
        act="aws lambda delete-function-concurrency",
        heals=7,
    ),
    Scene(
        name="a job kills its workers",
        alarm="rescued-leases-gpu",
        page="rescued-leases",
        fault=causes.killed_at_first,
        act="quarterjack schedules bulk pause",
        shows=1,
        heals=8,
    ),
    Scene(
        name="a release in which a job of many runs fails for good",
        alarm="dead-runs",
        page="dead-runs",
        fault=causes.fails("prices", 1, 14),
        act="cdk deploy",
        knows={"JOB": "prices"},
        shows=2,
        heals=12,
        before=causes.schedules("note", 20),
    ),
    Scene(
        name="a service that jobs need is down",
        alarm="failing-attempts",
        page="failing-attempts",
        fault=causes.fails("fetch", 9, 9),
        act="cdk deploy",
        shows=18,
        heals=35,
    ),
    Scene(
        name="a job of a tenant with circuit breakers fails",
        alarm="breaker-open",
        page="breaker-open",
        fault=causes.breaks,
        act="cdk deploy",
        knows={"JOB": "breaks"},
        follows=("late-starts",),
        shows=8,
        heals=25,
        before=causes.schedules("note", 20),
    ),
    Scene(
        name="a version gets all runs before it has a worker",
        alarm="version-unserved",
        page="version-unserved",
        fault=causes.without_worker,
        knows={"VERSION": "9", "OTHER": "8"},
        follows=("late-starts",),
        shows=1,
        heals=20,
    ),
    Scene(
        name="nobody receives from a low lane",
        alarm="priority-inversion",
        page="priority-inversion",
        fault=causes.of_aws("ApproximateNumberOfMessagesVisible", 5, QueueName="work-reports_low"),
        act="cdk deploy",
        heals=15,
    ),
    Scene(
        name="jobs become slow",
        alarm="slow-runs-reports",
        page="slow-runs",
        fault=causes.slow,
        act="quarterjack runs cancel",
        heals=10,
    ),
    Scene(
        name="letters wait",
        alarm="unburied",
        page="unburied",
        fault=causes.letters_wait,
        act="aws lambda update-event-source-mapping",
        shows=1,
        heals=6,
    ),
    Scene(
        name="no audit",
        alarm="no-audit",
        page="no-audit",
        fault=causes.asleep("auditor"),
        act="cdk deploy",
        heals=70,
    ),
    Scene(
        name="a close of the audit differs",
        alarm="audit-contradicted",
        page="audit-contradicted",
        fault=causes.contradicted,
        act="aws cloudtrail",
        shows=32,
        heals=75,
    ),
    Scene(
        name="a message that is not ours",
        alarm="unreadable",
        page="unreadable",
        fault=causes.garbage,
        heals=50,
    ),
    Scene(name="a message of nobody's run", alarm="rejected", page="rejected", fault=causes.of_nobody, heals=50),
    Scene(name="runs pass their deadline", alarm="expired", page="expired", fault=causes.expires, heals=50),
    Scene(
        name="an at-most-once run is lost", alarm="lost-ticker", page="lost", fault=causes.is_lost, shows=2, heals=50
    ),
    Scene(
        name="an application may not send",
        alarm="late-sends",
        page="late-sends",
        fault=causes.may_not_send,
        act="cdk deploy",
        shows=1,
        heals=40,
    ),
    Scene(
        name="a crowd of one minute",
        alarm="late-starts",
        page="late-starts",
        fault=causes.crowd,
        act="aws lambda update-event-source-mapping",
        shows=1,
        heals=45,
    ),
    Scene(
        name="an account whose functions are used up",
        alarm="throttled",
        page="throttled",
        fault=causes.squeezed,
        act="aws lambda delete-function-concurrency",
        heals=20,
    ),
    Scene(
        name="the historian fails",
        alarm="historian-errors",
        page="historian-errors",
        fault=causes.of_aws("Errors", 1, FunctionName="historian"),
        act="cdk deploy",
        heals=30,
    ),
    Scene(
        name="the historian is throttled",
        alarm="historian-behind",
        page="historian-behind",
        fault=causes.of_aws("IteratorAge", 4_000_000, FunctionName="historian"),
        act="aws lambda delete-function-concurrency",
        heals=30,
    ),
    Scene(
        name="a batch of changes was given up",
        alarm="historian-aside",
        page="historian-aside",
        fault=causes.of_aws("ApproximateNumberOfMessagesVisible", 1, QueueName="historian-aside"),
        act="aws sqs purge-queue",
        heals=20,
    ),
    Scene(
        name="a receiver of events does not answer",
        alarm="events-behind",
        page="events-behind",
        fault=causes.of_aws("IteratorAge", 4_000_000, FunctionName="events"),
        act="cdk deploy",
        heals=30,
    ),
    Scene(
        name="messages come faster than workers take them",
        alarm="backlog-grows",
        page="backlog-grows",
        fault=causes.grows("work", 600),
        act="aws lambda update-event-source-mapping",
        heals=8,
    ),
    Scene(
        name="a declared queue has too few workers",
        alarm="waiting",
        page="waiting",
        fault=causes.grows("work-reports", 1),
        act="aws lambda update-event-source-mapping",
        heals=12,
    ),
    Scene(
        name="a queue is full",
        alarm="held-back",
        page="held-back",
        fault=causes.of_ours("QueuesHeld", "ticker"),
        act="aws lambda update-event-source-mapping",
        heals=20,
    ),
    Scene(
        name="a change that a consumer cannot handle",
        alarm="historian-set-aside",
        page="historian-set-aside",
        fault=causes.of_ours("HistorianSetAside", "historian"),
        act="cdk deploy",
        heals=40,
    ),
    Scene(
        name="a receiver refuses single events",
        alarm="events-set-aside",
        page="events-set-aside",
        fault=causes.of_ours("EventsSetAside", "events"),
        act="cdk deploy",
        heals=40,
    ),
)
# Pages of incidents that have no alarm of their own; tests/nights/test_incidents.py plays them, and drills.
INCIDENTS = ("purged-queue", "disabled-key", "bad-deployment", "lost-region", "wrong-clock")
