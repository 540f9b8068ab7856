"""What commands say of an instant at which so many schedules fire that their runs start late."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import to_ms
from quarterjack.services import connect
from quarterjack.state.worker_record import KEY, WorkerIdentity, WorkerKind, WorkerRow, owner_of, record_body
from quarterjack.stores.records import Record

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

RULE = "0 0 1 1 *"
NEW_YEAR = datetime(datetime.now(UTC).year + 1, 1, 1, tzinfo=UTC)


def fill(settings: Settings, fires: int) -> None:
    """So many fires at the new year in each shard, of another tenant."""
    services, due = connect(settings), to_ms(NEW_YEAR, "at")
    for shard in range(services.agenda.layout().shards):
        put = [
            AgendaEntry(shard=shard, due=due, kind=EntryKind.CHAIN, id=f"other/{shard}-{each}#1")
            for each in range(fires)
        ]
        for first in range(0, fires, 25):
            services.agenda.put(put[first : first + 25])


def slow_worker(settings: Settings) -> None:
    """A worker process with one slot."""
    now = int(time.time() * 1_000)
    who = WorkerIdentity(
        name="w", kind=WorkerKind.PROCESS, host="h", version="1", queue="default", concurrency=1, started_at=now
    )
    row = WorkerRow(identity=who, seen_at=now)
    record = Record(owner=owner_of("w"), key=f"{KEY}w", version=1, body=record_body(row), expires=row.expires)
    assert connect(settings).records.write(record)


def test_create_and_preview_say_how_late_a_crowded_instant_is(said: Say, local_settings: Settings) -> None:
    assert "capacity model" not in said("schedules", "create", "quiet", "report", RULE).err
    fill(local_settings, 300)
    made = said("schedules", "create", "one", "report", RULE)
    assert made.code == 0
    assert f"are due at {NEW_YEAR:%Y-%m-%d} 00:00:00 UTC: by the capacity model the last of them start" in made.err
    assert "Rule(window=" in made.err
    assert "capacity model" in said("schedules", "preview", "one").err
    assert "capacity model" not in said("schedules", "preview", "one", "--after", "2d").err


def test_apply_says_it_before_anything_is_written_and_forecast_afterwards(
    said: Say, local_settings: Settings, tmp_path: Path
) -> None:
    slow_worker(local_settings)
    place = tmp_path / "s.yaml"
    one = f"  {{name}}:\n    job: report\n    expression: '{RULE}'\n"
    place.write_text("managed_by: acme\nschedules:\n" + "".join(one.format(name=f"s-{each}") for each in range(100)))
    shown = said("apply", str(place), "--dry-run")
    assert f"100 fires of queue default are due at {NEW_YEAR:%Y-%m-%d}" in shown.err
    assert "start 8 s late" in shown.err
    scheduler = Scheduler(settings=local_settings)
    for number in range(100):
        scheduler.create_schedule(f"s-{number}", "report", RULE)
    found = said("forecast", "--by", "day", "--until", "400d")
    assert "100 fires are due at" in found.err
    assert "start 8 s late; Rule(window=10)" in found.err
