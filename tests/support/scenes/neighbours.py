"""A tenant with something of everything, each text of which has a marker, and what others may know of it: names, ids, cursors, keys.

The tenant is at rest: nothing of it is due, so whatever changes in its rows and objects was done by somebody else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.payload import is_object_of
from quarterjack.domain.run import parse_entry_key
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import QuarterjackError
from quarterjack.stores.tables import AGENDA
from quarterjack.testing import Harness
from quarterjack.timing import Rule

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
MARK = "Xyzzy"  # in each text of the tenant's
VICTIM = "acme"
LIKE_IT = ("acm", "acme2", "acme.", "acme-", "_acme", "ACME", "Acme", "a", "s", "0", "acme.s", "acme-s", "acmf", "zcme")
NEVER = "0 0 1 1 *"
LARGE = {"text": MARK * 20_000}
NAMES = ("s", "large", "hidden", "gone", "h")  # of its schedules
TRICKS = (
    *("acme/s", "acme/~key", "../acme/s", "s/../../acme/s", "acme//s", "/acme/s", "acme:s", "acme@s", "S", "acme"),
    *(
        "s#1",
        "~key",
        "~tenant",
        "~token",
        "acme#dead#2026-05-04",
        "s\x00",
        "ſ",
        "s\u200b",
        "*",
        "s*",
        "",
        "s ",
        "%61cme/s",
    ),
)


class Neighbours:
    """An installation with the tenant."""

    def __init__(self) -> None:
        self.started: list[tuple[str, object]] = []  # run id and payload
        self.jobs = Registry()
        self.jobs.job("note")(self._note)
        self.jobs.job("bad", retry=Retry(max_attempts=1))(self._bad)
        self.harness = Harness(self.jobs, at=START, tenant=VICTIM, events=True)
        self.memory, self.clock = self.harness.memory, self.harness.clock
        self.services = self.memory.connect()
        self.victim = self.harness.scheduler.acting_as(f"alice-{MARK}", reason=f"because {MARK}")
        self.stolen: dict[str, list[Any]] = {}  # by the name of the SDK's argument
        self._fill()

    def _note(self, ctx: Context, payload: object) -> object:
        self.started.append((ctx.run_id, payload))
        if ctx.run_id.startswith(f"{VICTIM}/"):
            ctx.step("first", lambda: f"step {MARK}")
            return LARGE if payload == LARGE else {"result": MARK}
        return {"echo": payload}

    def _bad(self, ctx: Context, payload: object) -> None:
        self.started.append((ctx.run_id, payload))
        raise ValueError(MARK if ctx.run_id.startswith(f"{VICTIM}/") else "boom")

    def _fill(self) -> None:
        it = self.victim
        words: Any = {"description": MARK, "tags": {"k": MARK}}
        it.upsert_schedule("s", "note", NEVER, payload=MARK, managed_by=f"tool-{MARK}", client_token="token", **words)
        it.update_schedule("s", payload={"n": MARK})
        it.create_schedule("large", "note", NEVER, payload=LARGE, **words)
        it.create_schedule("hidden", "note", NEVER, payload=MARK, **words)
        it.pause_schedule("hidden", reason=MARK, until=START + timedelta(days=300))
        it.create_schedule("h", "note", "0 * * * *", payload=MARK, **words)
        it.create_schedule("gone", "note", NEVER, payload=MARK, **words)
        it.trigger("gone")
        self.harness.advance(hours=2, minutes=5)
        it.delete_schedule("gone")
        it.pause_schedule("h", reason=MARK)
        backfill = it.backfill(
            "h", START - timedelta(hours=3), START, current=True, payload=LARGE, dry_run=False, client_token="backfill"
        )
        it.pause_backfill("h", str(backfill.id))
        runs = [
            it.submit("note", MARK),
            it.submit("note", LARGE),
            it.submit("bad", MARK),
            it.trigger("s", payload=MARK),
        ]
        runs += [it.trigger("s", payload={"m": MARK}, idempotency_key="key")]
        self.harness.advance(minutes=5)
        runs += [
            it.submit("note", MARK, delay=300 * 86_400, idempotency_key="key"),
            it.submit("note", LARGE, delay=9 * 86_400),
        ]
        runs += [it.replay_run(runs[0].id, idempotency_key="again"), it.skip_next("s")]
        it.freeze(START + timedelta(days=200), reason=MARK)
        self.harness.advance(hours=2)
        ids = [run.id for run in self.harness.runs()]
        self.stolen = {
            "run_id": ids,
            "name": [*NAMES, *TRICKS],
            "id": [str(backfill.id)],
            "cursor": list(self._cursors(str(backfill.id))),
            "call": [line.call for line in it.audit().items],
        }

    def _cursors(self, backfill: str) -> Iterator[str]:
        it = self.victim
        pages = (
            it.list_schedules(limit=1),
            it.list_runs(limit=1),
            it.list_runs("h", limit=1),
            it.list_dead(limit=1),
            it.audit(limit=1),
            it.backfill_runs("h", backfill, limit=1),
            it.list_running(limit=1),
        )
        yield from (page.cursor for page in pages if page.cursor is not None)
        with suppress(QuarterjackError):
            done = it.bulk("retag", prefix="s", tags={"k": MARK}, dry_run=True, rate=1_000)
            yield from (done.cursor,) if done.cursor else ()
        yield from (f"{name}~0123456789abcdef" for name in NAMES)

    def neighbour(self, tenant: str) -> Scheduler:
        """Somebody else, with schedules and runs of the same names."""
        one = Scheduler(tenant, jobs=self.jobs, services=self.memory.connect(), clock=self.clock)
        one.create_schedule("s", "note", NEVER, payload="mine")
        one.create_schedule("acme/s", "bad", NEVER, payload="mine")
        one.submit("note", "mine", idempotency_key="mine")
        return one

    def belongings(self) -> dict[str, object]:
        """All rows and objects of the tenant."""
        rows: dict[str, object] = {
            f"{table.suffix} {partition} {key}": dict(row)
            for table, content in self.memory._tables.items()
            for partition, key, row in content
            if (_owner_of_entry(key) if table is AGENDA else re.split("[/#]", partition)[0]) == VICTIM
        }
        objects: dict[str, object] = {
            key: text for key, text in self.memory._payloads.items() if is_object_of(key, VICTIM)
        }
        archived: dict[str, object] = {
            key: content for key, content in self.memory.archived.items() if VICTIM in key.split("/")
        }
        return rows | objects | archived


def _owner_of_entry(key: str) -> str | None:
    try:
        return parse_entry_key(key.removeprefix("quarantined#"))[2].partition("/")[0]
    except ValueError:
        return None


# Random calls of the SDK with what was stolen.

LEFT_OUT = {
    "acting_as": "a copy of the same tenant's",
    "strictly": "likewise",
    "with_caller": "likewise, of whoever is trusted",
    "with_tenant": "another tenant, for a caller who may be anybody",
    "carry_out": "called with the plans of compare_declared",
    "wait_for": "get_run until an end",
}
_ANY: Mapping[str, Sequence[Any]] = {
    "job": ["note", "bad"],
    "expression": [NEVER, Rule(expression="rate(1 hour)")],
    "payload": ["mine", {"n": 1}, {"text": "y" * 70_000}],
    "idempotency_key": ["key", "again", "token"],
    "client_token": ["token", "backfill", "key"],
    "prefix": ["", "s", "h", "acme", "acme/", "hidde"],
    "schedule": [*NAMES, "acme/s"],
    "action": ["pause", "resume", "delete", "retag", "trigger"],
    "tags": [{"k": "mine"}],
    "managed_by": ["mine"],
    "error_type": ["ValueError"],
    "state": [None],
    "delay": [0, 60],
    "rate": [10_000.0],
    "limit": [1, 100],
    "description": ["mine"],
    "reason": ["mine"],
    "expected_revision": [1, 2],
    "dry_run": [True, False],
    "drain": [True, False],
    "current": [True],
    "failing": [True, False],
    "include_redriven": [True],
    "allow_repeat": [True],
    "upcoming": [True, False],
    "newest_first": [True, False],
    "by": ["job", "schedule"],
    "kind": ["schedule"],
    "next_fires": [3],
    "count": [3],
}
# What is looked for; these methods store nothing of it.
_FILTERS = ("list_schedules", "list_runs", "list_dead", "audit", "bulk", "stats", "redrive", "purge")
_WANTED: Mapping[str, Sequence[Any]] = {
    "tag": ["k", ("k", MARK)],
    "managed_by": [f"tool-{MARK}"],
    "actor": [f"alice-{MARK}"],
    "error_type": ["ValueError"],
}
_INSTANTS = ("at", "since", "until", "start", "end", "after", "before")


class StolenCalls:
    """Calls of a neighbour with arguments of the tenant's."""

    def __init__(self, scene: Neighbours, who: Scheduler, random: Random) -> None:
        self._scene, self._who, self._random = scene, who, random
        self.answered: dict[str, int] = {}  # how often each method returned
        self.asked: dict[str, int] = {}

    def call(self, method: str) -> str:
        """Call a method with random arguments; what it returned or raised, as text, without what was given to it."""
        given = self._arguments(method)
        self.asked[method] = self.asked.get(method, 0) + 1
        said: object
        try:
            said = self._shown(getattr(self._who, method)(**given))
            self.answered[method] = self.answered.get(method, 0) + 1
        except (QuarterjackError, ValueError, TypeError) as problem:
            said = f"{type(problem).__name__}: {problem}"
        text = str(said)
        for value in given.values():
            for part in value if isinstance(value, tuple) else [value]:
                text = text.replace(str(part), "") if isinstance(part, str) and part else text
        return text

    def _arguments(self, method: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        parameters = inspect.signature(getattr(Scheduler, method)).parameters
        chance = min(0.5, 2 / len(parameters))
        for name, parameter in parameters.items():
            is_needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
            pool = self._pool(method, name)
            if pool and name != "self" and (is_needed or self._random.random() < chance):
                given[name] = self._random.choice(pool)
        return given

    def _pool(self, method: str, name: str) -> Sequence[Any]:
        if name == "between":
            return [(START - timedelta(days=1), START + timedelta(days=1))]
        if name == "declarations":
            return [[_declared("s"), _declared("acme/s")], [_declared("hidden")]]
        if name in _INSTANTS:
            now = self._scene.clock.now()
            ahead = method in ("freeze", "pause_schedule", "reschedule") or (method, name) == ("bulk", "until")
            return (
                [now + timedelta(hours=1)] if ahead else [START, START + timedelta(hours=1), START - timedelta(hours=1)]
            )
        if name == "run_id":
            ids = self._scene.stolen["run_id"]
            return [*ids, *(one.replace(VICTIM, f"{self._who.tenant}/{VICTIM}", 1) for one in ids), *TRICKS]
        if name in _WANTED and method in _FILTERS:
            return _WANTED[name]
        return self._scene.stolen.get(name) or _ANY.get(name, ())

    def _shown(self, answer: object) -> str:
        if hasattr(answer, "__next__") or (
            hasattr(answer, "__iter__") and not isinstance(answer, (str, Mapping, Sequence))
        ):
            return repr(list(islice(iter(answer), 500)))  # type: ignore[call-overload]
        return repr(answer)


def _declared(name: str) -> Declaration:
    return Declaration(place="tests", rule=Rule(expression=NEVER), name=name, job="note", payload='"mine"')


def methods() -> list[str]:
    """The public methods of the SDK."""
    found = [name for name in dir(Scheduler) if not name.startswith("_") and callable(getattr(Scheduler, name))]
    return [name for name in found if name not in LEFT_OUT]
