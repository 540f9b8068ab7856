"""Verify the audit of a tenant: an entry that was changed, removed or added, a day without its close, a broken chain of closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from quarterjack.auditor.log_closing import document_of
from quarterjack.domain.audit import DayClose, anchor_key, anchors_of, closes_at, date_of, root_of
from quarterjack.domain.times import HOUR
from quarterjack.ports.buckets import OriginalObject
from quarterjack.ports.services import Services
from quarterjack.stores.audit import StoredAuditEntry, StoredClose

PATIENCE = 3 * HOUR  # ms beyond which a day that may be closed should be: auditors come once an hour


class ProblemKind(StrEnum):
    """Kinds of findings."""

    CHANGED = "changed"  # an entry is not as it was written, or other entries stand in its place
    REMOVED = "removed"  # a day has fewer entries than its close counted
    ADDED = "added"  # a day has more entries than its close counted
    UNCLOSED = "unclosed"  # a day has entries, or had some, and no close
    CHAIN = "chain"  # a close is missing, was changed, cannot be read, or does not follow the one before
    GATE = "gate"  # a gate, which keeps entries out of a closed day, was changed or removed
    ANCHOR = (
        "anchor"  # a close differs from the one in the bucket, or is only there, or that one was replaced or removed
    )


@dataclass(frozen=True, kw_only=True)
class AuditProblem:
    """One finding."""

    kind: ProblemKind
    day: str | None  # UTC, as in 2026-11-22
    key: str | None  # of an entry, where it is known which one
    text: str  # a sentence about it


@dataclass(kw_only=True)
class AuditVerdict:
    """The result of a verification."""

    days: int = 0  # with entries or a close
    entries: int = 0
    erased: int = 0  # of these, without their text: their digests stand for them
    closes: int = 0  # of all days: the chain is verified from its beginning
    anchored: int = 0  # of these, equal to their object in the archive's bucket
    too_long: str | None = None  # a day with more entries than the limit, of which none was verified
    rest: str | None = None  # with a limit: the newest day of the interval that it did not come to
    problems: list[AuditProblem] = field(default_factory=list)

    def add(self, kind: ProblemKind, text: str, *, day: int | None = None, key: str | None = None) -> None:
        date = None if day is None else date_of(day)
        self.problems.append(AuditProblem(kind=kind, day=date, key=key, text=text))


def verify(
    tenant: str, first: int, last: int, services: Services, *, now: int, limit: int | None = None
) -> AuditVerdict:
    """Verify all closes of a tenant, and the entries of the days from ``first`` to ``last`` (since 1970). Raises Unavailable.

    A damaged row is a finding, and the rest is verified.
    With a ``limit`` of entries the newest days come first, each whole: a day is verified by all of its entries or not at all.
    """
    verdict, audit = AuditVerdict(), services.audit
    # The anchors first: a close is in the table before its anchor is in the bucket, so that an anchor without one tells of a removal,
    # and not of a day that was closed meanwhile.
    originals = _originals(tenant, services)
    stored = audit.closes(tenant)
    _check_chain(stored, verdict)
    _check_anchors(tenant, stored, originals, verdict)
    closes = {each.close.day: each.close for each in stored if each.close is not None}
    shut = audit.shut_days(tenant, first, last)
    for day, text in shut.damaged.items():
        verdict.add(ProblemKind.GATE, text, day=day)
    for day in range(first, last + 1) if limit is None else range(last, first - 1, -1):
        left = None if limit is None else limit - verdict.entries
        entries, close = list(islice(audit.entries(tenant, day), None if left is None else left + 1)), closes.get(day)
        if left is not None and len(entries) > left:
            _stop(day, first, verdict)
            break
        verdict.days += bool(entries or close)
        _check_entries(day, entries, verdict)
        if close is not None:
            _check_day(close, entries, verdict)
        elif (entries or day in shut.days) and now > closes_at(day) + PATIENCE:
            verdict.add(ProblemKind.UNCLOSED, f"it has {len(entries)} entries and no close", day=day)
    return verdict


def _stop(day: int, first: int, verdict: AuditVerdict) -> None:
    """Say where it stops: before a day that did not fit, or after one that never will."""
    if verdict.entries:
        verdict.rest = date_of(day)
        return
    verdict.too_long = date_of(day)
    verdict.rest = date_of(day - 1) if day > first else None


def _check_chain(stored: Sequence[StoredClose], verdict: AuditVerdict) -> None:
    previous: str | None = ""  # None: it cannot be read
    expected, days = 1, set[int]()
    for each in stored:
        verdict.closes += 1
        close = each.close
        if close is None:
            verdict.add(ProblemKind.CHAIN, f"close {expected if each.number is None else each.number}: {each.problem}")
            previous, expected = None, (expected if each.number is None else each.number) + 1
            continue
        if close.number != expected:
            text = f"close {expected} is missing before close {close.number}"
            verdict.add(ProblemKind.CHAIN, text, day=close.day)
        elif previous is not None and close.previous != previous:
            text = f"close {close.number} does not follow the close before it: one of them was changed"
            verdict.add(ProblemKind.CHAIN, text, day=close.day)
        if not each.is_genuine:
            verdict.add(ProblemKind.CHAIN, f"close {close.number} is not as it was written", day=close.day)
        if close.day in days:
            verdict.add(ProblemKind.CHAIN, f"close {close.number} is a second one of its day", day=close.day)
        previous, expected = close.digest, close.number + 1
        days.add(close.day)


def _originals(tenant: str, services: Services) -> Mapping[str, OriginalObject]:
    """The anchors in the bucket as they were put first, by their keys; none without a bucket."""
    if not services.archive.is_on:
        return {}
    return {each.key: each for each in services.archive.originals(anchors_of(tenant))}


def _check_anchors(
    tenant: str, stored: Sequence[StoredClose], originals: Mapping[str, OriginalObject], verdict: AuditVerdict
) -> None:
    """Compare closes with their objects in the bucket, as they were put first: a lock keeps that version, whatever is put over it.

    A close that was made while there was no bucket has none.
    """
    found = {key: document_of(each.content or b"") for key, each in originals.items()}
    for each in stored:
        close = each.close
        if close is None:  # that it cannot be read is a finding by itself
            found.pop(anchor_key(tenant, each.number or 0), None)
            continue
        key = anchor_key(tenant, close.number)
        if (anchor := found.pop(key, None)) is None:
            continue
        if changes := originals[key].changes:
            text = f"{key} was replaced or removed {changes} times since it was put; its first version is compared"
            verdict.add(ProblemKind.ANCHOR, text, day=close.day)
        if anchor.get("digest") == close.digest:
            verdict.anchored += 1
        else:
            verdict.add(ProblemKind.ANCHOR, f"close {close.number} differs from the one in the bucket", day=close.day)
    for key, anchor in found.items():
        of_day = f", of {anchor['day']}" if "day" in anchor else ""
        verdict.add(
            ProblemKind.ANCHOR, f"the close of {key}{of_day} is in the bucket alone: it was removed from the table"
        )


def _check_entries(day: int, entries: Sequence[StoredAuditEntry], verdict: AuditVerdict) -> None:
    for entry in entries:
        verdict.entries += 1
        verdict.erased += entry.is_erased
        if not entry.is_genuine:
            verdict.add(ProblemKind.CHANGED, "the entry is not as it was written", day=day, key=entry.key)


def _check_day(close: DayClose, entries: Sequence[StoredAuditEntry], verdict: AuditVerdict) -> None:
    if close.root == root_of(entry.digest for entry in entries) and close.entries == len(entries):
        return
    now, then = len(entries), close.entries
    kind = ProblemKind.REMOVED if now < then else ProblemKind.ADDED if now > then else ProblemKind.CHANGED
    verdict.add(kind, f"it has {now} entries, which are not the {then} of its close", day=close.day)
