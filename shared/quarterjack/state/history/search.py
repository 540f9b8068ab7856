"""What a search wants, and the summary of a page by which a search passes it over without reading its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quarterjack.domain.history.entry import HistoryEntry, RunKind, kind_of
from quarterjack.domain.run import RunRow, RunState
from quarterjack.values import replace

MOST_NAMES = 40  # distinct names of one kind in a summary; a page with more is never passed over for their sake
_MOST_TEXT = 4_000  # characters of a summary's names of one kind


@dataclass(frozen=True, kw_only=True)
class Search:
    """Conditions on runs, all of which must hold; None is no condition."""

    states: frozenset[RunState] | None = None
    job: str | None = None
    schedule: str | None = None  # its name
    prefix: str | None = None  # of the schedule's name
    tag: tuple[str, str | None] | None = None  # of the run or its schedule: key and value; value None: any
    error_type: str | None = None
    kinds: frozenset[RunKind] | None = None

    def wants(self, fields: Mapping[str, Any]) -> bool:
        """Whether an entry with these fields meets the search."""
        return (
            (self.states is None or fields["state"] in self.states)
            and self.job in (None, fields["job"])
            and self.error_type in (None, fields["error_type"])
            and (self.kinds is None or fields["kind"] in self.kinds)
            and (self.tag is None or _has_tag(fields["tags"], self.tag))
            and ((self.schedule is None and self.prefix is None) or self._of_schedule(fields["run"].schedule))
        )

    def wants_run(self, run: RunRow, tags: Mapping[str, str]) -> bool:
        """Whether a run, whose schedule has these tags, meets the search."""
        error_type = run.failure.kind if run.failure else None
        known = {"run": run.ref, "kind": kind_of(run), "error_type": error_type, "tags": {**tags, **run.own_tags}}
        return self.wants({**vars(run), **known})

    def wants_or_needs(self, fields: Mapping[str, Any]) -> bool:
        """The same, or whether the entry may take the place of one that does: a withdrawal, or a later state of the same run."""
        return fields["again"] or fields["withdrawn"] or self.wants(fields)

    def _of_schedule(self, name: str | None) -> bool:
        return name is not None and self.schedule in (None, name) and name.startswith(self.prefix or "")

    def in_any_state(self) -> Search:
        return replace(self, states=None)


def _has_tag(tags: Mapping[str, str], wanted: tuple[str, str | None]) -> bool:
    return wanted[0] in tags and wanted[1] in (None, tags[wanted[0]])


Names = tuple[str, ...] | None  # None: too many to say


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a page holds."""

    first: int  # UTC ms: the earliest place
    last: int  # UTC ms: the latest
    count: int  # of its entries
    changes: bool = False  # it may hold an entry that takes the place of one in another page: it is never passed over
    states: Mapping[str, int]  # entries by state
    jobs: Names
    schedules: Names
    errors: Names  # error types
    kinds: Names
    tags: Names  # "key=value"

    def may_hold(self, search: Search) -> bool:
        """Whether the page may hold an entry that the search wants."""
        return self.changes or (
            (search.states is None or any(state in search.states for state in self.states))
            and _among(search.job, self.jobs)
            and _among(search.error_type, self.errors)
            and (search.kinds is None or self.kinds is None or any(kind in search.kinds for kind in self.kinds))
            and _among(search.schedule, self.schedules)
            and (
                search.prefix is None
                or self.schedules is None
                or any(n.startswith(search.prefix) for n in self.schedules)
            )
            and (search.tag is None or self.tags is None or any(_is_tag(tag, search.tag) for tag in self.tags))
        )

    def as_list(self) -> list[Any]:
        """For JSON; equal summaries are equal texts."""
        return [list(value) if isinstance(value, tuple) else value for value in asdict(self).values()]


def _among(wanted: str | None, names: Names) -> bool:
    return wanted is None or names is None or wanted in names


def _is_tag(text: str, wanted: tuple[str, str | None]) -> bool:
    key, value = wanted
    return text == f"{key}={value}" if value is not None else text.startswith(f"{key}=")


def summary_of(entries: Sequence[HistoryEntry]) -> Summary:
    """The summary of at least one entry."""
    states: dict[str, int] = {}
    for entry in entries:
        states[str(entry.state)] = states.get(str(entry.state), 0) + 1
    return Summary(
        first=min(entry.at for entry in entries),
        last=max(entry.at for entry in entries),
        count=len(entries),
        changes=any(entry.again or entry.withdrawn for entry in entries),
        states=dict(sorted(states.items())),
        jobs=_names(entry.job for entry in entries),
        schedules=_names(entry.schedule for entry in entries),
        errors=_names(entry.error_type for entry in entries),
        kinds=_names(entry.kind for entry in entries),
        tags=_names(f"{key}={value}" for entry in entries for key, value in entry.tags.items()),
    )


def summary_from(values: Sequence[Any]) -> Summary:
    """The reverse of ``as_list``."""
    names = tuple(Summary.__dataclass_fields__)
    given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in zip(names, values, strict=True)}
    return Summary(**given)


def _names(values: Iterable[str | None]) -> Names:
    found = sorted({str(value) for value in values if value is not None})
    return tuple(found) if len(found) <= MOST_NAMES and sum(map(len, found)) <= _MOST_TEXT else None
