"""The archive's bucket, on every engine."""

from __future__ import annotations

from quarterjack.auditor.log_closing import anchors
from quarterjack.domain.audit import anchor_key, anchors_of
from quarterjack.domain.history.archive_objects import keys_between, object_key, tenant_prefix
from quarterjack.domain.times import HOUR
from quarterjack.historian.archive import ArchiveFilter, archive, read_archive
from quarterjack.ports.services import Services

from tests.support.builders import NOON, a_run
from tests.support.engines import Engine
from tests.support.transitions import context_of, life


def test_objects_are_listed_and_read_by_their_keys(services: Services) -> None:
    store = services.archive
    assert store.is_on
    hours = {object_key("acme", NOON + hour * HOUR, f"b{hour}", b""): f"{hour}".encode() for hour in range(3)}
    store.put(hours | {object_key("acme2", NOON, "b", b""): b"another's"})
    store.put({})
    first, last = keys_between("acme", NOON, NOON + 2 * HOUR)
    found = list(store.keys(tenant_prefix("acme"), after=first, before=last))
    assert found == list(hours)
    first, last = keys_between("acme", NOON + HOUR, NOON + HOUR + 1)
    assert list(store.keys(tenant_prefix("acme"), after=first, before=last)) == found[1:2]
    assert store.get([found[2], f"{found[0]}x", found[0]]) == [b"2", None, b"0"]
    assert store.get([]) == []
    store.put({found[0]: b"in its place"})
    assert store.get(found[:1]) == [b"in its place"]


def test_an_object_is_put_only_where_there_is_none(services: Services) -> None:
    store, key = services.archive, anchor_key("acme", 1)
    assert store.put_new(key, b"first")
    assert not store.put_new(key, b"second")
    assert not store.put_new(key, b"first")
    assert store.get([key]) == [b"first"]
    assert list(anchors("acme", services)) == [key]
    assert list(anchors("acme", services, after=1)) == []


def test_an_object_that_was_replaced_or_removed_is_read_as_it_was_put_first(engine: Engine) -> None:
    store = engine.services.archive
    if engine.settings is not None:
        versioned = {"Bucket": engine.settings.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
        engine.clients["s3"].put_bucket_versioning(**versioned)
    whole, replaced, removed, again = (anchor_key("acme", number) for number in range(1, 5))
    for key in (whole, replaced, removed, again, anchor_key("beta", 1)):
        assert store.put_new(key, b"first")
    store.put({replaced: b"second"})
    store.remove([removed, again])
    assert store.put_new(again, b"second"), "what stands in its place"
    found = [(each.key, each.content, each.changes) for each in store.originals(anchors_of("acme"))]
    assert found == [(whole, b"first", 0), (replaced, b"first", 1), (removed, b"first", 1), (again, b"first", 2)]


def test_where_no_versions_are_kept_objects_are_read_as_they_are(engine: Engine) -> None:
    store, key = engine.services.archive, anchor_key("acme", 1)
    assert store.put_new(key, b"first")
    (found,) = store.originals(anchors_of("acme"))
    assert (found.key, found.content, found.changes) == (key, b"first", 0)
    assert list(store.originals(anchors_of("beta"))) == []


def test_what_is_archived_is_read(services: Services) -> None:
    archive(life() + life(a_run(owner="beta/report"), sequence=10), context_of(services))
    lines = list(read_archive(services.archive, "beta", ArchiveFilter(since=0, until=NOON + HOUR)))
    assert [(line.kind, line.sequence) for line in lines] == [("claimed", 10), ("leased", 11), ("succeeded", 12)]
