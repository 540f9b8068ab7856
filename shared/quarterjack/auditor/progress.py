"""Where audits stand: the next one begins with what the last one, whose time was over, did not reach."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from quarterjack.errors import QuarterjackError
from quarterjack.ports.records import Record
from quarterjack.ports.services import Services

log = logging.getLogger(__name__)

OWNER, KEY = "~quarterjack/~audit", "~progress"  # no tenant's: `~` begins no name


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A round is every step once; an audit without a limit is one round."""

    step: int = 0  # to begin with
    after: str = ""  # in a step over schedules: the owner of the last one that was checked
    segment: int = 0  # of the ledger, to read next
    removing: str = ""  # the last payload of a run that was looked at; empty: none are being looked at
    began: int = 0  # when the present round began; UTC ms, 0: never
    since: int = 0  # when the round before it began

    def next_round(self, now: int) -> Progress:
        return replace(self, after="", began=now, since=self.began)


def read_progress(services: Services) -> tuple[Progress, int]:
    """The progress and the version of its record. A record that cannot be read costs an audit from the beginning, and no more."""
    try:
        record = services.records.read(OWNER, KEY)
    except QuarterjackError as problem:
        log.warning("audit.progress_not_read", extra={"error": str(problem)})
        return Progress(), 0
    return (Progress(), 0) if record is None else (_parsed(record.body), record.version)


def write_progress(progress: Progress, version: int, services: Services) -> None:
    """Replace the record of this version. If another audit has replaced it, its progress stays."""
    try:
        services.records.write(Record(owner=OWNER, key=KEY, version=version + 1, body=asdict(progress)))
    except QuarterjackError as problem:
        log.warning("audit.progress_not_written", extra={"error": str(problem)})


def _parsed(body: Mapping[str, object]) -> Progress:
    known = asdict(Progress())
    fit = {name: value for name, value in body.items() if name in known and type(value) is type(known[name])}
    return Progress(**fit)  # type: ignore[arg-type]
