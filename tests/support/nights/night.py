"""A night at virtual minutes: the real handlers over an installation in memory, and what CloudWatch would have of each minute.

    night = Night(patch)
    night.schedule("s", "note", "rate(1 minute)")
    night.live(minutes=30)
    night.minutes[-1].lines      # what the functions printed: embedded metric format
    night.minutes[-1].figures    # AWS's own metrics: ("AWS/Lambda", "Errors", (("FunctionName", "quarterjack-worker"),)) → 1.0

Every handler is called as Lambda calls it; what it raises is an error of its function. No thread waits for a virtual second.
"""

from __future__ import annotations

import io
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Services
from quarterjack.settings import DEFAULT_AGE, DEFAULT_DEPTH
from quarterjack.sqs.stripes import Stripe
from quarterjack.state.backpressure import Limits
from quarterjack.testing import Hook, ManualClock, Memory

from tests.support.nights.clocks import under

PREFIX = "quarterjack"
TEN_PM = datetime(2026, 11, 23, 22, 0, tzinfo=UTC)
_AUDIT_AT = 37  # minutes past the hour, as the stack's clock
_VISIBILITY = 900  # seconds for which Lambda hides a batch
_HABIT = 40 * SECOND
_MOST = 10_000  # batches of a minute: ends the test of a fault that no time heals

Dimensions = tuple[tuple[str, str], ...]
Figures = dict[tuple[str, str, Dimensions], float]  # by namespace, name, dimensions


@dataclass
class Minute:
    """What CloudWatch has of one minute."""

    at: datetime  # its begin
    lines: list[dict[str, Any]] = field(default_factory=list)
    figures: Figures = field(default_factory=dict)


class LambdaContext:
    """Of one invocation."""

    memory_limit_in_mb = 512
    log_stream_name = "2026/11/23/[$LATEST]0123456789abcdef0123456789abcdef"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def __init__(self, function: str) -> None:
        self.function_name = function
        self.invoked_function_arn = f"arn:aws:lambda:eu-west-1:123456789012:function:{function}"

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


class Night:
    """One installation, with a default queue, a queue `reports` of a function, and a queue `gpu` of worker processes.

    ``hooks`` are the faults by role: ticker, worker, worker-reports, worker-gpu, undertaker, auditor. ``asleep`` are roles that nobody
    calls, ``short`` those whose functions Lambda throttles. ``instead`` is what a worker does with its
    queue in place of working; None: it works.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, at: datetime = TEN_PM) -> None:
        patch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Quarterjack")
        patch.setenv("QUARTERJACK_PREFIX", PREFIX)
        self.patch, self.clock = patch, ManualClock(at)
        limits = Limits(depth=DEFAULT_DEPTH, age=DEFAULT_AGE * SECOND)
        self.memory = Memory(self.clock, shards=2, queues=("reports", "gpu"), limits=limits)
        self.jobs = Registry()
        self.jobs.job("note")(lambda ctx, payload: None)
        self.jobs.job("bad", retry=Retry(max_attempts=1))(_fails)
        self.jobs.queue("reports")
        self.jobs.queue("gpu", container=True)
        self.jobs.job("report", queue="reports")(lambda ctx, payload: None)
        self.jobs.job("train", queue="gpu")(lambda ctx, payload: None)
        self.import_jobs: Callable[[], Registry] = lambda: self.jobs
        self.hooks: dict[str, Hook] = {}
        self.asleep, self.short = set[str](), set[str]()
        self.instead: dict[str, Callable[[str | None], int | None]] = {}
        self.squeezed = set[str]()  # roles of which Lambda throttles some invocations
        self.habits: list[Callable[[], object]] = []  # what somebody does 40 s after each full minute
        self.of_aws: Figures = {}  # figures of parts that an installation in memory does not have
        self.rising: dict[tuple[str, str, Dimensions], float] = {}  # figures that rise by so much in each minute
        self.minutes: list[Minute] = []
        self.scheduler = self.owner()
        self._minute = Minute(at)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._errors: list[str] = []
        under(self.clock, patch)

    # What owners do.

    def owner(self) -> Scheduler:
        """An application, with the faults of the role `owner`."""
        return Scheduler("acme", jobs=self.jobs, services=self.process("owner"), clock=self.clock)

    def job(self, name: str, body: Callable[[Context, Any], object], **options: Any) -> None:
        """A further job."""
        self.jobs.job(name, **options)(body)

    def schedule(self, name: str, job: str = "note", expression: str = "rate(1 minute)", **options: Any) -> None:
        self.scheduler.create_schedule(name, job, expression, **options)

    def passes(self, seconds: float) -> None:
        """Let time pass within a job."""
        self.clock.advance(timedelta(seconds=seconds))

    # Processes.

    def process(self, role: str) -> Services:
        """The services of one role's process, with its faults."""
        queue = role.removeprefix("worker-") if role.startswith("worker-") else None
        found = self.memory.connect(self.hooks.get(role), queue=queue)
        return replace(found, wait=self.passes)

    def live(self, minutes: int) -> None:
        """Let minutes pass."""
        for _ in range(minutes):
            self._live()

    def _live(self) -> None:
        began = self.clock()
        self._minute, self._counts = Minute(self.clock.now()), Counter()
        self.call("ticker", {})
        if began // MINUTE % 60 == _AUDIT_AT:
            self.call("auditor", {})
        self._work_until(began + _HABIT)
        for habit in self.habits:
            habit()
        self._work_until(began + MINUTE)
        self.clock.reach(began + MINUTE - 1)  # at the full minute the next runs are due
        self._look()
        self.clock.reach(began + MINUTE)
        self.minutes.append(self._minute)

    def _work_until(self, end: int) -> None:
        for _ in range(_MOST):
            if self._work() or self._bury():
                continue
            upcoming = self._upcoming()
            if upcoming is None or upcoming >= end:
                break
            self.clock.reach(upcoming)
        self.clock.reach(end - 1)

    def _work(self) -> int:
        """Every worker takes what is visible in its queue, batch by batch; how many messages that were."""
        return sum(self._batch(role, queue) for role, queue in self._workers())

    def _workers(self) -> Iterator[tuple[str, str | None]]:
        for role, queue in ("worker", None), ("worker-gpu", "gpu"), ("worker-reports", "reports"):
            if role not in self.asleep:
                yield role, queue

    def _batch(self, role: str, queue: str | None) -> int:
        stored = self.memory.queues[queue]
        if role in self.instead and (took := self.instead[role](queue)) is not None:
            return took
        if role in self.short:  # Lambda's pollers take messages and find no function
            self._counts[role, "Throttles"] += bool(stored.load().waiting)
            return 0
        taken = stored.take(10, _VISIBILITY)
        self._counts[role, "Throttles"] += bool(taken) and role in self.squeezed
        if taken:
            self.call(role, batch(taken, stripe=0))
        return len(taken)

    def _bury(self) -> int:
        if "undertaker" in self.asleep:
            return 0
        taken = self.memory.dead.take(10)
        answer = self.call("undertaker", batch(taken)) if taken else None
        kept = {each["itemIdentifier"] for each in (answer or {}).get("batchItemFailures", ())}
        for letter in taken:
            if answer is not None and letter.id not in kept:  # Lambda deletes what was not named
                self.memory.dead.delete(letter.receipt)
        return len(taken)

    def _upcoming(self) -> int | None:
        """When the next message can be received that somebody receives (UTC ms)."""
        queues = [self.memory.queues[queue] for role, queue in self._workers() if role not in self.short]
        if "undertaker" not in self.asleep:
            queues.append(self.memory.dead)
        now = self.clock()
        times = [at for queue in queues if (at := queue.next_visible()) is not None]
        return min((max(at, now + 1) for at in times), default=None)

    def call(self, role: str, event: dict[str, Any]) -> Any:
        """One invocation: its lines are kept, and what it raises is an error of its function."""
        if role in self.asleep:
            return None
        if role in self.short:
            self._counts[role, "Throttles"] += 1
            return None
        part = role.partition("-")[0]
        self._counts[role, "Invocations"] += 1
        answer = None
        with self._as_function(role, part) as handler, redirect_stdout(io.StringIO()) as out:
            try:
                answer = handler(event, LambdaContext(f"{PREFIX}-{role}"))
            except (Exception, SystemExit) as problem:  # noqa: BLE001 (Lambda counts whatever it is)
                self._counts[role, "Errors"] += 1
                self._errors.append(f"{role}: {type(problem).__name__}: {problem}")
        self._keep(out.getvalue(), f"{PREFIX}-{role}")
        return answer

    @contextmanager
    def _as_function(self, role: str, part: str) -> Iterator[Callable[..., Any]]:
        """The handler, in the environment of its function."""
        services = self.process(role)
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Powertools: a failed invocation leaves no metrics
            patch.setenv("POWERTOOLS_SERVICE_NAME", f"{PREFIX}-{role}")
            module = __import__(f"functions.{part}.handler", fromlist=["handler"])
            observe = __import__("functions.observe", fromlist=["metrics"])
            patch.setattr(observe.metrics.provider, "service", f"{PREFIX}-{role}")
            patch.setattr(observe.logger.registered_handler, "stream", io.StringIO())
            patch.setattr(module, "services", lambda: services)
            if part == "worker":
                patch.setenv("QUARTERJACK_JOBS", "acme.jobs")
                patch.setattr(module, "load", lambda package: self.import_jobs())
            try:
                yield module.handler
            finally:
                if part == "worker":  # the next test's package is another
                    module._jobs.cache_clear()
                    module._keeper.cache_clear()
                    module._version.cache_clear()

    def _keep(self, text: str, service: str) -> None:
        lines = [json.loads(line) for line in text.splitlines() if '"_aws"' in line]
        assert {line["service"] for line in lines} <= {service}, "the dimension by which alarms find a function"
        self._minute.lines += lines

    def _look(self) -> None:
        """Figures that AWS has of functions and queues."""
        figures = self._minute.figures
        figures |= self.of_aws
        for (role, name), count in self._counts.items():
            if count or name != "Throttles":
                figures["AWS/Lambda", name, (("FunctionName", f"{PREFIX}-{role}"),)] = count
        for role in {role for role, name in self._counts if name == "Invocations"}:
            figures.setdefault(("AWS/Lambda", "Errors", (("FunctionName", f"{PREFIX}-{role}"),)), 0)
        for name, queue in {f"work-{of}" if of else "work": q for of, q in self.memory.queues.items()}.items():
            self._depth(name, queue)
        self._depth("dead", self.memory.dead)
        for key, by in self.rising.items():
            figures[key] = (self.minutes[-1].figures.get(key, 0) if self.minutes else 0) + by

    def _depth(self, name: str, queue: Any) -> None:
        load, of = queue.load(), (("QueueName", f"{PREFIX}-{name}"),)
        at_hand = {"Visible": load.waiting, "NotVisible": load.at_hand, "Delayed": load.delayed}
        for which, number in at_hand.items():
            self._minute.figures["AWS/SQS", f"ApproximateNumberOfMessages{which}", of] = number

    @property
    def errors(self) -> list[str]:
        """What handlers raised, with the roles."""
        return self._errors


def batch(taken: list[RawMessage], *, stripe: int | None = None) -> dict[str, Any]:
    """An event of SQS as Lambda makes it."""
    return {"Records": [_record(each, stripe) for each in taken]}


def _record(message: RawMessage, stripe: int | None) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt if stripe is None else Stripe(None, stripe).marked(message.receipt),
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": str(message.sent_at),
            "ApproximateFirstReceiveTimestamp": str(message.sent_at),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{PREFIX}-queue",
        "awsRegion": "eu-west-1",
    }


def _fails(ctx: Context, payload: object) -> None:
    raise ValueError("boom")
