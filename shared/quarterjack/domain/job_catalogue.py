"""The catalogue of the jobs that workers know: what they publish of each, in rows that share one partition. Pure.

A row is a set of jobs, and its key is a digest of that set: all workers that know the same jobs, alike, share a row, and workers of
different versions have rows of their own. So no worker overwrites what another one knows.

    ~quarterjack/~jobs   ~jobs~<digest>    since, seen at, versions; the jobs, compressed

A row is written when a worker of a new set or version starts, and once an hour as long as any worker of it lives.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property
from typing import Any

from quarterjack.domain.job import Job
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.names import is_builtin
from quarterjack.domain.policies import Policies, Priority, Start
from quarterjack.domain.policies.flow import Flow, parse_flow
from quarterjack.domain.redaction import USUAL
from quarterjack.domain.times import DAY, HOUR, MINUTE, from_ms
from quarterjack.values import replace, value

OWNER = "~quarterjack/~jobs"  # of all rows; no tenant's: `~` begins no name
KEY = "~jobs~"  # a key is this and the digest

REFRESH = HOUR  # between two writes of a row that says nothing new
RETRY = 5 * MINUTE  # before a worker looks again whose write failed, or lost a race
SILENT = 2 * REFRESH + RETRY  # after which no worker lives that knows a set of jobs, or an idle Lambda function has it
SUPERSEDED = DAY  # of silence, after which a set leaves of which a newer one has all jobs
KEPT = (
    100 * DAY
)  # after the last worker that knew a job: the worker of a job that runs once a quarter may be a Lambda function
STALE = 7 * DAY  # after which a job is said to be one that perhaps no worker knows any more
_TEXT = 200_000  # characters of JSON of one row's jobs, before they are compressed: an item has at most 400 KB
_SCHEMA = 16_000  # characters of a JSON schema of a payload; a longer one that was made from a type is left out
_VERSIONS = 20  # of a row
_NAMED = 10  # jobs in a message
_ALIKE = 0.15  # of a likeness from 0 to 1: a name that is less alike than the nearest by more is not named


@value(kw_only=True)
class PublishedJob:
    """What workers say of a job."""

    name: str
    queue: str | None = None  # declared queue of its runs; None: the default one
    policies: Mapping[str, Any] = field(default_factory=dict)  # those that differ from the defaults, as JSON values
    schema: Mapping[str, Any] | None = None  # JSON Schema that its payloads have to fit, as it was written by hand
    payload_schema: Mapping[str, Any] | None = None  # JSON Schema of the type of its payload, if it has at most 16 KB
    fit: Mapping[str, Any] | None = (
        None  # what makes a check of that schema: ``payload_types.derived``; None: it is none
    )
    masks: bool = False  # whether its errors mask more of a payload than the usual names; which is not published
    by_name: bool = False  # no pattern in a tenant's profile allows it, only its name

    @classmethod
    def of(
        cls, job: Job, payload_schema: Mapping[str, Any] | None = None, fit: Mapping[str, Any] | None = None
    ) -> PublishedJob:
        """What is published of a job: nothing of its code, and not which keys of its payload are secret."""
        is_short = len(json.dumps([payload_schema, fit])) <= _SCHEMA
        return cls(
            name=job.name,
            queue=job.queue,
            policies=_differing(job.policies),
            schema=None if job.schema is None else job.schema.schema,
            payload_schema=payload_schema if is_short else None,
            fit=fit if is_short else None,
            masks=job.policies.redact not in (USUAL, USUAL if job.schema is None else job.schema.masking(USUAL)),
            by_name=job.by_name,
        )

    @property
    def shown_schema(self) -> Mapping[str, Any] | None:
        """The schema that tells most of a payload: the one that was written by hand, else that of its type."""
        return self.payload_schema if self.schema is None else self.schema

    @property
    def start(self) -> Start:
        """When its runs start, which who makes them has to know. PROMPT also if a later release has published another word."""
        word = self.policies.get("start")
        return Start(word) if word in tuple(Start) else Start.PROMPT

    @property
    def priority(self) -> Priority:
        """That of its runs, likewise; NORMAL for a word of a later release."""
        word = self.policies.get("priority")
        return Priority(word) if word in tuple(Priority) else Priority.NORMAL

    @property
    def flow(self) -> Flow | None:
        """That of its runs, likewise; None also for one that only a later release can read."""
        given = self.policies.get("flow")
        try:
            return parse_flow(given) if given else None
        except GARBAGE:
            return None

    def body(self) -> dict[str, Any]:
        """As JSON values, without what has its default."""
        return {name: value for name, value in vars(self).items() if name != "name" and value not in (None, {}, False)}


_DEFAULTS = Policies()
_PUBLISHED = ("delivery", "start", "priority", "timeout", "deadline", "cancel_grace", "isolation")


def _differing(policies: Policies) -> dict[str, Any]:
    given = {name: getattr(policies, name) for name in _PUBLISHED}
    found = {name: value for name, value in given.items() if value != getattr(_DEFAULTS, name)}
    retry = policies.retry.as_dict()
    found |= {} if policies.flow is None else {"flow": policies.flow.as_dict()}
    return found | ({"retry": retry} if retry else {})


@value(kw_only=True)
class Sighting:
    """A version of the package of the jobs, and when workers of it were seen."""

    version: str  # empty: the package has none
    since: int  # UTC ms of the first
    seen_at: int  # UTC ms of the last, up to two hours old while one lives


@value(kw_only=True)
class JobSet:
    """A row: jobs that the same workers know."""

    jobs: Mapping[str, PublishedJob]  # by name
    since: int  # UTC ms: since when workers know this set, without a silence of two hours
    seen_at: int  # UTC ms
    versions: Sequence[Sighting] = ()

    @classmethod
    def of(cls, jobs: Iterable[PublishedJob], version: str, now: int) -> JobSet:
        """As a worker publishes it that is the first to know it."""
        sighting = Sighting(version=version, since=now, seen_at=now)
        return cls(jobs={job.name: job for job in jobs}, since=now, seen_at=now, versions=(sighting,))

    @cached_property
    def _text(self) -> str:
        bodies = {name: job.body() for name, job in sorted(self.jobs.items())}
        return json.dumps(bodies, sort_keys=True, separators=(",", ":"))

    @property
    def key(self) -> str:
        return KEY + hashlib.sha256(self._text.encode()).hexdigest()[:32]

    @property
    def expires(self) -> int:
        return self.seen_at + KEPT

    @property
    def version(self) -> str | None:
        """Of the package of the jobs: of those whose workers live, the one that came last."""
        living = [one for one in self.versions if self.seen_at - one.seen_at <= SILENT]
        return max(living, key=lambda one: one.since).version or None if living else None

    def seen_again(self, present: JobSet) -> JobSet | None:
        """This set, over the row that is ``present``; None if that row says all of it and is not an hour old."""
        now, mine = self.seen_at, self.versions[0]
        known = next((one for one in present.versions if one.version == mine.version), None)
        if known is not None and now - known.seen_at < REFRESH and now - present.seen_at < REFRESH:
            return None
        if known is not None and now - known.seen_at <= SILENT:
            mine = replace(mine, since=known.since)
        others = [one for one in present.versions if one.version != mine.version]
        newest = sorted([mine, *others], key=lambda one: -one.seen_at)[:_VERSIONS]
        since = present.since if now - present.seen_at <= SILENT else self.since
        return replace(self, since=since, seen_at=max(now, present.seen_at), versions=tuple(newest))

    def supersedes(self, other: JobSet) -> bool:
        """Whether all that ``other`` tells is that these names are known, and it has not been seen for a day."""
        return self.seen_at - other.seen_at > SUPERSEDED and other.jobs.keys() <= self.jobs.keys()

    def body(self) -> dict[str, Any]:
        """As JSON values. The jobs are compressed: they are much alike, and a row of 300 has some KB."""
        packed = base64.b64encode(zlib.compress(self._text.encode(), 9)).decode()
        versions = [vars(one) for one in self.versions]
        return {"since": self.since, "seen_at": self.seen_at, "versions": versions, "jobs": packed}


def parse_set(body: Mapping[str, Any]) -> JobSet:
    """The reverse of ``JobSet.body``; what a later release has added is passed over. Raises any of GARBAGE for another body."""
    try:
        found = json.loads(zlib.decompress(base64.b64decode(body["jobs"])))
    except zlib.error as problem:
        raise ValueError(f"jobs: {problem}") from problem
    jobs = {
        str(name): PublishedJob(
            name=str(name),
            queue=job.get("queue"),
            policies=dict(job.get("policies", {})),
            schema=job.get("schema"),
            masks=bool(job.get("masks")),
            fit=job.get("fit"),
            payload_schema=job.get("payload_schema"),
            by_name=job.get("by_name") is True,
        )
        for name, job in found.items()
    }
    versions = tuple(
        Sighting(version=str(one["version"]), since=_instant(one["since"]), seen_at=_instant(one["seen_at"]))
        for one in body["versions"]
    )
    return JobSet(jobs=jobs, since=_instant(body["since"]), seen_at=_instant(body["seen_at"]), versions=versions)


def _instant(value: Any) -> int:
    """UTC ms that are within the calendar: whoever shows one need not ask."""
    from_ms(int(value))
    return int(value)


def sets_of(jobs: Iterable[PublishedJob], version: str | None, now: int) -> Iterator[JobSet]:
    """The rows of a worker that knows these jobs: one, unless several hundred jobs have long schemas."""
    part, left = list[PublishedJob](), _TEXT
    for job in sorted(jobs, key=lambda each: each.name):
        size = len(job.name) + len(json.dumps(job.body()))
        if part and size > left:
            yield JobSet.of(part, version or "", now)
            part, left = [], _TEXT
        part.append(job)
        left -= size
    if part:
        yield JobSet.of(part, version or "", now)


@value(kw_only=True)
class CatalogueEntry:
    """A job, as the workers that came last publish it."""

    job: PublishedJob
    version: str | None  # of the package of these workers' jobs
    seen_at: int  # UTC ms: when a worker last said that it knows a job of that name


@value(kw_only=True)
class JobCatalogue:
    """All that workers have published, as of one reading."""

    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)  # by name of the job, sorted

    @classmethod
    def of(cls, sets: Iterable[JobSet], now: int) -> JobCatalogue:
        """One entry for each name. Of several sets that have it counts the newest whose workers live, else the one seen last."""
        found = dict[str, JobSet]()
        seen = dict[str, int]()
        for each in sets:
            for name in each.jobs:
                seen[name] = max(each.seen_at, seen.get(name, 0))
                found[name] = max(found.get(name, each), each, key=lambda one: _rank(one, now))
        entries = {
            name: CatalogueEntry(job=found[name].jobs[name], version=found[name].version, seen_at=seen[name])
            for name in sorted(found)
        }
        return cls(entries=entries)

    def __bool__(self) -> bool:
        """Whether any worker has published. If none has, nothing can be said of any job."""
        return bool(self.entries)

    def knows(self, job: str) -> bool | None:
        """Whether a worker has known a job within 100 days; None: no worker has published any."""
        return is_builtin(job) or job in self.entries if self.entries else None

    def is_stale(self, job: str) -> bool:
        """Whether no worker has said for a week that it knows a job, although others have spoken since."""
        entry = self.entries.get(job)
        return entry is not None and max(one.seen_at for one in self.entries.values()) - entry.seen_at > STALE


def _rank(one: JobSet, now: int) -> tuple[bool, int]:
    lives = now - one.seen_at <= SILENT
    return lives, one.since if lives else one.seen_at


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is not known: names like it, else some that there are."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=3)
    if near:  # names of one package are all alike: beside a mistyped name the others are no help
        likeness = [SequenceMatcher(None, one, name).ratio() for one in near]
        near = [one for one, like in zip(near, likeness, strict=True) if like >= max(likeness) - _ALIKE]
        return f"did you mean {' or '.join(map(repr, near))}?"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"known jobs: {', '.join(names[:_NAMED]) or 'none'}{more}"
