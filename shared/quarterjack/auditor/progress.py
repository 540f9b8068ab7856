"""The record of where audits stand: the next audit continues each walk where the last one stopped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

OWNER, KEY = "~quarterjack/~audit", "~progress"  # no tenant's: `~` begins no name
_OFTEN = 30 * SECOND  # between two writes of one audit: about as much work as a killed function loses


@dataclass(kw_only=True)
class Progress:
    """Cursors are those of the stores; "" is the beginning."""

    heads: str = ""  # chains: cursor of the batch of schedules that is compared with the agenda
    shard: int = 0  # chains: shard of the agenda that the batch is compared with next
    tidied: int = 0  # entries: shard to tidy next
    runs: str = ""  # recent runs: cursor of the schedules to check next
    began: int = 0  # recent runs: when the present round began; UTC ms, 0: never
    since: int = 0  # recent runs: when the round before it began
    segment: int = 0  # ledger: first part to read next
    parts: dict[str, str] = field(default_factory=dict)  # ledger: cursors of the parts that are not at their end
    removing: str = ""  # payloads: key of the last one that was looked at; "": no removal is under way


class Bookmark:
    """The progress of one audit and its record. If another audit replaces the record, that audit's progress stays."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self.progress, self._version = _read(services)
        self._saved = clock()

    def save_often(self) -> None:
        """Write the record, unless it was written a short while ago."""
        if self._clock() - self._saved >= _OFTEN:
            self.save()

    def save(self) -> None:
        record = Record(owner=OWNER, key=KEY, version=self._version + 1, body=asdict(self.progress))
        self._saved = self._clock()
        try:
            if self._services.records.write(record):
                self._version += 1
        except QuarterjackError as problem:
            log.warning("audit.progress_not_written", extra={"error": str(problem)})


def _read(services: Services) -> tuple[Progress, int]:
    """The progress and the version of its record. A record that cannot be read costs an audit from the beginning, and no more."""
    try:
        record = services.records.read(OWNER, KEY)
    except QuarterjackError as problem:
        log.warning("audit.progress_not_read", extra={"error": str(problem)})
        return Progress(), 0
    return (Progress(), 0) if record is None else (_parsed(record.body), record.version)


def _parsed(body: Mapping[str, object]) -> Progress:
    known = asdict(Progress())
    fit = {name: value for name, value in body.items() if name in known and type(value) is type(known[name])}
    return Progress(**fit)  # type: ignore[arg-type]
