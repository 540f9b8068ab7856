"""A new backfill: a form, what it would run, and its beginning.

The form's times are read in the schedule's zone. A dry run says how many fires there are and how many have a run already.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, new_token, schedule_of
from quarterjack.domain.payload import parse_json
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, QuarterjackError
from quarterjack.sdk.backfills import Backfill
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.state.backfill import BackfillOrder
from quarterjack.timing import zone

_TEXTS = ("start", "end", "order", "concurrency", "payload", "token", "revision", "reason")
_FLAGS = ("current", "allow_repeat")
_REFUSED = (InvalidInput, AlreadyExists, Conflict)  # that are shown beside the form
_DAY = timedelta(days=1)


def form(call: PageCall) -> Response:
    """The empty form: the last 24 hours. Its span may stand in the address."""
    schedule = call.scheduler.get_schedule(schedule_of(call))
    call.require(Verb.BACKFILL, schedule.job)
    end = call.now.astimezone(zone(schedule.timezone)).replace(second=0, microsecond=0)
    given = {name: call.param(name) or "" for name in (*_TEXTS, *_FLAGS)}
    given |= {"start": given["start"] or _local(end - _DAY), "end": given["end"] or _local(end)}
    given |= {"order": given["order"] or "oldest", "concurrency": given["concurrency"] or "10"}
    return _page(call, schedule, {**given, "token": new_token(), "revision": str(schedule.revision)})


def begin(call: PageCall) -> Response:
    """Say what the form would run, or begin."""
    name = schedule_of(call)
    schedule = call.scheduler.get_schedule(name)
    given = {word: call.form.get(word, "").strip() for word in (*_TEXTS, *_FLAGS)}
    begins = call.form.get("do") == "begin"
    try:
        arguments = _arguments(given, schedule)
        if begins:
            arguments["client_token"] = given["token"] or new_token()
        found = call.acting().backfill(name, **arguments, dry_run=not begins)
    except _REFUSED as problem:
        return _page(call, schedule, given, fault=problem)
    if found.id is None:
        return _page(call, schedule, given, planned=found)
    return call.go(call.of_schedule(name, "backfills", found.id))


def _arguments(given: Mapping[str, str], schedule: Schedule) -> dict[str, Any]:
    """The fields of the form as keywords of the SDK. Raises InvalidInput."""
    concurrency, revision = given["concurrency"], given["revision"]
    if not concurrency.isdecimal():
        raise InvalidInput("concurrency", concurrency, "is not a whole number", "write 1 to 100")
    found: dict[str, Any] = {
        "start": _moment("start", given["start"], schedule),
        "end": _moment("end", given["end"], schedule),
        "order": given["order"],
        "concurrency": int(concurrency),
        **{flag: given[flag] == "yes" for flag in _FLAGS},
        "expected_revision": int(revision) if revision.isdecimal() else None,
    }
    if given["payload"]:
        try:
            found["payload"] = parse_json(given["payload"])
        except (ValueError, RecursionError) as problem:
            remedy = "correct it at the place that is named"
            raise InvalidInput("payload", given["payload"], f"is not JSON: {problem}", remedy) from None
    return found


def _moment(field: str, text: str, schedule: Schedule) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        remedy = f"write it as 2026-12-24T18:00, in {schedule.timezone}, or with an offset"
        raise InvalidInput(field, text, "is not a time", remedy) from None
    return found if found.tzinfo else found.replace(tzinfo=zone(schedule.timezone))


def _local(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


def _page(
    call: PageCall,
    schedule: Schedule,
    given: Mapping[str, str],
    *,
    planned: Backfill | None = None,
    fault: QuarterjackError | None = None,
) -> Response:
    return call.render(
        "backfills/begin.html",
        200 if fault is None else 422 if isinstance(fault, InvalidInput) else 409,
        schedule=schedule,
        given=given,
        orders=[str(order) for order in BackfillOrder],
        planned=planned,
        missing=None if planned is None else planned.total - (planned.there or 0),
        fault=fault,
        zone=zone(schedule.timezone),
        now=call.now,
    )
