"""The catalogue of jobs on every engine: what one worker publishes is what everybody reads."""

from __future__ import annotations

from quarterjack.domain.job_catalogue import KEPT, KEY, OWNER, SUPERSEDED, PublishedJob, sets_of
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.owner.catalogue import CataloguePublisher, read_catalogue
from quarterjack.ports.services import Services

NOW = 1_777_896_000_000


def publish(services: Services, jobs: list[PublishedJob], version: str, at: int) -> None:
    CataloguePublisher(services, lambda now: list(sets_of(jobs, version, now))).publish(at)


def test_what_is_published_is_read_by_everybody(services: Services) -> None:
    assert not read_catalogue(services, NOW)
    schema = {"type": "object", "properties": {"née": {"enum": ["é", None, 1.5]}}}
    jobs = [
        PublishedJob(name=f"acme.job-{number:03}", queue="slow", policies={"timeout": 1.5}) for number in range(300)
    ]
    jobs.append(PublishedJob(name="typed", payload_schema=schema))
    publish(services, jobs, "1.0", NOW)
    found = read_catalogue(services, NOW)
    assert len(found.entries) == 301
    assert found.entries["typed"].job == jobs[-1]
    assert found.entries["acme.job-007"].job == jobs[7]
    assert (found.entries["typed"].version, found.entries["typed"].seen_at) == ("1.0", NOW)


def test_a_second_worker_writes_nothing_and_an_hour_later_what_is_new(services: Services) -> None:
    jobs = [PublishedJob(name="a")]
    publish(services, jobs, "1.0", NOW)
    publish(services, jobs, "1.0", NOW + MINUTE)
    (row,) = services.records.listed(OWNER, KEY)
    assert (row.version, row.expires) == (1, NOW + KEPT)
    publish(services, jobs, "1.0", NOW + HOUR)
    (row,) = services.records.listed(OWNER, KEY)
    assert row.version == 2
    assert read_catalogue(services, NOW + HOUR).entries["a"].seen_at == NOW + HOUR


def test_two_versions_stand_beside_each_other_until_the_older_is_superseded(services: Services) -> None:
    publish(services, [PublishedJob(name="a", policies={"timeout": 1.0})], "1.0", NOW)
    publish(services, [PublishedJob(name="a"), PublishedJob(name="b")], "2.0", NOW + MINUTE)
    assert len([row for row in services.records.listed(OWNER, KEY) if row.body]) == 2
    assert read_catalogue(services, NOW + MINUTE).entries["a"].version == "2.0"
    later = NOW + SUPERSEDED + MINUTE
    publish(services, [PublishedJob(name="a"), PublishedJob(name="b"), PublishedJob(name="c")], "3.0", later)
    assert list(read_catalogue(services, later).entries) == ["a", "b", "c"]
    assert all(row.expires == later for row in services.records.listed(OWNER, KEY) if not row.body)
