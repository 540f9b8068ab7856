"""What ``list_runs`` must list of a ledger, and whether it does, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from quarterjack import Run, Scheduler
from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.domain.times import DAY, MINUTE, from_ms, to_ms
from quarterjack.errors import NotFound

from tests.support.histories.pages_oracle import BETWEEN, LISTED, kind_of

Filters = Mapping[str, Any]
_CALLS = 4  # listings of a comparison


class ListOracle:
    """The last rows of a tenant's runs, whether they are still in the ledger or have expired."""

    def __init__(self, rows: Sequence[RunRow], now: int) -> None:
        self.rows, self.now = {str(row.ref): row for row in rows}, now

    def violations(self, owner: Scheduler, dice: Random) -> Iterator[str]:
        for filters in ({}, *dice.sample(list(self._filters(dice)), k=_CALLS - 1)):
            listed = self._listed(owner, filters, dice)
            for text in (*self._ended(listed, filters), *self._open(listed, filters)):
                yield f"list_runs({filters}): {text}"

    def _listed(self, owner: Scheduler, filters: Filters, dice: Random) -> list[Run]:
        found: list[Run] = []
        cursor = None
        while True:
            try:
                page = owner.list_runs(**filters, limit=dice.choice([1, 7, 50, 1_000]), cursor=cursor)
            except NotFound:
                assert cursor is None, "the schedule was there for the page before"
                return []  # nobody has made it: then no run of it may be wanted
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found

    def _filters(self, dice: Random) -> Iterator[Filters]:
        row = dice.choice(list(self.rows.values()))
        yield {"failed": True}
        yield {"state": [RunState.RETRYING, RunState.SUCCEEDED]}
        yield {"state": row.state}
        yield {"kind": dice.choice(list(RunKind))}
        yield {"job": row.job}
        yield {"prefix": "z-"}
        yield {
            "name": dice.choice(["z-over", "z-superseded", "z-line", "a", "d"]),
            "kind": ["fire", "trigger", "replay"],
        }
        yield {"error_type": "RuntimeError"}
        yield {"kind": "one-off", "job": row.job}
        since = dice.randint(self.now - 20 * MINUTE, self.now)
        yield {"since": from_ms(since)}
        yield {"since": from_ms(since - 20 * MINUTE), "until": from_ms(since)}
        yield {"since": from_ms(self.now + DAY)}

    def _wanted(self, filters: Filters, row: RunRow, at: int) -> bool:
        schedule = None if "~" in row.ref.owner else row.ref.owner.partition("/")[2]
        several = {
            name: [value] if isinstance(value, str) else list(value)
            for name, value in filters.items()
            if name in ("state", "kind")
        }
        return (
            row.state in several.get("state", [row.state])
            and kind_of(row) in several.get("kind", [kind_of(row)])
            and (not filters.get("failed") or row.state in FAILED)
            and filters.get("job") in (None, row.job)
            and filters.get("name") in (None, schedule)
            and ("prefix" not in filters or (schedule or "").startswith(filters["prefix"]))
            and ("error_type" not in filters or (row.failure is not None and row.failure.kind == filters["error_type"]))
            and ("since" not in filters or to_ms(filters["since"], "since") <= at)
            and ("until" not in filters or at <= to_ms(filters["until"], "until"))
        )

    def _ended(self, listed: Sequence[Run], filters: Filters) -> Iterator[str]:
        """Exactly those that have ended, the latest end first."""
        found = [run for run in listed if run.ended_at is not None]
        wanted = [
            row for row in self.rows.values() if row.is_terminal and self._wanted(filters, row, row.ended_at or 0)
        ]
        wanted.sort(key=lambda row: (-(row.ended_at or 0), row.ref))
        ids = [str(row.ref) for row in wanted]
        if [run.id for run in found] != ids:
            yield f"{len(found)} ended runs, of {len(ids)}: {sorted({run.id for run in found} ^ set(ids))[:3]}"
        for run in found:
            row = self.rows.get(run.id)
            if row is not None and (run.state, run.attempt, run.job) != (row.state, row.attempt, row.job):
                yield f"{run.id} is {run.state}, and {row.state} in the ledger"

    def _open(self, listed: Sequence[Run], filters: Filters) -> Iterator[str]:
        """All that wait for themselves or for another attempt, as they are; never one that is over, none twice."""
        found = [run.id for run in listed if run.ended_at is None]
        if len(found) > len(set(found)):
            yield "open runs twice"
        if any(run.ended_at is None and run.due > from_ms(self.now - DAY) for run in listed[len(found) :]):
            yield "open runs after ended ones"
        of_schedule = filters.get("name") is not None
        for run_id, row in self.rows.items():
            places = [row.due, max(row.due, row.created_at)]  # of a schedule's fires, and of what is in the book
            fits = [not row.is_terminal and self._wanted(filters, row, at) for at in places]
            must = all(fits) and (of_schedule or row.state in BETWEEN or kind_of(row) in LISTED)
            if must and run_id not in found:
                yield f"open: {run_id} is missing, {row.state}"
            if not any(fits) and run_id in found:
                yield f"open: {run_id} is listed, {row.state}"
        for run in listed:
            there = self.rows.get(run.id)
            if there is not None and not there.is_terminal and run.state != there.state:
                yield f"open: {run.id} is {there.state}, and {run.state} in the list"
