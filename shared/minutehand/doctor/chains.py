"""Whether every active schedule has its next entry in the agenda: looked at for a sample, with a few queries.

An entry lies at the first fire after what is claimed already, and at most REACH ahead is claimed. So it is either among what is due
within that time, or at the first fire after it: a query of one instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.doctor.patient import Patient
from minutehand.errors import InvalidInput, MinutehandError
from minutehand.flow.steps import REACH
from minutehand.model.moment import MINUTE, stamp
from minutehand.model.names import check_name
from minutehand.model.schedule import Head, Revision, ScheduleState
from minutehand.schedule import timetable

_NEAR = REACH + MINUTE  # clocks differ
_PAGE = 500
_PAGES = 20  # of one shard's near entries: what lies beyond is not looked at
_FIRST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def chains(patient: Patient) -> Iterator[Finding]:
    """One finding for the sample."""
    check = "chains"
    if not {"schedules", "revisions", "agenda"} <= patient.tables:
        return
    try:
        heads = _sample(patient)
        patient.active = [head for head in heads if head.state is ScheduleState.ACTIVE]
        missing = _without_entry(patient, patient.active)
        missing = _without_entry(patient, _unchanged(patient, missing))  # it may have moved on while we looked
    except MinutehandError as problem:
        yield warn(check, f"not looked at: {problem}", "see tables and permissions")
        return
    if missing:
        names = ", ".join(head.name for head in missing[:10])
        what = f"{len(missing)} of {len(patient.active)} active schedules have no entry in the agenda: {names}"
        yield fail(check, what, "run `minutehand audit`: it arms them again and claims what was missed")
    else:
        yield ok(
            check, f"{len(patient.active)} active schedules looked at ({patient.settings.tenant}), each has its entry"
        )


def _sample(patient: Patient) -> Sequence[Head]:
    """Heads from a place picked by chance on, and from the beginning if these are too few."""
    page, tenant, most = patient.services.schedules.page, patient.settings.tenant, patient.sample
    first = page(tenant, prefix="", limit=most, cursor=None)
    if first.cursor is None:
        return list(first.items)
    begin = check_name(patient.chance.choice(_FIRST))
    later = page(tenant, prefix="", limit=most, cursor=begin).items
    return (
        list(later)
        if len(later) == most
        else list({head.name: head for head in (*later, *first.items)}.values())[:most]
    )


def _unchanged(patient: Patient, heads: Sequence[Head]) -> list[Head]:
    """Those that are still as they were."""
    now = [(head, patient.services.schedules.head(head.tenant, head.name)) for head in heads]
    return [head for head, present in now if present is not None and present.version == head.version]


def _without_entry(patient: Patient, heads: Sequence[Head]) -> list[Head]:
    """The heads whose open revision should have an entry and has none."""
    answer = patient.services.schedules.revisions([(head.owner, head.revision) for head in heads])
    revisions = {owner: revision for (owner, _), revision in answer.found.items() if revision.active_until is None}
    near: dict[int, frozenset[str] | None] = {}
    missing = []
    for head in heads:
        revision = revisions.get(head.owner)
        if revision is None:
            continue
        if revision.shard not in near:
            near[revision.shard] = _near(patient, revision.shard)
        ids = near[revision.shard]
        if ids is not None and revision.id not in ids and not _is_at_its_next_fire(patient, revision):
            missing.append(head)
    return missing


def _near(patient: Patient, shard: int) -> frozenset[str] | None:
    """Ids of a shard's entries that are due or soon will be, and of those put aside; None if they are too many."""
    agenda, upto = patient.services.agenda, patient.clock() + _NEAR
    ids = {key.split("#", 2)[2] for key in agenda.quarantined(shard)}
    after = None
    for _ in range(_PAGES):
        page = agenda.due(shard, upto=upto, after=after, limit=_PAGE)
        ids |= {entry.id for entry in page.entries}
        after = page.last
        if after is None:
            return frozenset(ids)
    return None


def _is_at_its_next_fire(patient: Patient, revision: Revision) -> bool:
    """Whether its entry lies at the first fire beyond what is near; true as well if there is none, or none can be worked out here."""
    try:
        table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
        fire = table.next(max(patient.clock() + _NEAR, revision.active_from))
    except InvalidInput:  # e.g. a calendar that is not installed here
        return True
    if fire is None:
        return True
    page = patient.services.agenda.due(revision.shard, upto=fire, after=stamp(fire), limit=_PAGE)
    return any(entry.id == revision.id for entry in page.entries) or page.last is not None
