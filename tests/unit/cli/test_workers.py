"""``quarterjack workers list`` and ``queues list`` as one types them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Scheduler, Settings
from quarterjack.clock import system_clock
from quarterjack.daemon.worker_record import RecordKeeper, process_identity
from quarterjack.domain.queue import Queue
from quarterjack.jobs import Registry
from quarterjack.local.installation import provision
from quarterjack.services import connect
from quarterjack.state.worker_record import WorkerIdentity, WorkerKind
from quarterjack.testing.process import Hand, make_worker
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.pipeline import run_batch

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


def test_a_worker_that_leaves_is_shown_when_asked_for(said: Say, local_settings: Settings) -> None:
    assert said("--json", "workers", "list").json == []
    services, jobs = connect(local_settings), Registry()
    jobs.job("note")(lambda ctx, payload: None)
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None, name="w1")

    def identify(now: int) -> WorkerIdentity:
        return process_identity("w1", jobs, app_version=str, queue="default", concurrency=3, now=now)

    keeper = RecordKeeper(services, WorkerKind.PROCESS, identify, system_clock)
    Scheduler(settings=local_settings).submit("shop.mail")
    deliveries = services.work.receive(most=1, wait=1, visibility=HIDDEN)
    run_batch(replace(worker, report=keeper.count), receive(worker, deliveries))
    keeper.begin(worker.heartbeat, name="w1")
    keeper.end()
    assert "no worker matches; --stopped includes workers that have stopped" in said("workers", "list").err
    (shown,) = said("--json", "workers", "list", "--stopped", "--all-tenants", "--job", "note").json
    assert (shown["name"], shown["state"], shown["jobs"], shown["queue"]) == (
        "w1",
        "STOPPED",
        ["note"],
        "default",
    )
    (line,) = said("workers", "list", "--stopped").out.splitlines()[1:]
    assert re.search(r"^w1 +STOPPED .* (now|\d+ s ago) +1: shop.mail +\S+$", line)
    assert "QUARTERJACK_PREFIX" in said("workers", "list", "--stopped").err


def test_what_runs_now_is_listed_without_a_schedule(said: Say, local_settings: Settings) -> None:
    services, jobs, shown = connect(local_settings), Registry(), list[Any]()
    owner = Scheduler(settings=local_settings)
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None, name="w1")

    @jobs.job("long")
    def long(ctx: Context, payload: object) -> None:
        identity = process_identity("w1", jobs, app_version=str, queue="default", concurrency=1, now=system_clock())
        keeper = RecordKeeper(services, WorkerKind.PROCESS, lambda now: identity, system_clock)
        keeper._heartbeat = worker.heartbeat
        keeper._write()
        shown.append(said("runs", "list", "--running").out)
        shown.append(said("--json", "runs", "list", "--running", "--all-tenants").json)
        shown.append(said("--tenant", "other", "--json", "runs", "list", "--running").json)

    run = owner.submit("long")
    Hand(worker=worker).work()
    table, everybody, others = shown
    assert run.id in table
    assert [(each["id"], each["worker"], each["worker_vanished"]) for each in everybody] == [(run.id, "w1", False)]
    assert others == []


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["s", "--running"], "NAME"),
        (["--running", "--after", "2026-12-24T18:00:00Z"], "--after"),
        (["--running", "--oldest-first"], "--oldest-first"),
        (["--running", "--upcoming"], "--upcoming"),
        (["s", "--all-tenants", "--upcoming"], "--upcoming"),
        (["--running", "--job", "j"], "--job"),
        (["--running", "--limit", "0"], "--limit"),
        (["--before", "2026-12-24T18:00:00Z"], "--before"),
    ],
)
def test_what_does_not_go_with_what_is_refused(said: Say, words: list[str], field: str) -> None:
    refused = said("--json", "runs", "list", *words)
    assert (refused.code, refused.problem["field"]) == (1, field)


def test_each_sqs_queue_has_a_row(said: Say, local_settings: Settings) -> None:
    provision(local_settings, queues=[Queue(name="reports", stripes=2)])
    scheduler = Scheduler(settings=local_settings)
    for number in range(3):
        scheduler.submit("j", {"n": number})
    default, reports = said("--json", "queues", "list").json
    assert (default["name"], default["waiting"], default["held"]) == ("default", 3, False)
    assert [each["number"] for each in reports["sqs_queues"]] == [0, 1]
    lines = said("queues", "list").out.splitlines()
    head = ["queue", "lane", "number", "waiting", "in", "flight", "delayed", "oldest", "age", "held"]
    assert lines[0].split() == head
    assert lines[1].split() == ["default", "normal", "0", "3", "0", "0", "unknown"], "one-offs show no age"
    assert [line.split()[:3] for line in lines[2:]] == [["reports", "normal", "0"], ["reports", "normal", "1"]]


def test_an_undeclared_queue_is_refused_with_the_known_ones(said: Say, local_settings: Settings) -> None:
    provision(local_settings, queues=[Queue(name="reports")])
    assert said("schedules", "create", "s", "j", "0 9 * * *", "--queue", "reports").code == 0
    refused = said("--json", "schedules", "create", "t", "j", "0 9 * * *", "--queue", "report")
    assert (refused.code, refused.problem["field"]) == (1, "--queue")
    assert "default, reports" in refused.problem["message"]


@pytest.mark.parametrize("words", [["--queue", "No"], ["--job", "a b"], ["--limit", "0"], ["--cursor", "x"]])
def test_bad_input_names_its_option(said: Say, words: list[str]) -> None:
    refused = said("--json", "workers", "list", *words)
    assert (refused.code, refused.problem["field"]) == (1, words[0])
