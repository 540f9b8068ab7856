"""Records: a version decides a race; the same write again is no race."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.times import DAY
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record

from tests.support.builders import NOON, OWNER, an_audit_entry

FIRST = Record(owner=OWNER, key="~x#1", version=1, body={"b": 1, "a": 2}, expires=NOON)
SECOND = replace(FIRST, version=2, body={})


def test_a_record_is_written_over_the_version_before(services: Services) -> None:
    assert not services.records.write(SECOND), "there is no version 1"
    assert services.records.write(FIRST)
    assert services.records.write(FIRST), "a response was lost"
    assert not services.records.write(replace(FIRST, body={"b": 2}))
    assert services.records.write(SECOND)
    assert not services.records.write(FIRST)
    assert services.records.read(OWNER, FIRST.key) == SECOND
    assert services.records.read(OWNER, "~none") is None


def test_a_record_with_a_line_or_others_is_one_transaction(services: Services) -> None:
    other = replace(FIRST, key="~y", version=7)
    assert services.records.write(FIRST, an_audit_entry(), beside=[other])
    assert services.records.read(OWNER, "~y") == other, "its version does not count"
    assert not services.records.write(FIRST, an_audit_entry(at=NOON + 1), beside=[replace(other, body={})])
    assert services.records.read(OWNER, "~y") == other
    assert len(list(services.audit.entries("acme", NOON // DAY))) == 1


def test_only_the_version_that_was_read_is_removed(services: Services) -> None:
    services.records.write(FIRST)
    assert not services.records.remove(SECOND)
    assert [services.records.remove(FIRST), services.records.remove(FIRST)] == [True, True]


def test_records_are_listed_by_their_prefix_in_order(services: Services) -> None:
    found = [replace(FIRST, key=key) for key in ("~x#2", "~x#1", "~y#1")]
    for record in found:
        services.records.write(record)
    assert [record.key for record in services.records.listed(OWNER, "~x#")] == ["~x#1", "~x#2"]
