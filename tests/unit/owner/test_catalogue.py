"""The catalogue of jobs: who writes it and how often, whose word counts, how a job leaves it, and how seldom it is read."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from quarterjack import Registry, Retry
from quarterjack.domain import job_catalogue
from quarterjack.domain.job import Job
from quarterjack.domain.job_catalogue import (
    KEPT,
    KEY,
    OWNER,
    REFRESH,
    RETRY,
    SILENT,
    STALE,
    SUPERSEDED,
    JobCatalogue,
    JobSet,
    PublishedJob,
    parse_set,
    sets_of,
)
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.policies import Policies, parse_policies
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.errors import Unavailable
from quarterjack.owner.catalogue import CataloguePublisher, KnownNames, read_catalogue
from quarterjack.ports.services import Services
from quarterjack.ready_jobs.command import command_job
from quarterjack.ready_jobs.http import http_job
from quarterjack.stores.records import Record

from tests.support.scenes.world import NOON, Faults, World, fails


def a_job(name: str, **given: Any) -> PublishedJob:
    return PublishedJob(name=name, **given)


def publisher(services: Services, jobs: Iterable[PublishedJob | str], version: str | None = None) -> CataloguePublisher:
    published = [a_job(job) if isinstance(job, str) else job for job in jobs]
    return CataloguePublisher(services, lambda now: list(sets_of(published, version, now)))


def catalogue(world: World, now: int = NOON) -> JobCatalogue:
    return read_catalogue(world.services, now)


def known(world: World, now: int = NOON) -> Sequence[str]:
    return list(catalogue(world, now).entries)


def writes(faults: Faults) -> int:
    return faults.verbs().count("write_record")


@pytest.fixture
def world() -> World:
    return World()


# What is written, and how often.


def test_a_set_is_written_once_however_many_workers_start_with_it(world: World) -> None:
    faults = Faults()
    for number in range(50):
        publisher(world.process(faults), ["a", "b"], "1.0").publish(NOON + number * SECOND)
    assert (writes(faults), known(world)) == (1, ["a", "b"])
    assert catalogue(world).entries["a"].version == "1.0"


def test_a_process_reads_once_an_hour_and_writes_only_if_nobody_else_has(world: World) -> None:
    faults, others = Faults(), Faults()
    mine, other = (publisher(world.process(each), ["a"], "1") for each in (faults, others))
    for at in range(NOON, NOON + DAY, 20 * SECOND):
        mine.publish(at)
        other.publish(at)
    assert faults.verbs().count("record") == others.verbs().count("record") == 24
    assert writes(faults) + writes(others) == 24


def test_300_jobs_are_one_write_of_some_kilobytes_and_one_query(world: World) -> None:
    faults, readers = Faults(), Faults()
    jobs = [
        a_job(f"acme.reports.job-{number:03}", queue="reports", policies={"timeout": 60.0}) for number in range(300)
    ]
    publisher(world.process(faults), jobs, "1.0").publish(NOON)
    assert writes(faults) == 1
    (row,) = world.services.records.listed(OWNER, KEY)
    assert len(str(row.body)) < 8_000
    assert len(read_catalogue(world.process(readers), NOON).entries) == 300
    assert readers.verbs() == ["records"]


def test_jobs_with_long_schemas_are_spread_over_rows_that_fit(world: World) -> None:
    chance = random.Random(1)
    schema = {"enum": [chance.randbytes(16).hex() for _ in range(200)]}
    jobs = [a_job(f"job-{number:03}", payload_schema={**schema, "title": str(number)}) for number in range(300)]
    publisher(world.services, jobs).publish(NOON)
    rows = list(world.services.records.listed(OWNER, KEY))
    assert len(rows) > 1
    assert max(len(str(row.body)) for row in rows) < 350_000
    assert len(known(world)) == 300


def test_a_schema_that_is_too_long_is_left_out() -> None:
    job = Job(name="a", function=lambda ctx, payload: None)
    assert PublishedJob.of(job, {"type": "object"}).payload_schema == {"type": "object"}
    assert PublishedJob.of(job, {"title": "x" * 16_000}).payload_schema is None


def test_what_is_published_of_a_job_comes_back() -> None:
    jobs = Registry()
    jobs.queue("slow")
    retry = Retry(max_attempts=7, retry_on=(OSError,))
    options: dict[str, Any] = {"delivery": "exactly_once", "start": "exact", "timeout": 5, "deadline": 60}
    jobs.job("a", queue="slow", retry=retry, cancel_grace=3, isolation="process", **options)(lambda ctx, payload: None)
    jobs.job("b")(lambda ctx, payload: None)
    (written,) = sets_of(map(PublishedJob.of, jobs), "2.1", NOON)
    read = parse_set(written.body())
    assert read == written
    assert parse_policies(read.jobs["a"].policies) == jobs.get("a").policies  # type: ignore[union-attr]
    assert (read.jobs["a"].queue, read.version) == ("slow", "2.1")
    assert read.jobs["b"].body() == {}, "what has its default is not written"
    assert parse_policies({}) == Policies()


# Workers of different versions beside each other.


def test_workers_of_two_versions_do_not_overwrite_each_other(world: World) -> None:
    """A rolling deployment, at the end of which an old worker still refreshes: the new definition stands."""
    old = publisher(world.services, [a_job("a", policies={"timeout": 1.0}), a_job("gone")], "1.0")
    new = publisher(world.services, [a_job("a", policies={"timeout": 2.0}), a_job("new")], "2.0")
    old.publish(NOON)
    new.publish(NOON + 10 * MINUTE)
    for at in range(NOON + HOUR, NOON + 6 * HOUR, 20 * MINUTE):
        old.publish(at)
        new.publish(at)
        found = catalogue(world, at)
        assert list(found.entries) == ["a", "gone", "new"]
        assert (found.entries["a"].job.policies, found.entries["a"].version) == ({"timeout": 2.0}, "2.0")


def test_after_a_rollback_the_older_version_counts_again(world: World) -> None:
    old = publisher(world.services, [a_job("a", policies={"timeout": 1.0})], "1.0")
    new = publisher(world.services, [a_job("a", policies={"timeout": 2.0})], "2.0")
    old.publish(NOON)
    new.publish(NOON + HOUR)
    for hour in range(1, 5):  # the new one is gone
        old.publish(NOON + hour * HOUR + MINUTE)
    assert catalogue(world, NOON + 5 * HOUR).entries["a"].version == "1.0"


def test_versions_that_know_the_same_share_a_row_which_names_the_newest_that_lives(world: World) -> None:
    first, second = (publisher(world.services, ["a"], version) for version in ("1.0", "1.1"))
    first.publish(NOON)
    second.publish(NOON + MINUTE)
    assert len(list(world.services.records.listed(OWNER, KEY))) == 1
    for at in range(NOON + HOUR, NOON + 3 * HOUR, MINUTE):
        first.publish(at)
        second.publish(at)
        assert catalogue(world, at).entries["a"].version == "1.1"
    for at in range(NOON + 3 * HOUR, NOON + 6 * HOUR, MINUTE):
        first.publish(at)
    assert catalogue(world, NOON + 6 * HOUR).entries["a"].version == "1.0"


def test_a_worker_that_stalled_before_its_write_loses_to_the_one_that_was_faster(world: World) -> None:
    publisher(world.services, ["a"], "1").publish(NOON)
    faster = publisher(world.services, ["a"], "1")
    later = NOON + 3 * HOUR
    faults = Faults().at("write_record", before=lambda: faster.publish(later + MINUTE))
    stalled = publisher(world.process(faults), ["a"], "1")
    stalled.publish(later)
    assert catalogue(world, later).entries["a"].seen_at == later + MINUTE
    stalled.publish(later + RETRY)
    assert catalogue(world, later).entries["a"].seen_at == later + MINUTE, "which is an hour old only later"


def test_no_order_of_workers_loses_a_job_or_goes_back() -> None:
    """Random starts, refreshes and ends of workers of five versions, races of reads and writes included."""
    for seed in range(40):
        chance, world, now = random.Random(seed), World(), NOON
        contents = [[f"job-{chance.randrange(8)}" for _ in range(4)] for _ in range(5)]
        living = list[tuple[CataloguePublisher, int]]()
        seen = dict[str, int]()
        for _ in range(120):
            now += chance.randrange(30 * MINUTE)
            number = chance.randrange(5)
            if chance.random() < 0.2 or not living:
                faults = Faults()
                if living and chance.random() < 0.5:
                    faults.at("write_record", before=partial(chance.choice(living)[0].publish, now))
                living.append((publisher(world.process(faults), set(contents[number]), str(number)), number))
            worker, number = chance.choice(living)
            worker.publish(now)
            found = catalogue(world, now)
            assert found.entries.keys() >= {name for name, at in seen.items() if now - at < KEPT}
            for name, entry in found.entries.items():
                assert entry.seen_at >= seen.get(name, 0)
                seen[name] = entry.seen_at


# How a job leaves.


def test_a_job_leaves_100_days_after_the_last_worker_that_knew_it(world: World) -> None:
    publisher(world.services, ["a"]).publish(NOON)
    publisher(world.services, ["b"]).publish(NOON + DAY)
    assert known(world, NOON + KEPT - 1_000) == ["a", "b"]
    assert known(world, NOON + KEPT) == ["b"]


def test_rows_of_which_a_newer_one_has_all_are_emptied_a_day_later(world: World) -> None:
    """A team that deploys twenty times a day does not fill the table."""
    for number in range(200):
        at = NOON + number * 2 * HOUR
        jobs = [a_job("a", policies={"timeout": float(number + 1)}), a_job("b"), *[a_job("gone")][number:]]
        publisher(world.services, jobs, str(number)).publish(at)
    rows = [row for row in world.services.records.listed(OWNER, KEY) if row.body]
    assert len(rows) <= 1 + 1 + SUPERSEDED // (2 * HOUR), "the one with a job that no other has, and those of a day"
    assert known(world, at) == ["a", "b", "gone"]
    assert catalogue(world, at).entries["a"].job.policies == {"timeout": 200.0}


def test_a_set_that_comes_back_after_its_row_was_emptied_is_written_anew(world: World) -> None:
    publisher(world.services, ["a"]).publish(NOON)
    publisher(world.services, ["a", "b"]).publish(NOON + 2 * DAY)
    assert len([row for row in world.services.records.listed(OWNER, KEY) if row.body]) == 1
    publisher(world.services, ["a"], "old").publish(NOON + 2 * DAY + HOUR)
    assert catalogue(world, NOON + 2 * DAY + HOUR).entries["a"].version == "old"


def test_a_job_is_stale_when_others_were_heard_of_a_week_later(world: World) -> None:
    publisher(world.services, ["old"]).publish(NOON)
    assert not catalogue(world, NOON + STALE * 2).is_stale("old"), "nobody has been heard of since"
    publisher(world.services, ["new"]).publish(NOON + STALE + SECOND)
    found = catalogue(world, NOON + STALE + SECOND)
    assert (found.is_stale("old"), found.is_stale("new"), found.is_stale("never")) == (True, False, False)


# What goes wrong.


def test_a_failure_is_tried_again_in_five_minutes_and_not_before(world: World) -> None:
    faults = Faults().at("record", before=fails, times=None)
    failing = publisher(world.process(faults), ["a"])
    with pytest.raises(Unavailable):
        failing.publish(NOON)
    faults.rules.clear()
    failing.publish(NOON + RETRY - 1)
    assert known(world) == []
    failing.publish(NOON + RETRY)
    assert known(world) == ["a"]


def test_a_write_whose_answer_was_lost_stands(world: World) -> None:
    faults = Faults().at("write_record", after=fails, times=1)
    publisher(world.process(faults), ["a"]).publish(NOON)
    assert known(world) == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"jobs": "no base64 %"},
        {"jobs": "QUJD"},
        {"since": 1, "seen_at": "x", "versions": [], "jobs": None},
        {**JobSet.of([a_job("b")], "1", NOON).body(), "seen_at": 10**18},
        {**JobSet.of([a_job("b")], "1", NOON).body(), "versions": [{"version": "1", "since": 1, "seen_at": -(10**18)}]},
    ],
)
def test_a_row_that_cannot_be_read_hides_no_other(world: World, body: dict[str, Any]) -> None:
    with pytest.raises(GARBAGE):
        parse_set(body)
    world.services.records.write(Record(owner=OWNER, key=f"{KEY}x", version=1, body=body, expires=NOON + KEPT))
    publisher(world.services, ["a"]).publish(NOON)
    assert known(world) == ["a"]


def test_a_damaged_row_of_the_same_set_is_written_over(world: World) -> None:
    (mine,) = sets_of([a_job("a")], None, NOON)
    world.services.records.write(Record(owner=OWNER, key=mine.key, version=1, body={}, expires=NOON + KEPT))
    publisher(world.services, ["a"]).publish(NOON)
    assert known(world) == ["a"]


def test_a_later_releases_row_is_read_without_what_is_new() -> None:
    written = JobSet.of([a_job("a", queue="q")], "1", NOON).body()
    assert parse_set({**written, "new": 1}).jobs["a"].queue == "q"


@pytest.mark.parametrize("policies", [{"retry": 7}, {"isolation": "planet"}, {"retry": {"max_attempts": 0}}])
def test_a_job_whose_policies_cannot_be_read_hides_no_other(world: World, policies: dict[str, Any]) -> None:
    publisher(world.services, [a_job("b", policies=policies), "a"]).publish(NOON)
    assert [job.name for job in world.scheduler.jobs()] == ["a"]
    assert known(world) == ["a", "b"], "it is known nevertheless"


# How seldom it is read.


def test_a_name_that_was_found_is_asked_for_no_more(world: World) -> None:
    publisher(world.services, ["a", "b"]).publish(NOON)
    faults = Faults()
    names = KnownNames(world.process(faults), world.clock)
    for _ in range(1_000):
        assert names.of("a").knows("a")
        assert names.of("b").knows("b")
        world.wait(60)
    assert faults.verbs() == ["records"]


def test_a_name_that_is_not_there_is_looked_for_once_a_minute(world: World) -> None:
    publisher(world.services, ["a"]).publish(NOON)
    faults = Faults()
    names = KnownNames(world.process(faults), world.clock)
    for _ in range(600):
        assert names.of("b").knows("b") is False
        world.wait(1)
    assert faults.verbs().count("records") == 10
    publisher(world.services, ["b"]).publish(world.clock())
    world.wait(60)
    assert names.of("b").knows("b")


def test_a_catalogue_that_cannot_be_read_is_asked_once_a_minute_too(world: World) -> None:
    faults = Faults().at("records", before=fails, times=None)
    names = KnownNames(world.process(faults), world.clock)
    with pytest.raises(Unavailable):
        names.of("a")
    asked = len(faults.calls)
    for _ in range(10):
        with pytest.raises(Unavailable):
            names.of("a")
    assert len(faults.calls) == asked
    faults.rules.clear()
    world.wait(60)
    assert names.of("a").knows("a") is None, "nobody has published"


def test_threads_that_ask_at_once_make_one_query(world: World) -> None:
    publisher(world.services, ["a"]).publish(NOON)
    faults, start = Faults(), threading.Barrier(8)
    names, said = KnownNames(world.process(faults), world.clock), list[bool | None]()

    def ask() -> None:
        start.wait()
        said.append(names.of("a").knows("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [True] * 8
    assert faults.verbs() == ["records"]


def test_the_bounds_fit_each_other() -> None:
    assert RETRY < REFRESH < SILENT < SUPERSEDED < STALE < KEPT
    assert replace(JobSet.of([], "", NOON), seen_at=NOON).expires == NOON + KEPT
    assert job_catalogue.nearest("reports.dialy", ["reports.daily", "x"]) == "did you mean 'reports.daily'?"
    billing = ["billing.broken", "billing.invoice", "billing.slow"]
    assert job_catalogue.nearest("billing.invoce", billing) == "did you mean 'billing.invoice'?"
    assert job_catalogue.nearest("job.c", ["job.a", "job.b"]) == "did you mean 'job.b' or 'job.a'?"
    assert job_catalogue.nearest("q", [f"job-{n:02}" for n in range(12)]).endswith("job-09 and 2 more")
    assert job_catalogue.nearest("q", []) == "known jobs: none"


def test_whether_a_job_goes_by_its_name_alone_is_published(world: World) -> None:
    """Who submits without the package must know that no pattern gives a command to a tenant."""
    registry = Registry()
    command_job("command", registry=registry)
    http_job("http.any", registry=registry)
    http_job("http.one", url="https://example.com/", registry=registry)
    registry.job("plain")(lambda ctx, payload: None)
    registry.job("anything", by_name=True)(lambda ctx, payload: None)
    publisher(world.services, [PublishedJob.of(job) for job in registry]).publish(NOON)
    found = catalogue(world).entries
    assert {name for name, entry in found.items() if entry.job.by_name} == {"anything", "command", "http.any"}
    assert "by_name" not in found["plain"].job.body()
