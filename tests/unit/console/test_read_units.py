"""What pages read over a large installation: at most so many read units, however much there is; filtered ones say how far they looked."""

from __future__ import annotations

import gzip
import re
from html import unescape

import pytest
from fastapi import FastAPI
from quarterjack.domain.times import DAY, from_ms
from quarterjack.stores.tables import RUNS

from bench.console.ledger import TENANT, LargeLedger, LedgerSize, large_ledger
from bench.console.pages import KEY, READS, addresses, application, page_paths, values_of
from tests.support.api import AsgiClient

MOST = 250  # read units
SIZE = LedgerSize(schedules=3_000, runs=2_000, days=3, dead=6_000, audit_entries=4_000)


class Large:
    """An installation, and a client that is let in."""

    def __init__(self) -> None:
        self.ledger: LargeLedger = large_ledger(SIZE)
        self.app: FastAPI = application(self.ledger)
        self.client = AsgiClient(self.app, {"Authorization": f"Bearer {KEY}"})

    def get(self, address: str) -> tuple[str, float]:
        """An answer, and the read units that it took."""
        reads = self.ledger.memory.reads
        reads.reset()
        answer = self.client.get(address)
        assert answer.status_code in (200, 303), answer.text
        return answer.text, reads.units

    def page(self, path: str) -> tuple[str, float]:
        return self.get(f"/console/t/{TENANT}/{path}")


@pytest.fixture(scope="module")
def large() -> Large:
    return Large()


def test_every_page_reads_at_most_so_much(large: Large) -> None:
    found = addresses(large.app, large.ledger)
    assert len(found) > 30
    beyond = {}
    for path in found:
        _, units = large.page(path)
        if units > MOST:
            beyond[path] = units, large.ledger.memory.reads.by_verb.most_common(3)
    assert beyond == {}


def test_every_path_is_known_or_left_out(large: Large) -> None:
    """A new kind of parameter in an address needs a value here, or its page is not measured."""
    known = {*values_of(large.ledger), "backfill", "key", "day", "id"}
    assert {name for path in page_paths(large.app) for name in re.findall(r"{(\w+)}", path)} <= known


def test_every_read_of_the_api_is_bounded_too(large: Large) -> None:
    for path in READS:
        _, units = large.get(f"/v1/tenants/{TENANT}/{path.format(**values_of(large.ledger))}")
        assert units <= MOST, (path, units)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("schedules?q=schedule-02999", "Searched up to"),
        ("dead?days=30&job=jobs.nothing", "Searched back to"),
        ("audit?days=30&actor=nobody", "Searched back to"),
    ],
)
def test_a_filter_that_little_meets_stops_and_goes_on_to_the_end(large: Large, path: str, said: str) -> None:
    address, pages, text = f"/console/t/{TENANT}/{path}", 0, ""
    while pages < 100:
        text, units = large.get(address)
        pages += 1
        assert units <= MOST
        links = re.findall(r'<a class="button" href="([^"]*cursor=[^"]*)"', text)
        if not links:
            break
        assert said in text
        address = unescape(links[0])
    assert 1 < pages < 100
    assert "schedules" not in path or "schedule-02999</bdi></a>" in text


def test_dead_runs_are_all_found_by_a_search_that_stops_again_and_again(large: Large) -> None:
    """Each is on one page, and ``searched_to`` never lies before what is still to come."""
    scheduler, found, cursor, before = large.ledger.scheduler, list[str](), None, None
    since = from_ms(large.ledger.clock() - 30 * DAY)
    while True:
        page = scheduler.list_dead(job="jobs.job_3", since=since, limit=1_000, cursor=cursor)
        assert before is None or all(run.ended_at <= before for run in page.items)
        found += [run.id for run in page.items]
        cursor, before = page.cursor, page.searched_to
        if cursor is None:
            break
    lines = [row for of, _, row in large.ledger.memory.table(RUNS) if "#dead#" in of and row["job"] == "jobs.job_3"]
    assert len(found) == len(set(found)) == len(lines) > 100


def test_a_page_of_schedules_with_their_runs_is_small(large: Large) -> None:
    text, _ = large.page("schedules")
    assert text.count('<th scope="row">') == 50
    assert len(gzip.compress(text.encode())) <= 20_000


def test_one_schedule_costs_the_same_however_many_runs_it_has(large: Large) -> None:
    """A page of a schedule's runs reads the rows that it shows and one more."""
    costs = set()
    for number in (0, 3):  # 1,000 runs, and 30
        name = f"team-{number:02}/schedule-{number:05}"
        large.ledger.scheduler.list_runs(name, newest_first=True, limit=20)
        large.ledger.memory.reads.reset()
        assert len(large.ledger.scheduler.list_runs(name, newest_first=True, limit=20).items) == 20
        costs.add(large.ledger.memory.reads.units)
    assert len(costs) == 1
