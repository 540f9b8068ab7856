"""The result of every importer: schedules, and a report of each source line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from quarterjack.apply.document import DeclarationFile, write
from quarterjack.apply.fields import read_words, words_of
from quarterjack.domain.payload import DuplicateKey, parse_json
from quarterjack.domain.schedule import Definition
from quarterjack.errors import InvalidInput
from quarterjack.importers.text import slug, without_secrets

_HIDDEN = (
    "what looks like a secret is shown as … here; payloads keep it as it is: let the job fetch secrets by name instead"
)


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


class Collector:
    """Collects lines and schedules while a source is read."""

    def __init__(self, source: str) -> None:
        self.lines: list[ImportedLine] = []
        self.schedules: dict[str, Mapping[str, Any]] = {}
        self._source = source
        self._counts: dict[str, int] = {}  # names in use
        self._hides = False  # a line has a secret

    def setting(self, line: int, text: str, fit: Conversion, *notes: str) -> None:
        """Record a line that is no schedule."""
        self.lines.append(ImportedLine(line=line, text=self._shown(text), fit=fit, notes=notes, is_entry=False))

    def left(self, line: int, text: str, *notes: str) -> None:
        """Record a line that is not converted."""
        self.lines.append(ImportedLine(line=line, text=self._shown(text), fit=Conversion.LEFT, notes=notes))

    def entry(self, line: int, text: str, name: str, words: Mapping[str, Any], notes: Sequence[str] = ()) -> str | None:
        """Record a line that becomes a schedule if its fields are valid. Returns the schedule's name, None if they are not."""
        differences = list(notes)
        wanted = slug(name)
        if wanted != name:
            differences.append(f"{name!r} is not a valid name: it becomes {wanted}")
        chosen = wanted
        while chosen in self._counts:  # name-2, name-3 …
            self._counts[wanted] += 1
            chosen = f"{wanted}-{self._counts[wanted]}"
        self._counts[chosen] = 1
        try:
            self.schedules[chosen] = _normal(chosen, words, f"{self._source}:{line}")
        except InvalidInput as problem:
            self.left(line, text, str(problem))
            return None
        fit = Conversion.DIFFERS if differences else Conversion.EXACT
        self.lines.append(
            ImportedLine(line=line, text=self._shown(text), fit=fit, name=chosen, notes=tuple(differences))
        )
        return chosen

    def _shown(self, text: str) -> str:
        shown = without_secrets(text)
        self._hides = self._hides or shown != text
        return shown

    def report(self, read_as: str, managed_by: str, remarks: Sequence[str], jobs: Callable[[], str]) -> ImportReport:
        """The result of the import. ``jobs`` makes the Python source of the jobs, which is needed only if there are schedules."""
        return ImportReport(
            source=self._source,
            read_as=read_as,
            managed_by=managed_by,
            lines=self.lines,
            schedules=self.schedules,
            remarks=[*remarks, *([_HIDDEN] if self._hides else [])],
            jobs=jobs() if self.schedules else None,
        )


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
