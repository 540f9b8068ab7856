"""The doctor on broken installations: each finding names what is wrong, and its remedy; none of it writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from quarterjack import Scheduler, Settings, Tenants
from quarterjack.doctor import Finding, Severity, run_checks
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.job_catalogue import STALE, PublishedJob, sets_of
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.tenants.profile import INSTALLATION, TenantProfile
from quarterjack.domain.times import HOUR, MINUTE, SECOND, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.fires.backpressure import KEY as HOLDS
from quarterjack.fires.backpressure import OWNER
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.progress import StreamGap, StreamPosition, set_aside, write_gap, write_position
from quarterjack.local.installation import create_queues
from quarterjack.owner.app_versions import register
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.services import connect, system_clock
from quarterjack.state.backpressure import HoldLog, QueueHolds
from quarterjack.state.worker_record import (
    KEY,
    GivenBack,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange
from quarterjack.ticker.tick import tick
from quarterjack.version import VERSION

from tests.support.builders import a_run

pytestmark = pytest.mark.cloud

OK, WARN, FAIL = Severity.OK, Severity.WARN, Severity.FAIL


def seen(settings: Settings, **how: Any) -> dict[str, list[Finding]]:
    """The findings by check."""
    found: dict[str, list[Finding]] = {}
    for finding in run_checks(settings, chance=random.Random(1), **how):
        assert (finding.remedy is None) == (finding.verdict is OK)
        found.setdefault(finding.check, []).append(finding)
    return found


def bad(found: dict[str, list[Finding]]) -> dict[str, list[str]]:
    """What is not ok, by check."""
    wrong = {check: [f.what for f in findings if f.verdict is not OK] for check, findings in found.items()}
    return {check: whats for check, whats in wrong.items() if whats}


def the(found: dict[str, list[Finding]], check: str, verdict: Severity) -> Finding:
    """The one finding of a check with this verdict."""
    (one,) = (finding for finding in found[check] if finding.verdict is verdict)
    return one


def client(settings: Settings, service: str) -> Any:
    return boto3.client(service, endpoint_url=settings.endpoint, region_name=settings.region)


def rows(settings: Settings) -> list[Any]:
    """Everything in all tables."""
    dynamodb = client(settings, "dynamodb")
    suffixes = ("schedules", "revisions", "agenda", "runs")
    return [sorted(map(repr, dynamodb.scan(TableName=settings.table(s))["Items"])) for s in suffixes]


def owner(settings: Settings) -> Scheduler:
    return Scheduler(settings=settings)


@pytest.fixture
def used(local_settings: Settings) -> Settings:
    """An installation with a dense and a sparse schedule."""
    owner(local_settings).create_schedule("dense", "j", "rate(10 seconds)")
    owner(local_settings).create_schedule("sparse", "j", "0 0 1 1 *")
    return local_settings


def test_a_sound_one_and_nothing_is_written(used: Settings) -> None:
    before = rows(used)
    found = seen(used)
    assert bad(found) == {}
    wanted = {"configuration", "access", "tables", "queues", "bucket", "permissions", "clock", "ticker", "quarantined"}
    wanted |= {"backpressure", "chains", "incidents", "releases", "backlog", "history", "tenant", "instants"}
    assert set(found) == wanted
    assert f"release {VERSION}, prefix {used.prefix}" in found["configuration"][0].what
    assert "2 active schedules" in found["chains"][0].what
    assert rows(used) == before


def test_a_new_one_has_no_ticker_to_speak_of(local_settings: Settings) -> None:
    assert list(bad(seen(local_settings))) == ["ticker"]


# What this release does not know.


@pytest.mark.parametrize("table", ["schedules", "revisions", "runs"])
def test_a_row_of_a_later_release_is_named(used: Settings, table: str) -> None:
    dynamodb, name = client(used, "dynamodb"), used.table(table)
    tick(connect(used), clock=system_clock, holder="t")
    for row in dynamodb.scan(TableName=name)["Items"]:
        if "dense" in str(row) and ("state" in row or table == "revisions"):
            dynamodb.put_item(TableName=name, Item=row | {"v": {"N": "2"}})
    newer = the(seen(used), "releases", WARN)
    assert newer.what.startswith("1 of the rows read are of a later release, and are left as they are: ")
    assert "default/dense" in newer.what
    assert "this release reads up to 1" in newer.what


def test_a_variable_that_is_no_setting_is_named(used: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERJACK_HISTROY", "off")
    monkeypatch.setenv("QUARTERJACK_CONSOLE", "on")
    found = the(seen(used), "variables", WARN)
    assert (found.what, found.remedy) == (
        "QUARTERJACK_HISTROY is no setting, and has no effect",
        "did you mean QUARTERJACK_HISTORY?",
    )


# What is not there.


def test_a_missing_table_is_named_and_the_rest_is_still_looked_at(used: Settings) -> None:
    client(used, "dynamodb").delete_table(TableName=used.table("revisions"))
    found = seen(used)
    assert bad(found) == {"tables": [f"{used.table('revisions')} is not there"]}
    assert "QUARTERJACK_PREFIX" in str(the(found, "tables", FAIL).remedy)
    assert "ticker" in found


def test_somebody_elses_table_is_told_apart(local_settings: Settings) -> None:
    dynamodb, name = client(local_settings, "dynamodb"), local_settings.table("agenda")
    dynamodb.delete_table(TableName=name)
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    assert "has other keys" in the(seen(local_settings), "tables", FAIL).what


def test_an_expiry_that_is_off_fills_the_ledger(used: Settings) -> None:
    client(used, "dynamodb").update_time_to_live(
        TableName=used.table("runs"), TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"}
    )
    assert "expired rows are not deleted" in the(seen(used), "tables", WARN).what


def test_a_stream_that_is_off_stops_the_history(used: Settings) -> None:
    client(used, "dynamodb").update_table(TableName=used.table("runs"), StreamSpecification={"StreamEnabled": False})
    finding = the(seen(used), "tables", WARN)
    assert "has no stream of old and new images: the history stands still" in finding.what
    assert "QUARTERJACK_HISTORY=off" in str(finding.remedy)
    without = seen(replace(used, history=False))
    assert bad(without) == {}
    assert "history" not in without


def test_what_is_missing_in_the_history_is_named_with_its_remedy(used: Settings) -> None:
    services, now = connect(used), system_clock()
    context = HistorianContext(services=services, now=now, batch="b")
    run = a_run()
    change = RunChange(ref=run.ref, sequence=7, at=now, old=None, new=run)
    set_aside(change, "pages", ValueError("odd"), context)
    write_gap(StreamGap(since=now - 3 * HOUR, until=now), services)
    write_position(StreamPosition(stream="s", caught_up=now - HOUR), 0, services)
    gap, aside, silent = seen(used)["history"]
    assert "may be missing in the history" in gap.what
    assert "quarterjack history rebuild" in str(gap.remedy)
    assert f"1 changes could not be handled, such as one of {run.ref} by pages: ValueError('odd')" in aside.what
    assert "60 minutes ago" in silent.what
    assert "quarterjack historian" in str(silent.remedy)


def test_a_missing_queue_and_one_that_forgets_its_dead(used: Settings) -> None:
    sqs = client(used, "sqs")
    work = sqs.get_queue_url(QueueName=used.queue("work"))["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=work, Attributes={"RedrivePolicy": ""})
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=used.queue("dead"))["QueueUrl"])
    found = seen(used)
    assert used.queue("dead") in the(found, "queues", FAIL).what
    assert f"not to {used.queue('dead')}" in the(found, "queues", WARN).what


@pytest.mark.parametrize(
    ("bucket", "verdict", "what"), [(None, WARN, "over 64 KB"), ("no-such-bucket", FAIL, "is not there")]
)
def test_the_bucket(used: Settings, bucket: str | None, verdict: Severity, what: str) -> None:
    finding = the(seen(replace(used, bucket=bucket)), "bucket", verdict)
    assert what in finding.what
    assert "BucketName" in str(finding.remedy)


def test_the_archives_own_bucket(used: Settings) -> None:
    finding = the(seen(replace(used, archive_bucket="no-such-bucket")), "bucket", FAIL)
    assert "is not there" in finding.what
    assert "QUARTERJACK_ARCHIVE_BUCKET" in str(finding.remedy)


@pytest.mark.parametrize(
    ("endpoint", "check", "what"),
    [("http://127.0.0.1:1", "access", "no answer"), ("127.0.0.1:4566", "configuration", "is no URL")],
)
def test_a_wrong_endpoint_is_the_last_thing_said(
    local_settings: Settings, endpoint: str, check: str, what: str
) -> None:
    found = seen(replace(local_settings, endpoint=endpoint))
    assert list(found)[-1] == check
    assert what in the(found, check, FAIL).what


def test_a_profile_that_does_not_exist(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "nobody" in the(seen(local_settings), "configuration", FAIL).what


# What moves.


@pytest.mark.parametrize(("ahead", "verdict"), [(30 * SECOND, FAIL), (-30 * SECOND, FAIL), (5 * SECOND, WARN), (0, OK)])
def test_a_skewed_clock(local_settings: Settings, ahead: int, verdict: Severity) -> None:
    found = seen(local_settings, clock=lambda: system_clock() + ahead)
    what = the(found, "clock", verdict).what
    assert ("ahead of" in what, "behind" in what) == (ahead > 0, ahead < 0)


@pytest.mark.parametrize(("later", "verdict"), [(14 * MINUTE + 10 * SECOND, WARN), (20 * MINUTE, FAIL)])
def test_a_ticker_that_stands_still(local_settings: Settings, later: int, verdict: Severity) -> None:
    """A chain is claimed up to 14 minutes ahead at its creation: then somebody has to come."""
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=14)
    owner(local_settings).create_schedule("s", "j", f"rate(1 hour, from={begin:%Y-%m-%dT%H:%M:%SZ})")
    now = to_ms(begin, "begin") - 14 * MINUTE
    finding = the(seen(local_settings, clock=lambda: now + later), "ticker", verdict)
    assert "default/s#1" in finding.what
    assert "quarterjack ticker" in str(finding.remedy)


def test_a_ticker_that_comes_leaves_nothing_late(used: Settings) -> None:
    later = system_clock() + 20 * MINUTE
    tick(connect(used), clock=lambda: later, holder="t")
    assert "ticker" not in bad(seen(used, clock=lambda: later))


def test_a_queue_that_is_held_back_is_not_the_tickers_fault(used: Settings) -> None:
    services, later = connect(used), system_clock() + 30 * MINUTE
    full = QueueHolds().begun(later - 25 * MINUTE, "depth", 51_000, None)
    services.records.write(Record(owner=OWNER, key=HOLDS, version=1, body=HoldLog(queues={None: full}).body()))
    found = seen(used, clock=lambda: later)
    assert "backpressure" in bad(found)
    finding = the(found, "backpressure", WARN)
    assert "queue default is held back since" in finding.what
    assert "51,000 messages" in finding.what
    assert "ticker" not in bad(found)
    over = full.ended(later)
    services.records.write(Record(owner=OWNER, key=HOLDS, version=2, body=HoldLog(queues={None: over}).body()))
    assert the(seen(used, clock=lambda: later), "backpressure", OK).what == "no queue is held back"


def test_stripes_that_this_process_does_not_know_of(used: Settings) -> None:
    create_queues(client(used, "sqs"), replace(used, stripes="default=3"), [])
    finding = the(seen(used), "queues", WARN)
    assert "default=3" in finding.what
    assert finding.remedy == "set QUARTERJACK_STRIPES=default=3"
    assert "queues" not in bad(seen(replace(used, stripes="default=3")))


def test_an_entry_that_fails_is_not_the_tickers_fault(used: Settings) -> None:
    agenda = connect(used).agenda
    entry = AgendaEntry(shard=0, due=system_clock() - MINUTE, kind=EntryKind.RUN, id="default/~x#once")
    agenda.put([entry])
    agenda.fail(entry)
    found = seen(used)
    assert "default/~x#once" in the(found, "ticker", WARN).what
    assert len(found["ticker"]) == 2, "and the ticker is ok"


def chain_entry(settings: Settings, name: str) -> AgendaEntry:
    agenda = connect(settings).agenda
    shards = range(agenda.layout().shards)
    (entry,) = (
        entry
        for shard in shards
        for entry in agenda.due(shard, upto=10**14, after=None, limit=100).entries
        if entry.id.startswith(f"default/{name}#")
    )
    return entry


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_a_lost_chain_is_found_near_and_far(used: Settings, name: str) -> None:
    connect(used).agenda.remove([chain_entry(used, name)])
    finding = the(seen(used), "chains", FAIL)
    assert finding.what == f"1 of 2 active schedules have no entry in the agenda: {name}"
    assert "quarterjack audit" in str(finding.remedy)


def test_a_schedule_that_fails_is_named(used: Settings) -> None:
    services = connect(used)
    head = services.schedules.head("default", "sparse")
    assert head is not None
    failing = replace(head, version=head.version + 1, failing=2, incident="failure-1")
    assert services.schedules.note(IncidentChange(head=failing, expected=head.version))
    finding = the(seen(used), "incidents", WARN)
    assert finding.what == "1 of 2 active schedules fail, or had no success in time: sparse"
    assert "--failing" in str(finding.remedy)


def test_what_was_put_aside_counts_until_its_schedule_is_armed_anew(used: Settings) -> None:
    connect(used).agenda.quarantine(chain_entry(used, "sparse"), reason="r", now=system_clock())
    found = seen(used)
    assert "default/sparse#1" in the(found, "quarantined", FAIL).what
    assert "chains" not in bad(found), "it is not lost"
    owner(used).pause_schedule("sparse")
    owner(used).resume_schedule("sparse")
    assert "1 of former revisions" in the(seen(used), "quarantined", OK).what


def test_a_sample_of_many_is_bounded(local_settings: Settings) -> None:
    for number in range(5):
        owner(local_settings).create_schedule(f"s{number}", "j", "0 0 1 1 *")
    for seed in range(4):
        findings = {f.check: f for f in run_checks(local_settings, sample=3, chance=random.Random(seed))}
        assert findings["chains"].what.startswith("3 active schedules of default checked")


def test_messages_that_nobody_takes(used: Settings) -> None:
    owner(used).submit("j")
    client(used, "sqs").send_message(
        QueueUrl=client(used, "sqs").get_queue_url(QueueName=used.queue("dead"))["QueueUrl"], MessageBody="{}"
    )
    wrong = bad(seen(used))["backlog"]
    assert [part in text for part, text in zip(("1 dead letters", "no worker has any"), wrong, strict=True)] == [
        True
    ] * 2
    connect(used).work.receive(most=1, wait=1, visibility=60)
    assert len(bad(seen(used))["backlog"]) == 1, "a worker has it now"


def test_workers_that_get_messages_of_another_application(used: Settings) -> None:
    services, now = connect(used), system_clock()

    def tell(name: str, queue: str, ago: int, *jobs: str) -> None:
        identity = WorkerIdentity(name=name, kind=WorkerKind.PROCESS, host="h", version="1", queue=queue, started_at=0)
        row = WorkerRow(
            identity=identity, seen_at=now, unknown=GivenBack().plus(jobs, now - ago) if jobs else GivenBack()
        )
        assert services.records.write(
            Record(owner=owner_of(name), key=f"{KEY}{name}", version=1, body=record_body(row))
        )

    tell("shop", "default", 0)
    tell("mail", "mail", 2 * HOUR, "long.ago")
    assert "2 workers know the jobs" in the(seen(used), "shared_queues", OK).what
    tell("blog", "default", MINUTE, *[f"job-{number}" for number in range(9)])
    found = the(seen(used), "shared_queues", WARN)
    assert found.what.startswith(
        "workers of queue default (blog) gave back 9 messages of jobs that they do not know: job-4, job-5"
    )
    assert 'Queue("shop")' in str(found.remedy)


def test_runs_that_wait_for_a_version_without_workers(used: Settings) -> None:
    services, now, told = connect(used), system_clock(), list[str]()

    def tell(name: str, seen: int, unserved: int | None = None) -> None:
        identity = WorkerIdentity(
            name=name, kind=WorkerKind.FUNCTION, host="h", version="1", app_version=name, started_at=0
        )
        back = GivenBack() if unserved is None else GivenBack().plus(["1.1"] * 3, now - unserved)
        row = WorkerRow(identity=identity, seen_at=now - seen, unserved=back)
        told.append(name)
        record = Record(owner=owner_of(name), key=f"{KEY}{name}", version=told.count(name), body=record_body(row))
        assert services.records.write(record)

    assert "versions" not in seen(used)
    for name in ("1.0", "1.1", "1.2"):
        register(name, 1.0, services, now)
    tell("1.0", 0, unserved=20 * MINUTE)
    assert "the latest is 1.2" in the(seen(used), "versions", OK).what
    tell("1.0", 0, unserved=MINUTE)
    found = the(seen(used), "versions", WARN)
    assert found.what.startswith("runs wait for version 1.1: a worker gave one back at")
    assert "versions retire 1.1 --to OTHER" in str(found.remedy)
    tell("1.1", 9 * MINUTE)
    assert "no run was found" in the(seen(used), "versions", OK).what
    owner(used).retire_application_version("1.1", to="1.2")
    assert "for version 1.2:" in the(seen(used), "versions", WARN).what


# Jobs.


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def test_jobs_that_cannot_be_imported(used: Settings, package: Callable[[str, str], str]) -> None:
    broken = package("doctor_broken", "raise RuntimeError('half a deployment')")
    wrong = bad(seen(used, jobs=(broken, "doctor_nowhere")))["jobs"]
    assert "half a deployment" in wrong[0]
    assert "doctor_nowhere" in wrong[1]


def test_jobs_that_schedules_name_and_no_package_declares(used: Settings, package: Callable[[str, str], str]) -> None:
    known = package("doctor_jobs", "from quarterjack import job\n@job('doctor.known')\ndef f(ctx, payload): ...\n")
    (wrong,) = bad(seen(used, jobs=(known,)))["jobs"]
    assert "'j' (schedule " in wrong
    assert "known jobs: " in wrong


def publish(settings: Settings, name: str, *, ago: int = 0) -> None:
    services = connect(settings)
    publisher = CataloguePublisher(services, lambda now: list(sets_of([PublishedJob(name=name)], None, now)))
    publisher.publish(system_clock() - ago)


def test_jobs_that_schedules_name_and_no_worker_has_ever_known(used: Settings) -> None:
    publish(used, "jj")
    (wrong,) = bad(seen(used))["jobs"]
    assert "no worker has ever known" in wrong
    assert "did you mean 'jj'?" in wrong
    publish(used, "j")
    assert "jobs" not in bad(seen(used))
    assert "2 active schedules" in the(seen(used), "jobs", OK).what


def allow(settings: Settings, *jobs: str) -> None:
    store, tenant = connect(settings).tenants, settings.tenant
    present = store.profile(tenant)
    assert store.put(TenantProfile(tenant=tenant, jobs=jobs), expected=0 if present is None else present.version)


def test_jobs_that_the_tenant_may_not_run(used: Settings) -> None:
    assert "grants" not in seen(used), "nothing is limited"
    allow(used, "other")
    (wrong,) = bad(seen(used))["grants"]
    assert f"active schedules name jobs that tenant {used.tenant!r} may not run: 'j' (schedule " in wrong
    finding = the(seen(used), "grants", Severity.WARN)
    assert f"quarterjack tenants set {used.tenant} --add-job j" in str(finding.remedy)
    allow(used, "*")
    assert "may run all 1 jobs" in the(seen(used), "grants", OK).what
    services = connect(used)
    jobs = [PublishedJob(name="j", by_name=True)]
    CataloguePublisher(services, lambda now: list(sets_of(jobs, None, now))).publish(system_clock())
    assert "grants" in bad(seen(used)), "no pattern gives what does whatever its payload says"


def test_jobs_that_no_worker_has_named_for_a_week(used: Settings) -> None:
    publish(used, "j", ago=STALE + HOUR)
    assert "jobs" not in bad(seen(used)), "no other worker has spoken since"
    publish(used, "other")
    assert "for a week" in bad(seen(used))["jobs"][0]


def test_a_suspended_tenant_is_told(used: Settings) -> None:
    tenants = Tenants(settings=used)
    assert "has no profile" in the(seen(used), "tenant", OK).what
    tenants.suspend(used.tenant, reason="unpaid")
    found = the(seen(used), "tenant", WARN)
    assert "suspended: unpaid" in found.what
    assert found.remedy is not None
    assert f"tenants resume {used.tenant}" in found.remedy
    tenants.resume(used.tenant)
    assert "is served" in the(seen(used), "tenant", OK).what


def test_a_queue_of_a_profile_that_does_not_exist_is_told(used: Settings) -> None:
    Tenants(settings=used).set(INSTALLATION, queue="typo")
    found = the(seen(used), "tenant", FAIL)
    assert "queue='typo' of the profile" in found.what
    with pytest.raises(InvalidInput, match=r"queue='typo': is the queue of the profile of tenant .*ask an operator"):
        Scheduler(used.tenant, settings=used).submit("note")
    Tenants(settings=used).set(used.tenant, queue="default")
    assert "is served" in the(seen(used), "tenant", OK).what
    with pytest.raises(InvalidInput, match="queue='other': is not declared"):
        Scheduler(used.tenant, settings=used).submit("note", queue="other")


def test_a_profile_that_cannot_be_read_stops_the_tenant(used: Settings) -> None:
    item = {"tenant": {"S": used.tenant}, "item": {"S": "#profile"}, "state": {"S": "HAPPY"}}
    client(used, "dynamodb").put_item(TableName=used.table("tenants"), Item=item)
    assert "no run of tenant" in the(seen(used), "tenant", FAIL).what
