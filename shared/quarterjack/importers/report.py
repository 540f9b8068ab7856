"""The result of every importer: schedules, and a report of each source line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quarterjack.apply.document import DeclarationFile, write
from quarterjack.apply.fields import read_words, words_of
from quarterjack.domain.payload import DuplicateKey, parse_json
from quarterjack.domain.schedule import Definition
from quarterjack.errors import InvalidInput
from quarterjack.importers.text import holds_a_secret, slug, without_secrets
from quarterjack.timing.timetables import stable
from quarterjack.values import replace

_HIDDEN = "what looks like a secret is shown as … here"
_KEPT = "payloads keep what looks like a secret as it is, that of {}: let the job fetch secrets by name instead"
_NAMED = 3  # schedules in that remark


class Conversion(StrEnum):
    """How completely a line was converted."""

    EXACT = "exact"  # all of it
    DIFFERS = "differs"  # converted with the differences in the notes
    LEFT = "not mapped"  # not converted: the notes say what to do


@dataclass(frozen=True, kw_only=True)
class ImportedLine:
    """Result of one source line: a cron line, a manifest, an entry of a list, or a setting."""

    line: int  # in the source, the first is 1; 0: it has no lines
    text: str  # of the line
    fit: Conversion
    name: str | None = None  # of the schedule
    notes: tuple[str, ...] = ()  # the differences, or why it was not converted
    is_entry: bool = True  # whether it schedules work; False: a setting, or a manifest of another kind


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """Result of importing one source."""

    source: str  # name of the file, module or region
    read_as: str  # detected format
    managed_by: str  # owner of the schedules
    lines: Sequence[ImportedLine]  # in the order of the source
    schedules: Mapping[str, Mapping[str, Any]]  # words by name
    remarks: Sequence[str] = ()  # about the whole source
    jobs: str | None = None  # Python source of the jobs that the schedules name; None: no file is needed

    @property
    def not_taken(self) -> int:
        """Number of entries that were not converted."""
        return sum(line.is_entry and line.fit is Conversion.LEFT for line in self.lines)

    def count(self, fit: Conversion) -> int:
        """Number of lines with this result."""
        return sum(line.fit is fit for line in self.lines)

    def in_shadow(self) -> ImportReport:
        """The same report, with schedules that start no run."""
        return replace(self, schedules={name: {**words, "shadow": True} for name, words in self.schedules.items()})

    def yaml(self) -> str:
        """The file for ``quarterjack apply``."""
        origin = f"Imported from {self.source} ({self.read_as})."
        document = DeclarationFile(declarations=(), managed_by=self.managed_by, words=self.schedules)
        return write([document], comment=f"{origin}\nquarterjack apply FILE shows what it would change first.")


class NotMapped(Exception):
    """An entry cannot be expressed here; the text says why."""


@dataclass(frozen=True)
class _Entry:
    """A line that became a schedule, before it is known which others want its name."""

    place: int  # in the list of lines
    given: str  # name in the source
    words: dict[str, Any]

    def meaning(self) -> str:
        """What tells it from another schedule of its name. A variable above it in a crontab does not, as it is not of its line."""
        payload = self.words.get("payload")
        if isinstance(payload, dict):
            payload = {key: value for key, value in payload.items() if key not in ("environment", "shell")}
        return json.dumps([self.words.get("expression"), self.words.get("timezone"), payload], sort_keys=True)


def told_apart(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """A name for each pair of wanted name and meaning: with a digest of the meaning if the name has another meaning too.

    Neither their order nor their number decides, so that a line put in between renames none of the others.

    >>> told_apart([("mail", "a"), ("sync", "b"), ("sync", "c"), ("sync", "b")])
    ['mail', 'sync-4f75', 'sync-2c1b', 'sync-4f75']
    """
    pairs = list(wanted)
    counts = Counter(name for name, _ in set(pairs))
    return [name if counts[name] == 1 else f"{name}-{stable(meaning) % 16**4:04x}" for name, meaning in pairs]


class Collector:
    """Collects lines and schedules while a source is read."""

    def __init__(self, source: str) -> None:
        self.lines: list[ImportedLine] = []  # those of entries have no name yet
        self._source = source
        self._entries: list[_Entry] = []
        self._hides = False  # a line has a secret

    def setting(self, line: int, text: str, fit: Conversion, *notes: str) -> None:
        """Record a line that is no schedule."""
        self._add(line, text, fit, notes, is_entry=False)

    def left(self, line: int, text: str, *notes: str) -> None:
        """Record a line that is not converted."""
        self._add(line, text, Conversion.LEFT, notes)

    def entry(self, line: int, text: str, name: str, words: Mapping[str, Any], notes: Sequence[str] = ()) -> bool:
        """Record a line that becomes a schedule if its fields are valid. Returns whether they are."""
        try:
            normal = _normal(slug(name), words, f"{self._source}:{line}")
        except InvalidInput as problem:
            self.left(line, text, str(problem))
            return False
        self._entries.append(_Entry(len(self.lines), name, normal))
        differs = bool(notes) or slug(name) != name
        self._add(line, text, Conversion.DIFFERS if differs else Conversion.EXACT, notes)
        return True

    def _add(self, line: int, text: str, fit: Conversion, notes: Sequence[str], *, is_entry: bool = True) -> None:
        shown, *said = map(without_secrets, (text, *notes))
        self._hides = self._hides or [shown, *said] != [text, *notes]
        self.lines.append(ImportedLine(line=line, text=shown, fit=fit, notes=tuple(said), is_entry=is_entry))

    def _named(self) -> dict[str, Mapping[str, Any]]:
        """The schedules by name; the lines get the names too. Of lines that are equal, one has the name and the others numbers."""
        names = told_apart((slug(entry.given), entry.meaning()) for entry in self._entries)
        schedules: dict[str, Mapping[str, Any]] = {}
        for entry, wanted in zip(self._entries, names, strict=True):
            name, number = wanted, 1
            while name in schedules:
                number += 1
                name = f"{wanted}-{number}"
            schedules[name] = entry.words
            line = self.lines[entry.place]
            note = (
                () if slug(entry.given) == entry.given else (f"{entry.given!r} is not a valid name: it becomes {name}",)
            )
            self.lines[entry.place] = replace(line, name=name, notes=(*line.notes, *note))
        return schedules

    def report(self, read_as: str, managed_by: str, remarks: Sequence[str], jobs: Callable[[], str]) -> ImportReport:
        """The result of the import. ``jobs`` makes the Python source of the jobs. Without schedules neither it nor a remark is needed."""
        schedules = self._named()
        return ImportReport(
            source=self._source,
            read_as=read_as,
            managed_by=managed_by,
            lines=self.lines,
            schedules=schedules,
            remarks=[*(remarks if schedules else ()), *([_HIDDEN] if self._hides else []), *_about_secrets(schedules)],
            jobs=jobs() if schedules else None,
        )


def _about_secrets(schedules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = [name for name, words in schedules.items() if holds_a_secret(words.get("payload"))]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [_KEPT.format(", ".join([*names[:_NAMED], *more]))] if names else []


def _normal(name: str, words: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The fields as ``export`` writes them. Raises InvalidInput for fields that ``apply`` refuses."""
    given = {word: value for word, value in words.items() if value not in (None, {}, "")}
    found = read_words(name, given, place)
    definition = Definition(
        job=str(found.job), rule=found.rule, overrides=found.overrides, options=found.options, payload=None
    )
    try:
        payload = parse_json(json.dumps(given.get("payload")))  # tuples as lists, keys as texts
    except DuplicateKey as twice:
        raise InvalidInput("payload", given["payload"], str(twice), "write each key once") from None
    return words_of(definition, payload, description=found.description, tags=found.tags, paused=found.paused)
