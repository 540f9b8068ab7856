"""The handlers with events as Lambda gives them, over services in memory."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from quarterjack import Registry, Retry, RunState, Scheduler
from quarterjack.concurrency.pools import ThreadCache
from quarterjack.daemon import worker_record
from quarterjack.domain.history.archive_objects import INBOX, hour_prefix
from quarterjack.errors import InvalidInput, JobError, Unavailable, UnknownJobWarning
from quarterjack.historian.archive import archive
from quarterjack.owner.workers import read_workers
from quarterjack.state.worker_record import GivenBack
from quarterjack.testing import ManualClock
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.builders import a_run
from tests.support.scenes.handlers import EVENTS, LambdaContext, Stack, invoke
from tests.support.scenes.world import Faults, fails
from tests.support.transitions import context_of, life


@pytest.mark.parametrize("history", ["on", "off"])
def test_the_jobs_are_published_after_the_first_batch(monkeypatch: pytest.MonkeyPatch, history: str) -> None:
    monkeypatch.setenv("QUARTERJACK_HISTORY", history)
    stack = Stack(monkeypatch)
    keeper = __import__("functions.worker.handler", fromlist=["_keeper"])._keeper
    keeper.cache_clear()
    stack.registry.job("good", timeout=5)(lambda ctx, payload: None)
    assert stack.scheduler.jobs() == []
    for _ in range(3):
        stack.scheduler.submit("good")
        invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    keeper.cache_clear()
    (known,) = stack.scheduler.jobs()
    assert (known.name, known.timeout) == ("good", 5)
    (row,) = stack.services.records.listed("~quarterjack/~jobs", "~jobs~")
    assert row.version == 1
    assert len(list(read_workers(stack.services, stack.clock()))) == (history == "on")


def test_an_environment_says_that_it_gets_messages_of_jobs_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = Stack(monkeypatch)
    keeper = __import__("functions.worker.handler", fromlist=["_keeper"])._keeper
    keeper.cache_clear()
    monkeypatch.setattr(worker_record, "PERIOD", 0)  # ms between two writes
    stack.registry.job("good")(lambda ctx, payload: None)

    def batch(*jobs: str) -> GivenBack:
        for job in jobs:
            stack.scheduler.submit(job)
        invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
        (row,) = read_workers(stack.services, stack.clock())
        return row.unknown

    assert batch("good") == GivenBack()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownJobWarning)
        first = batch("shop.mail", "good", "shop.bill")
        assert (first.count, sorted(first.names)) == (2, ["shop.bill", "shop.mail"])
        assert batch("shop.mail").count == 3
    keeper.cache_clear()


def test_a_batch_runs_and_what_fails_for_good_is_buried(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(monkeypatch)

    @stack.registry.job("good")
    def good(ctx: object, payload: object) -> None:
        """Do nothing, well."""

    @stack.registry.job("bad", retry=Retry(max_attempts=1))
    def bad(ctx: object, payload: object) -> None:
        raise ValueError("boom")

    runs = [stack.scheduler.submit(job).id for job in ("good", "bad", "good")]
    received = stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    assert invoke("worker", stack.batch(received)) == {"batchItemFailures": []}
    states = [stack.scheduler.get_run(run).state for run in runs]
    published = stack.scheduler.get_run(runs[0]).published_at
    assert published == datetime(2018, 12, 17, 21, 37, 29, 183_000, tzinfo=UTC), "SentTimestamp of the event's records"
    assert states == [RunState.SUCCEEDED, RunState.DEAD, RunState.SUCCEEDED]
    assert stack.services.work.receive(most=10, wait=0, visibility=HIDDEN) == []
    letters = stack.services.dead.receive(most=10, wait=0)
    assert invoke("undertaker", stack.batch(letters)) == {"batchItemFailures": []}
    (dead,) = stack.scheduler.list_dead().items
    assert (dead.id, dead.error_type) == (runs[1], "ValueError")


def test_only_the_jobs_that_are_named_have_metrics_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CloudWatch bills every combination of dimensions: a hundred jobs would be a thousand metrics."""
    observe = __import__("functions.observe", fromlist=["named"])
    monkeypatch.setenv("QUARTERJACK_METRIC_JOBS", "good, rare")
    observe.named.cache_clear()
    stack = Stack(monkeypatch)
    stack.registry.job("good")(lambda ctx, payload: None)
    stack.registry.job("other")(lambda ctx, payload: None)
    stack.registry.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    for job in ("good", "other", "bad"):
        stack.scheduler.submit(job)
    invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    invoke("undertaker", stack.batch(stack.services.dead.receive(most=10, wait=0)))
    observe.named.cache_clear()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert {line["job"] for line in lines if "job" in line} == {"good"}
    (total,) = (line for line in lines if "Succeeded" in line and "job" not in line)
    assert (sum(total["Succeeded"]), len(total["StartLag"]), sum(total["Failed"])) == (2, 3, 1)
    assert [line["Dead"] for line in lines if "Dead" in line] == [[1.0]]


def test_messages_are_hidden_for_a_lease_before_the_jobs_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda hides them for 15 minutes: an import that ends the process must not cost so much."""
    stack = Stack(monkeypatch)
    stack.registry.job("good")(lambda ctx, payload: None)
    hidden: list[list[int]] = []

    def import_jobs() -> Registry:
        hidden.append(stack.hidden())
        return stack.registry

    monkeypatch.setattr("functions.worker.handler._jobs", import_jobs)
    stack.scheduler.submit("good")
    invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=900)))
    assert hidden[0] == [HIDDEN]


def test_a_batch_whose_visibility_cannot_be_set_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error to Lambda would keep its messages hidden for 15 minutes."""
    stack = Stack(monkeypatch)
    stack.registry.job("good")(lambda ctx, payload: None)
    run = stack.scheduler.submit("good").id
    received = stack.services.work.receive(most=10, wait=0, visibility=900)
    refused = Faults().at("hide", before=fails, times=1)
    stack.services = stack.memory.connect(refused, attempts=1)
    assert invoke("worker", stack.batch(received)) == {"batchItemFailures": []}
    assert refused.verbs()[0] == "hide"
    assert stack.scheduler.get_run(run).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("source", "error"),
    [("import a_missing_library", JobError), ("raise KeyError('boom')", KeyError), ("exit('boom')", SystemExit)],
)
def test_a_batch_whose_jobs_cannot_be_imported_is_released_and_the_error_is_reported(
    source: str,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stack = Stack(monkeypatch, own_jobs=False)
    stack.registry.job("good")(lambda ctx, payload: None)
    (tmp_path / "broken_jobs.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("QUARTERJACK_JOBS", "broken_jobs")
    for _ in range(2):
        stack.scheduler.submit("good")
    received = stack.services.work.receive(most=10, wait=0, visibility=900)
    capsys.readouterr()
    log = stack.logged()
    with pytest.raises(error):
        invoke("worker", stack.batch(received))
    assert stack.hidden() == [10, 10]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    (logged,) = map(json.loads, log.getvalue().splitlines())
    assert logged["message"] == "jobs.not_imported"
    assert logged["jobs"] == "broken_jobs"
    assert logged["error"].startswith(error.__name__)
    assert [line["JobsNotImported"] for line in lines if "JobsNotImported" in line] == [[1.0]]


def test_a_process_with_an_abandoned_thread_ends_itself_after_the_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By then all outcomes of the batch are settled, its messages deleted and its metrics written."""
    stack, hangs = Stack(monkeypatch), threading.Event()
    stack.registry.job("deaf", timeout=0.2, retry=Retry(max_attempts=1))(lambda ctx, payload: hangs.wait(30))
    stack.registry.job("good")(lambda ctx, payload: "done")
    ended: list[tuple[int, list[str], int, str]] = []

    def end_process(code: int) -> None:
        states = [str(stack.scheduler.get_run(run).state) for run in runs]
        left = len(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN))
        ended.append((code, states, left, capsys.readouterr().out))

    monkeypatch.setattr("functions.worker.handler.end_process", end_process)
    runs = [stack.scheduler.submit(job).id for job in ("good", "deaf", "good")]
    received = stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    try:
        invoke("worker", stack.batch(received))
        ((code, states, left, out),) = ended
    finally:
        hangs.set()
    assert (code, states, left) == (1, ["SUCCEEDED", "DEAD", "SUCCEEDED"], 0)
    assert '"Succeeded":[2.0]' in out.replace(" ", "")
    ended.clear()
    stack.scheduler.submit("good")
    invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    assert ended == [], "a process without one goes on"


class Short(ThreadCache):
    """Threads of this name cannot be started."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._short = name

    def start(self, name: str, body: Callable[..., object], *arguments: object) -> None:
        if name == self._short:
            raise RuntimeError("can't start new thread")
        super().start(name, body, *arguments)

    @property
    def idle(self) -> int:
        return len(self._waiting)


def test_a_batch_whose_runs_get_no_thread_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, threads = Stack(monkeypatch), Short("batch")
    monkeypatch.setattr("functions.worker.batch._threads", threads)
    stack.registry.job("good")(lambda ctx, payload: None)
    runs = [stack.scheduler.submit("good").id for _ in range(2)]
    batch = stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    assert invoke("worker", batch) == {"batchItemFailures": [{"itemIdentifier": "0"}, {"itemIdentifier": "1"}]}
    assert [stack.scheduler.get_run(run).state for run in runs] == [RunState.QUEUED] * 2


def test_a_batch_that_cannot_be_taken_in_hand_is_not_kept_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda is told; a heartbeat that went on would hide its messages for ever."""
    stack, threads = Stack(monkeypatch), Short("deletions")
    monkeypatch.setattr("functions.worker.batch._threads", threads)
    stack.registry.job("good")(lambda ctx, payload: None)
    stack.scheduler.submit("good")
    warnings.simplefilter("ignore", UserWarning)  # Powertools: a failed batch leaves no metrics
    with pytest.raises(RuntimeError, match="new thread"):
        invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    pause = threading.Event()
    assert any(threads.idle == 1 or pause.wait(0.02) for _ in range(500)), "its heartbeat has ended"


def test_the_ticker_and_the_auditor_need_nothing_of_their_event(monkeypatch: pytest.MonkeyPatch) -> None:
    Stack(monkeypatch)
    event = json.loads((EVENTS / "scheduler.json").read_text())
    assert invoke("ticker", event) == {"claimed": 0, "sent": 0, "left": 0}
    assert invoke("auditor", event)["schedules"] == 0


def test_the_auditor_empties_the_inbox_of_the_archive_and_audits_without_a_bucket_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = Stack(monkeypatch)
    archive(life(a_run(0, created_at=1)), context_of(stack.services))
    (key,) = stack.memory.archived
    assert key.startswith(INBOX)
    invoke("auditor", {})
    (key,) = stack.memory.archived
    assert key.startswith(hour_prefix("acme", 0))

    def refuse(*given: object, **named: object) -> int:
        raise Unavailable("ListObjectsV2: SlowDown")

    monkeypatch.setattr("quarterjack.daemon.auditor_hour.compact_archive", refuse)
    assert invoke("auditor", {})["schedules"] == 0


def test_the_ticker_takes_a_group_of_shards_and_refuses_garbage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(monkeypatch)
    stack.registry.job("note")(lambda ctx, payload: None)
    for number in range(20):
        stack.scheduler.create_schedule(f"s{number}", "note", "rate(1 minute)")
    stack.services.agenda.layout(fresh=True)
    late = ManualClock(datetime.now(UTC) + timedelta(minutes=5))
    monkeypatch.setattr("functions.ticker.handler.system_clock", late)
    capsys.readouterr()
    for event in ({"shards": [0]}, {"shards": [1], "writes": 1_000}):
        assert invoke("ticker", event)["claimed"] > 0
    assert invoke("ticker", {})["claimed"] == 0, "both shards were done"
    assert capsys.readouterr().out.count('"Ticks":[1.0]') == 1, "groups are no ticks"
    warnings.simplefilter("ignore", UserWarning)  # Powertools: a refused event leaves no metrics
    for garbage in ([], "all", [0, 0], [2]):
        with pytest.raises(InvalidInput, match="shards"):
            invoke("ticker", {"shards": garbage})
    with pytest.raises(InvalidInput, match="writes"):
        invoke("ticker", {"shards": [0], "writes": "many"})


def test_the_ticker_hands_groups_over_as_it_was_invoked_which_may_be_by_an_alias(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Stack(monkeypatch)
    handler, called = __import__("functions.ticker.handler", fromlist=["_spread"]), list[str]()
    monkeypatch.setattr(handler, "hand_over_to", lambda function, settings: called.append(function))
    handler._spread.cache_clear()
    arn = f"{LambdaContext.invoked_function_arn}:live"
    monkeypatch.setattr(LambdaContext, "invoked_function_arn", arn)
    invoke("ticker", {})
    handler._spread.cache_clear()
    assert called == [arn]


def test_the_ticker_names_the_schedules_whose_fires_were_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(monkeypatch)
    stack.registry.job("note")(lambda ctx, payload: None)
    earlier = datetime.now(UTC) - timedelta(minutes=20)
    then = Scheduler("acme", jobs=stack.registry, services=stack.services, clock=ManualClock(earlier))
    then.create_schedule("s", "note", "rate(1 minute)", catch_up="latest")
    capsys.readouterr()
    invoke("ticker", json.loads((EVENTS / "scheduler.json").read_text()))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if "Missed" in line]
    assert (line["tenant"], line["schedule"], line["Missed"]) == ("acme", "s", [1.0])
    assert line["Skipped"][0] >= 14
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
