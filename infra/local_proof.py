"""The proof of a stack on the embedded cloud: each deployed function gets work and must have done it.

A wait says what it waits for, since when, what it saw last, and where the log is.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from quarterjack import Run, RunState, Scheduler, ScheduleState, Tenants
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.errors import NotFound
from quarterjack.services import connect, system_clock
from quarterjack.sqs.stripes import stripe_of
from quarterjack.ticker.fan_out import ALONE
from urllib3 import PoolManager

from .local_stack import SCHEDULE, STRIPES, Deployment
from .storage.queues import worker_part

PROGRESS = 10.0  # seconds between two reports of a wait
LOOK = 0.5  # seconds between two looks
Seen = Callable[[], str | None]  # None: it has happened; else what is there in place of it


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)  # noqa: T201 — a command


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long to wait, and where its progress goes."""

    patience: float  # seconds
    log: Path  # of the cloud, which grows while it runs
    say: Callable[[str], object] = say

    def until(self, what: str, seen: Seen) -> None:
        """Look until ``what`` has happened. Raises TimeoutError, with the last state that was seen, after ``patience`` seconds."""
        began = said = time.monotonic()
        while (state := seen()) is not None:
            now = time.monotonic()
            if now - began > self.patience:
                raise TimeoutError(f"{what}: not within {self.patience:.0f} s; last seen: {state}")
            if now - said >= PROGRESS:
                said = now
                self.say(
                    f"        waiting for {what}, {now - began:.0f} s of {self.patience:.0f}: {state}; log: {self.log}"
                )
            time.sleep(LOOK)


PATIENCE = 100.0  # seconds for each check; the first tick comes within 60
BEYOND = timedelta(
    seconds=185
)  # further ahead than `create_schedule` looks, so that only the ticker can claim the fire
RUNS = 3  # that have to have succeeded
_CROWD = ALONE * 2  # entries with which one invocation hands shards over to others
_LATER = "later"
_FAILING = "failing"
_QUEUE = "reports"  # declared by the example
_LANE = worker_part(_QUEUE)
_HTTP = PoolManager(retries=False)


def prove(deployment: Deployment, *, patience: float = PATIENCE) -> Iterator[str]:
    """Give each deployed function work; yields a line for each check.

    Raises TimeoutError, with the last state that was seen, for a check that takes over ``patience`` seconds or comes to something else.
    """
    scheduler, waits = deployment.scheduler, Waits(patience=patience, log=deployment.cloud.log)
    scheduler.create_schedule(SCHEDULE, "starter.hello", "rate(5 seconds)", payload={"to": "deploy-local"})
    scheduler.create_schedule(_LATER, "starter.hello", f"at({datetime.now(UTC) + BEYOND:%Y-%m-%dT%H:%M:%S})")
    striped = _submit_to_each_stripe(scheduler)
    doomed = scheduler.submit("starter.doomed").id
    scheduler.create_schedule(
        _FAILING, "starter.doomed", "0 0 1 1 *", pause_on_failure=1, on_failure="job:starter.hello"
    )
    scheduler.trigger(_FAILING)
    report = scheduler.submit("starter.report", {"upto": 100}, queue=_QUEUE).id

    waits.until(f"the worker to run the schedule {RUNS} times", lambda: _succeeded(deployment.runs()))
    late = max((run.lateness or timedelta()).total_seconds() for run in deployment.runs())
    yield f"worker: {RUNS} runs of a schedule succeeded, at most {late:.1f} s late"
    waits.until("the worker to end a run of each stripe", lambda: _ended(scheduler, *striped.values()))
    yield f"worker: took from SQS queues {sorted(striped)} of the default queue"

    waits.until(f"{_LANE} to end the report", lambda: _ended(scheduler, report))
    if (result := scheduler.get_run(report).result) != {"sum": 5050}:
        raise TimeoutError(f"the report came to {result}")
    waits.until(f"the log of {_LANE} to say so", _logged(deployment, _LANE, "Succeeded"))
    yield f"{_LANE}: ran what was sent to queue {_QUEUE}, one of {scheduler.queues()}"

    waits.until("the undertaker to bury the doomed run", _logged(deployment, "undertaker", "run.dead"))
    waits.until("the doomed run to be DEAD", lambda: _is_not(RunState.DEAD, scheduler.get_run(doomed).state))
    waits.until(
        "the undertaker to pause the schedule that fails",
        lambda: _is_not(ScheduleState.PAUSED, scheduler.get_schedule(_FAILING).state),
    )
    yield "undertaker: a run that failed for good is DEAD in the ledger; a schedule is paused for it"
    scheduler.pause_schedule(_FAILING, until=datetime.now(UTC) + timedelta(seconds=3))

    yield f"auditor: {_audit(deployment)}"
    yield f"api: {_ask_api(deployment, waits)}"
    waits.until("the ticker to claim a fire", lambda: None if scheduler.list_runs(_LATER).items else "it has no run")
    yield f"ticker: claimed a fire that was {BEYOND.seconds} s away when its schedule was created"
    # The clock has proved itself; its next tick would cost a minute.
    waits.until("the notified job to run", lambda: _after_a_tick(deployment, _not_notified(deployment)))
    waits.until(
        "the ticker to end a pause",
        lambda: _after_a_tick(deployment, _is_not(ScheduleState.ACTIVE, scheduler.get_schedule(_FAILING).state)),
    )
    yield "ticker: notified a job that a schedule fails, and ended its pause"

    _crowd(deployment)
    waits.until(
        "the ticker to hand groups over", lambda: None if _handed_over(deployment) else "it has handed none over"
    )
    yield f"ticker: handed {_handed_over(deployment)} groups of shards over to itself"

    waits.until("the historian to be invoked", _logged(deployment, "historian", "HistorianChanges"))
    yield "historian: was invoked with the stream of runs"
    waits.until("the historian to archive a run", lambda: _not_archived(scheduler, report))
    yield f"historian: archived {len(scheduler.transitions(report))} transitions of a run"
    if stuck := [f"{run.id} is {run.state}" for run in deployment.runs() if run.state is not RunState.SUCCEEDED]:
        raise TimeoutError(f"not every run that was due has succeeded: {stuck}")


# What is seen in place of what is waited for; None: it has happened.


def _succeeded(runs: list[Run]) -> str | None:
    states = Counter(str(run.state) for run in runs)
    seen = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return None if states[RunState.SUCCEEDED] >= RUNS else f"runs that were due: {seen or 'none'}"


def _ended(scheduler: Scheduler, *runs: str) -> str | None:
    found = [scheduler.get_run(run) for run in runs]
    return ", ".join(f"{run.id} is {run.state}" for run in found if run.ended_at is None) or None


def _is_not(wanted: RunState | ScheduleState, state: RunState | ScheduleState) -> str | None:
    return None if state is wanted else f"it is {state}"


def _logged(deployment: Deployment, part: str, event: str) -> Seen:
    """Whether a function has logged an event; else the last line that it has logged."""

    def seen() -> str | None:
        if deployment.lines(part, event):
            return None
        last = deployment.lines(part)[-1:]
        return f"no {event!r} in its log, which ends: {last[0][:200]}" if last else "its log is empty"

    return seen


def _not_archived(scheduler: Scheduler, run: str) -> str | None:
    kinds = sorted({each.kind for each in scheduler.transitions(run)})
    return None if "succeeded" in kinds else f"archived transitions: {', '.join(kinds) or 'none'}"


def _after_a_tick(deployment: Deployment, state: str | None) -> str | None:
    """If it has not happened, call the ticker, so that it may have at the next look."""
    if state is not None:
        _tick(deployment)
    return state


def _not_notified(deployment: Deployment) -> str | None:
    """Whether the job that ``on_failure`` names has run, once for each notice."""
    scheduler = deployment.scheduler
    owner = f"{scheduler.tenant}/{_FAILING}"
    records = connect(deployment.settings).records.listed(owner, "~notice~")
    tokens = [record.key.removeprefix("~notice~") for record in records]
    try:
        runs = [scheduler.get_run(f"{scheduler.tenant}/~notice-{token}#once") for token in tokens]
    except NotFound:
        return "a notice has no run"
    waiting = [f"{run.id} is {run.state}" for run in runs if run.state is not RunState.SUCCEEDED]
    return ", ".join(waiting) or (None if runs else "there is no notice")


def _submit_to_each_stripe(scheduler: Scheduler) -> dict[int, str]:
    """A run in each stripe of the default queue. No more: each run that comes at once makes the cloud start one more process."""
    striped: dict[int, str] = {}
    while len(striped) < STRIPES:
        run = scheduler.submit("starter.hello", {"to": "a stripe"}).id
        striped[stripe_of(parse_run_id(run), STRIPES)] = run
    return striped


def _tick(deployment: Deployment) -> None:
    deployment.client("lambda").invoke(FunctionName=deployment.function("ticker"), Payload=b"{}")


def _crowd(deployment: Deployment) -> None:
    """Put more entries than one invocation takes, of schedules that do not exist: the ticker removes these."""
    agenda, now = connect(deployment.settings).agenda, system_clock()
    for shard in range(agenda.layout().shards):
        ids = (f"{deployment.scheduler.tenant}/nobody-{number}#1" for number in range(_CROWD // agenda.layout().shards))
        agenda.put([AgendaEntry(shard=shard, due=now, kind=EntryKind.CHAIN, id=of) for of in ids])
    _tick(deployment)


def _handed_over(deployment: Deployment) -> int:
    """The number of groups that the ticker handed over, by its metric. Raises TimeoutError if one was refused."""
    if deployment.lines("ticker", "invoke.failed"):
        raise TimeoutError("the ticker could not hand shards over to itself")
    return sum(int(json.loads(line)["TickGroups"][0]) for line in deployment.lines("ticker", "TickGroups"))


def _audit(deployment: Deployment) -> str:
    """Call the auditor, whose clock does so once an hour; returns its answer."""
    answer = deployment.client("lambda").invoke(FunctionName=deployment.function("auditor"))
    body = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise TimeoutError(f"the auditor failed: {body}")
    return str(body)


def _ask_api(deployment: Deployment, waits: Waits) -> str:
    """Submit a run with an API key and read it. Raises TimeoutError if the API answers anything else, or lets in who has none."""
    scheduler = deployment.scheduler
    key = Tenants(settings=deployment.settings).create_key(
        scheduler.tenant, "deploy-local", ["submit", "read-runs", "read-logs"]
    )
    run = _request(deployment, "keys", 201, key.text, {"job": "starter.hello", "payload": {"to": "the API"}})
    found = _request(deployment, "keys", 200, key.text, below=f"/{run['url_id']}?wait=20")
    if found["state"] != "SUCCEEDED":
        raise TimeoutError(f"the run that the API was given is {found['state']}")
    waits.until("the log of that run", lambda: _not_in_the_log(deployment, key.text, run["url_id"]))
    for way, status in ("keys", 401), ("iam", 403):
        _request(deployment, way, status, None, {"job": "starter.hello"})
    return "took a run from an API key, waited for its end and has its log lines; nobody without credentials was let in"


def _not_in_the_log(deployment: Deployment, key: str, run: str) -> str | None:
    """The events that the API finds in a run's log. The cloud has the lines once the function's invocation is over."""
    lines = _request(deployment, "keys", 200, key, below=f"/{run}/logs")["items"]
    events = {line["event"] for line in lines if line["source"] == "worker"}
    return None if "run.ended" in events else f"events in it: {', '.join(sorted(events)) or 'none'}"


def _request(
    deployment: Deployment, way: str, status: int, key: str | None, body: Any = None, *, below: str = ""
) -> Any:
    """The document with which the API answers a request about runs. Raises TimeoutError for another status."""
    api = urlsplit(deployment.urls[way]).netloc.partition(".")[0]
    place = f"{deployment.cloud.endpoint}/_aws/execute-api/{api}/$default"  # its own name needs a name server
    # The local cloud asks for its own key; as a session token it leaves the header of the API key alone.
    sent = {
        "Content-Type": "application/json",
        "X-Amz-Security-Token": deployment.cloud.environment["AWS_ACCESS_KEY_ID"],
    }
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    answer = _HTTP.request(
        "GET" if body is None else "POST",
        f"{place}/v1/tenants/{deployment.scheduler.tenant}/runs{below}",
        json=body,
        headers=sent,
        timeout=PATIENCE,
    )
    if answer.status != status:
        raise TimeoutError(f"the API for {way} answered {answer.status}, not {status}: {answer.data!r}")
    return answer.json()
