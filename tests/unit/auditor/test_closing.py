"""The close of the audit's days, and what ``verify`` finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from quarterjack.auditor.log_closing import ClosingReport, anchor_of, close_days
from quarterjack.auditor.log_verification import AuditVerdict
from quarterjack.domain.audit import AuditAct, anchor_key, root_of
from quarterjack.domain.times import DAY, HOUR, MINUTE
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.stores.audit import audit_row, close_of, close_row
from quarterjack.stores.tables import AUDIT, RowWrite
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.memory.calls import READS

from tests.support.builders import an_audit_entry
from tests.support.scenes.world import START, Faults, World, crash, fails

DAILY = "0 0 * * *"
FIRST = START.date()  # the day on which a story begins, at noon


class Story:
    """Three days with entries of two tenants."""

    def __init__(self) -> None:
        self.world = World()
        self.owner = self.world.owner()
        self.other = type(self.owner)("other", services=self.world.process(), clock=self.world.clock)
        self.owner.create_schedule("s", "note", DAILY)
        self.other.create_schedule("t", "note", DAILY)
        for number in range(5):
            self.pass_time(12)
            self.owner.acting_as("alice").update_schedule("s", description=str(number))

    def pass_time(self, hours: float) -> None:
        self.world.clock.advance(timedelta(hours=hours))

    def close(self, hook: Any = None) -> int:
        return self.report(hook).closed

    def report(self, hook: Any = None) -> ClosingReport:
        return close_days(self.world.process(hook), clock=self.world.clock)

    def verify(self, **span: Any) -> AuditVerdict:
        return self.owner.verify_audit(**span)

    def rows(self, partition: str) -> list[dict[str, Any]]:
        return [row for row in self.world.memory.audit_rows() if row["partition"] == partition]

    def entries(self, day: int = 0) -> list[dict[str, Any]]:
        return self.rows(f"acme#{FIRST + timedelta(days=day)}")

    def put(self, row: dict[str, Any]) -> None:
        self.tamper(RowWrite(table=AUDIT, row=row, kind="put"))

    def delete(self, row: dict[str, Any]) -> None:
        self.tamper(RowWrite(table=AUDIT, row=row, kind="delete"))

    def tamper(self, write: RowWrite) -> None:
        services: Any = self.world.process()
        services.audit._tables.write("tamper", write)


def kinds(verdict: AuditVerdict) -> list[tuple[str, str | None]]:
    return [(str(problem.kind), problem.day) for problem in verdict.problems]


def day(number: int) -> str:
    return (FIRST + timedelta(days=number)).isoformat()


def test_days_close_an_hour_after_their_end_and_once() -> None:
    story = Story()  # it is midnight: the third day has begun
    assert story.world.now() == START + timedelta(hours=60)
    story.pass_time(0.99)
    assert story.close() == 3  # two days of acme, one of other
    story.pass_time(0.02)
    assert story.close() == 1  # of acme's third day
    assert story.close() == 0
    closes = story.rows("acme#~close")
    assert [(row["number"], row["entries"]) for row in closes] == [(1, 1), (2, 2), (3, 2)]
    assert [row["previous"] for row in closes] == ["", *(row["digest"] for row in closes[:-1])]
    assert kinds(story.verify()) == []


def test_a_whole_audit_verifies() -> None:
    story = Story()
    story.pass_time(26)
    story.close()
    found = story.verify()
    assert (found.entries, found.days, found.closes, found.anchored, found.erased) == (6, 4, 4, 4, 0)
    assert found.problems == []
    assert story.other.verify_audit().problems == []


@pytest.mark.parametrize("read", range(10))
def test_a_day_that_is_closed_while_it_is_verified_is_no_finding(read: int) -> None:
    """Reads are slow, and an auditor closes the third day between two of them, whichever these are."""
    story = Story()
    story.pass_time(0.5)
    assert story.close() == 3
    story.pass_time(1)

    class Meanwhile(Hook):
        reads = 0

        def after_call(self, operation: str, detail: Detail) -> None:
            if operation in READS:
                story.world.clock.advance(timedelta(milliseconds=150))
                self.reads += 1
                if self.reads == read + 1:
                    assert story.close() == 1

    hook = Meanwhile()
    verdict = type(story.owner)("acme", services=story.world.process(hook), clock=story.world.clock).verify_audit()
    assert hook.reads > 10, "more reads than the test tries"
    assert (verdict.entries, kinds(verdict)) == (6, [])
    assert kinds(story.verify()) == []


def test_no_line_comes_into_a_closed_day() -> None:
    story = Story()
    behind = story.world.process()
    slow = type(story.owner)("acme", services=behind, clock=lambda: story.world.clock() - 26 * HOUR)
    slow.update_schedule("s", description="a day behind")  # no auditor has come yet
    story.pass_time(2)
    story.close()
    with pytest.raises(Unavailable, match="is closed"):
        slow.update_schedule("s", description="nothing of it is written")
    assert story.owner.get_schedule("s").description == "a day behind"
    story.owner.update_schedule("s", description="the right time")


@pytest.mark.parametrize("verb", ["shut", "entries", "close_day"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_line_that_comes_while_its_day_is_closed_is_in_the_close_or_refused(verb: str, moment: str) -> None:
    story = Story()
    late = type(story.owner)("acme", services=story.world.process(), clock=lambda: story.world.clock() - 2 * HOUR)
    story.pass_time(1.5)
    results = []

    def act() -> None:
        try:
            late.update_schedule("s", description="late")
        except Unavailable:
            results.append("refused")
        else:
            results.append("written")

    when: Any = {moment: act}
    story.close(Faults().at(verb, skip=3, **when))
    assert results == ["written" if (verb, moment) == ("shut", "before") else "refused"]
    assert kinds(story.verify()) == []


def test_an_auditor_that_dies_anywhere_is_followed_by_another() -> None:
    for verb in ("tenants", "closes", "shut", "entries", "close_day"):
        for moment in ("before", "after"):
            story = Story()
            story.pass_time(2)
            when: Any = {moment: crash}
            with pytest.raises(Crash):
                story.close(Faults().at(verb, skip=1, **when))
            story.close()
            assert kinds(story.verify()) == [], (verb, moment)
            assert story.verify().closes == 3


def test_two_auditors_close_each_day_once() -> None:
    story = Story()
    story.pass_time(2)
    story.close(Faults().at("close_day", before=story.close))
    assert len(story.rows("acme#~close")) == 3
    assert kinds(story.verify()) == []


def test_a_tenant_that_fails_stops_no_other() -> None:
    story = Story()
    story.pass_time(2)
    assert story.close(Faults().at("closes", before=fails, times=2)) < 4
    story.close()
    assert {row["tenant"] for row in story.world.memory.audit_rows() if row["partition"].endswith("~close")} == {
        "acme",
        "other",
    }


def test_after_an_outage_of_the_auditor_all_days_are_closed_late() -> None:
    story = Story()
    story.pass_time(24 * 20)
    assert {problem.kind for problem in story.verify().problems} == {"unclosed"}
    story.close()
    assert kinds(story.verify()) == []
    reads = Faults()
    story.close(reads)
    assert reads.count("Query") < 8, "days that are done are not read again"


def changed(story: Story) -> None:
    story.put(story.entries(1)[0] | {"actor": "app:mallory"})


def changed_with_its_digest(story: Story) -> None:
    (entry, *_) = story.world.memory.audit_entries()
    story.put(audit_row(an_audit_entry("acme/s", at=entry.at, id=entry.id)))


def removed(story: Story) -> None:
    story.delete(story.entries(1)[0])


def all_removed(story: Story) -> None:
    for row in story.entries(1):
        story.delete(row)


def added(story: Story) -> None:
    entry = story.world.memory.audit_entries()[0]
    story.put(audit_row(an_audit_entry("acme/s", at=entry.at + MINUTE, act=AuditAct.DELETE)))


def swapped(story: Story) -> None:
    removed(story)
    entry = story.world.memory.audit_entries()[0]
    story.put(audit_row(an_audit_entry("acme/s", at=entry.at + DAY, act=AuditAct.DELETE)))


def close_removed(story: Story) -> None:
    story.delete(story.rows("acme#~close")[1])


def last_close_removed(story: Story) -> None:
    story.delete(story.rows("acme#~close")[-1])


def close_changed(story: Story) -> None:
    story.put(story.rows("acme#~close")[0] | {"entries": 7})


def close_replaced(story: Story) -> None:
    """With entries and digests that fit: only the close after it, or the bucket, shows it."""
    removed(story)
    close = close_of(story.rows("acme#~close")[1])
    digests = [row["digest"] for row in story.entries(1)]
    story.put(close_row(replace(close, entries=len(digests), root=root_of(digests))))


def gate_damaged(story: Story) -> None:
    row = story.rows("acme#~shut")[0]
    story.put({name: value for name, value in row.items() if name != "day"})


def gate_removed(story: Story) -> None:
    story.delete(story.rows("acme#~shut")[-1])


def close_damaged(story: Story) -> None:
    row = story.rows("acme#~close")[1]
    story.put({name: value for name, value in row.items() if name != "root"})


def close_of_text(story: Story) -> None:
    story.put(story.rows("acme#~close")[0] | {"entries": "many"})


def line_damaged(story: Story) -> None:
    story.put(story.entries(1)[0] | {"actor": b"\x00"})


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (changed, [("changed", day(1))]),
        (changed_with_its_digest, [("changed", day(0))]),
        (removed, [("removed", day(1))]),
        (all_removed, [("removed", day(1))]),
        (added, [("added", day(0))]),
        (swapped, [("changed", day(1))]),
        (close_removed, [("chain", day(2)), ("anchor", None), ("unclosed", day(1))]),
        (last_close_removed, [("anchor", None), ("unclosed", day(2))]),
        (close_changed, [("chain", day(0)), ("chain", day(1)), ("anchor", day(0)), ("removed", day(0))]),
        (close_replaced, [("chain", day(2)), ("anchor", day(1))]),
        (gate_damaged, [("gate", day(0))]),
        (gate_removed, [("gate", day(2))]),
        (close_damaged, [("chain", None), ("unclosed", day(1))]),
        (close_of_text, [("chain", None), ("unclosed", day(0))]),
        (line_damaged, [("changed", day(1))]),
    ],
)
def test_tampering_is_found(tamper: Callable[[Story], None], found: list[tuple[str, str | None]]) -> None:
    story = Story()
    story.pass_time(6)
    story.close()
    assert kinds(story.verify()) == []
    tamper(story)
    assert sorted(kinds(story.verify()), key=str) == sorted(found, key=str)
    assert story.other.verify_audit().problems == []


def test_beside_a_damaged_gate_and_close_the_rest_is_verified() -> None:
    story = Story()
    story.pass_time(6)
    story.close()
    gate_damaged(story)
    close_damaged(story)
    changed(story)
    removed_of_day_2 = story.entries(2)[0]
    story.delete(removed_of_day_2)
    assert set(kinds(story.verify())) >= {("gate", day(0)), ("chain", None), ("changed", day(1)), ("removed", day(2))}


def test_a_changed_line_of_an_open_day_is_found_by_its_digest() -> None:
    story = Story()
    story.pass_time(0.5)
    story.close()
    story.put(story.entries(2)[0] | {"reason": "another"})
    assert kinds(story.verify()) == [("changed", day(2))]


def test_the_newest_close_that_was_replaced_is_found_by_its_object_in_the_bucket() -> None:
    story = Story()
    story.pass_time(2)
    story.close()
    key = anchor_key("acme", 3)
    assert key in story.world.memory.archived
    story.world.memory.archived[key] = b"not even gzip"
    assert kinds(story.verify()) == [("anchor", day(2))]


def forge_newest_close(story: Story) -> bytes:
    """All entries of a day are removed, and its close says that there never were any; returns the anchor of that close."""
    for entry in story.entries(2):
        story.delete(entry)
    row = story.rows("acme#~close")[-1]
    forged = replace(close_of(row), entries=0, root=root_of([]))
    story.put(close_row(forged))
    return anchor_of(forged)


@pytest.mark.parametrize("removes_first", [False, True], ids=["put over it", "removed, and put again"])
def test_an_anchor_that_was_replaced_with_its_close_is_found_by_its_first_version(*, removes_first: bool) -> None:
    """A lock keeps the first version, but lets newer ones hide it."""
    story = Story()
    story.pass_time(2)
    story.close()
    forged, key, bucket = forge_newest_close(story), anchor_key("acme", 3), story.world.memory.archived
    if removes_first:
        del bucket[key]
    bucket[key] = forged
    found = [each.text for each in story.verify().problems]
    assert len(found) == 2
    assert all(text in " ".join(found) for text in ("was replaced or removed", "differs from the one in the bucket"))
    assert story.report().failed == 0


def test_an_anchor_that_was_only_removed_is_found() -> None:
    story = Story()
    story.pass_time(2)
    story.close()
    del story.world.memory.archived[anchor_key("acme", 3)]
    assert kinds(story.verify()) == [("anchor", day(2))]


def remove_newest_day(story: Story) -> None:
    """Entries, close, gates and registration: as if nothing had been done on it."""
    close = story.rows("acme#~close")[-1]
    gone = [row for row in story.rows("acme#~shut") if row["day"] == close["day"]]
    for row in [*story.entries(2), close, *gone, *story.rows(f"~days#{day(2)}")]:
        story.delete(row)


def closed_and_removed() -> Story:
    story = Story()
    story.pass_time(6)
    story.close()
    remove_newest_day(story)
    return story


@pytest.mark.parametrize("registered", [False, True], ids=["a day later", "the same day again"])
def test_the_newest_closed_day_that_was_removed_whole_stays_found(*, registered: bool) -> None:
    """The auditor does not close another day under its number, which would replace the one proof that it was there."""
    story = closed_and_removed()
    anchored = dict(story.world.memory.archived)
    if registered:
        story.put({"partition": f"~days#{day(2)}", "key": "acme"})
    else:
        story.owner.update_schedule("s", description="next")
    story.other.update_schedule("t", description="next")
    assert ("anchor", None) in kinds(story.verify())
    story.pass_time(30)
    found = [story.report() for _ in range(3)]
    assert [one.contradicted for one in found] == [1 + registered] * 3  # with the next day, which has an entry
    assert found[0].closed == 1, "of the other tenant"
    assert {key: story.world.memory.archived[key] for key in anchored} == anchored
    assert ("anchor", None) in kinds(story.verify())
    assert f"of {day(2)} is in the bucket alone" in next(
        one.text for one in story.verify().problems if one.kind == "anchor"
    )
    assert story.other.verify_audit().problems == []


def test_all_closes_that_were_removed_stay_found() -> None:
    story = closed_and_removed()
    for row in story.rows("acme#~close"):
        story.delete(row)
    story.close()
    assert sum(kind == "anchor" for kind, _ in kinds(story.verify())) == 3


def test_a_close_that_was_replaced_before_it_was_anchored_again_is_told() -> None:
    story = Story()
    story.pass_time(1.5)
    story.close()
    close = close_of(story.rows("acme#~close")[-1])
    story.put(close_row(replace(close, entries=0, root=root_of([]))))
    assert story.report().contradicted == 1
    assert ("anchor", day(2)) in kinds(story.verify())


def test_two_auditors_at_one_number_contradict_nothing() -> None:
    story = Story()
    story.pass_time(2)
    for verb in ("keys", "put_new"):
        assert story.report(Faults().at(verb, before=story.close)).contradicted == 0
    assert kinds(story.verify()) == []
    assert story.verify().anchored == 3


def test_a_bucket_that_does_not_answer_is_tried_again() -> None:
    story = Story()
    story.pass_time(2)
    assert story.report(Faults().at("put_new", before=fails, times=None)).failed == 4
    story.close()
    assert story.verify().anchored == 3


def test_an_erased_line_leaves_its_digest_and_the_day_verifies() -> None:
    story = Story()
    story.pass_time(2)
    story.close()
    row = story.entries(1)[0]
    story.put({"partition": row["partition"], "key": row["key"], "digest": row["digest"], "erased": 1})
    verdict = story.verify()
    assert (kinds(verdict), verdict.erased, verdict.entries) == ([], 1, 6)
    assert len(story.owner.audit().items) == 5


@pytest.mark.parametrize(
    ("field", "span"),
    [
        ("day", {"day": "2026-05-04"}),
        ("day", {"day": datetime(2026, 5, 4, tzinfo=UTC)}),
        ("day", {"day": FIRST, "since": START}),
        ("since", {"since": START + timedelta(days=9)}),
        ("since", {"since": "yesterday"}),
        ("day", {"day": date(1960, 1, 1)}),
        ("limit", {"limit": 0}),
    ],
)
def test_what_to_verify_is_checked(field: str, span: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as problem:
        World().scheduler.verify_audit(**span)
    assert problem.value.field == field


def test_a_limit_stops_before_a_day_that_does_not_fit_and_says_where_to_go_on() -> None:
    story = Story()  # 1, 2, 2 and 1 entries
    story.pass_time(26)
    story.close()
    story.delete(story.entries(1)[0])
    upto, found, steps = story.world.now(), list[AuditVerdict](), []
    while True:
        found.append(verdict := story.verify(since=START, until=upto, limit=3))
        steps.append((verdict.entries, verdict.rest, verdict.too_long))
        if verdict.rest is None:
            break
        upto = datetime.combine(date.fromisoformat(verdict.rest), datetime.max.time(), UTC)
    assert steps == [(3, day(1), None), (2, None, None)]
    assert [kinds(verdict) for verdict in found] == [[], [("removed", day(1))]]


def test_a_day_with_more_lines_than_the_limit_is_passed_over_and_named() -> None:
    story = Story()
    story.pass_time(26)
    story.close()
    story.delete(story.entries(1)[0])
    end = datetime.combine(FIRST + timedelta(days=2), datetime.max.time(), UTC)
    verdict = story.verify(since=START, until=end, limit=1)
    assert (verdict.too_long, verdict.rest, verdict.entries, verdict.days) == (day(2), day(1), 0, 0)
    verdict = story.verify(day=FIRST + timedelta(days=2), limit=1)
    assert (verdict.too_long, verdict.rest) == (day(2), None)


def test_one_day_can_be_verified_alone() -> None:
    story = Story()
    story.pass_time(6)
    story.close()
    removed(story)
    assert kinds(story.verify(day=FIRST)) == []
    assert kinds(story.verify(day=FIRST + timedelta(days=1))) == [("removed", day(1))]
    assert kinds(story.verify(since=START + timedelta(days=2))) == []
