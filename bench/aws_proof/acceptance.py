"""What must hold with nothing in the way: every fire once and on time, a pause that holds, a killed worker's run again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from quarterjack import RunState

from bench.aws_proof.deployment import Deployment
from bench.aws_proof.jobs import DOOMED, KILLED, NOTE
from bench.aws_proof.load import Fires, Load, percentiles, put_on, wait_for_end, wait_for_witness
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged
from bench.observed.figures import MS, starts
from bench.observed.witness import Began

WORKER_KILLED = "a worker's process killed"
PROMPT, EXACT, PAUSED = "prompt", "exact", "paused"
_SETTLES = 5.0  # seconds for which nothing may start after a pause
_LOOK = 1.0


def begin(deployment: Deployment) -> None:
    """Submit what takes a lease to show, so that it is over when its part comes; a second call submits nothing."""
    scheduler = deployment.scheduler()
    scheduler.submit(DOOMED, "doomed-0", idempotency_key="doomed")  # one that ends DEAD
    _submit_killed(deployment)


def fires(deployment: Deployment, plan: Plan) -> Iterator[Finding]:
    """Both kinds of start share one minute of fires."""
    began = time.time() * MS
    common = {"number": plan.schedules, "every": plan.every, "lead": plan.lead, "threads": plan.threads}
    loads = {start: put_on(deployment, Fires(name=start, start=start, **common)) for start in (PROMPT, EXACT)}  # type: ignore[arg-type]
    wait_for_end(deployment, list(loads.values()), plan.patience)
    for start, load in loads.items():
        yield of_fires(deployment, start, load, since=began, patience=plan.patience)


def of_fires(deployment: Deployment, name: str, load: Load, *, since: float, patience: float) -> Finding:
    """Every fire of the load against what its job said."""
    began = wait_for_witness(deployment, len(load.fires), since=since, of=load.name, patience=patience)
    return judge_fires(name, load, began)


def judge_fires(name: str, load: Load, began: Sequence[Began], *, says: str = "", may_repeat: bool = False) -> Finding:
    """Missing, unexpected or early starts are wrong, and double ones unless a run may repeat: where its end cannot be recorded."""
    counts = starts(load.fires, began)
    late = [(one.at - one.due) / MS for one in began]
    counted = ("missing", "unexpected") if may_repeat else ("missing", "double", "unexpected")
    wrong = [f"{counts[what]} {what}" for what in counted if counts[what]]
    if early := sum(each < 0 for each in late):
        wrong.append(f"{early} started early")
    figures = ", ".join(f"{share} {seconds:.3f} s" for share, seconds in percentiles(late).items())
    kept = f"{counts['fires']} fires, {counts['missing']} missing, {counts['double']} double; due → job's first line {figures}"
    return judged(f"fires, {name}", wrong, kept + says)


def pause(deployment: Deployment, plan: Plan) -> Finding:
    """A schedule that fires every second is paused: from then on its job says nothing."""
    scheduler, since = deployment.scheduler(), time.time() * MS
    scheduler.create_schedule(f"{PAUSED}-0", NOTE, "* * * * * *", payload=f"{PAUSED}-0")
    before = wait_for_witness(deployment, 3, since=since, of=PAUSED, patience=plan.patience)
    scheduler.pause_schedule(f"{PAUSED}-0")
    returned = datetime.now(UTC).timestamp() * MS
    threading.Event().wait(_SETTLES)
    began = wait_for_witness(deployment, len(before) + 1, since=since, of=PAUSED, patience=_SETTLES)
    rows = [row for row in scheduler.list_runs(f"{PAUSED}-0").items if row.started_at is not None]
    leased_after = [row for row in rows if row.started_at is not None and row.started_at.timestamp() * MS > returned]
    wrong = [f"{len(leased_after)} runs were leased after the pause had returned"] * bool(leased_after)
    if not began:
        wrong.append("it never fired")
    scheduler.delete_schedule(f"{PAUSED}-0")
    return judged("pause", wrong, f"{len(began)} starts before the pause, {len(leased_after)} after it had returned")


def _submit_killed(deployment: Deployment) -> str:
    """The id of the run that ends its worker's process: one, however often it is submitted."""
    return deployment.scheduler().submit(KILLED, "killed-0", idempotency_key="killed").id


def killed(deployment: Deployment, plan: Plan) -> Finding:
    """A run whose worker's process died starts again and succeeds."""
    run_id = _submit_killed(deployment)
    scheduler, deadline = deployment.scheduler(), time.monotonic() + plan.patience
    while (run := scheduler.get_run(run_id)).ended_at is None and time.monotonic() < deadline:
        threading.Event().wait(_LOOK)
    wrong = [f"it is {run.state} after {run.attempt} attempts"] * ((run.state, run.attempt) != (RunState.SUCCEEDED, 2))
    if run.started_at is None or run.ended_at is None:
        return judged(WORKER_KILLED, wrong, "it never began" if run.started_at is None else "it never ended")
    took = (run.ended_at - run.started_at).total_seconds()
    said = f"it succeeded at attempt {run.attempt}, {took:.1f} s after its first lease"
    return judged(WORKER_KILLED, wrong, said)
