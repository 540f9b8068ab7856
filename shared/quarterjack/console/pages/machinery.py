"""Queues, workers and the doctor of the installation, as a tenant sees them.

The doctor's checks run in the background; the page shows how far they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post
from quarterjack.console.checkups import Checkup
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Page
from quarterjack.settings import Settings
from quarterjack.state.worker_record import OWN_QUEUE
from quarterjack.values import replace
from quarterjack.web.problems import RefusedRequest

_COUNTED = 200  # workers whose queues are counted
_ROWS = 50  # workers of a page


def show_queues(call: PageCall) -> Response:
    """The queues: what waits in each and how long, which are held back and why, and how many workers serve each."""
    scheduler = call.scheduler
    return call.render(
        "operations/queues.html",
        queues=part(scheduler.queues),
        frozen=part(scheduler.frozen),
        workers=part(lambda: by_queue(scheduler.workers(limit=_COUNTED).items)),
    )


def by_queue(workers: Iterable[Any]) -> Counter[str]:
    """How many of some workers receive from each queue."""
    return Counter(one.queue for one in workers if one.state != "VANISHED")


def show_workers(call: PageCall) -> Response:
    """Worker processes and Lambda environments, with the jobs and runs of each. A filter that names nothing is shown with its fault."""
    given = call.params("queue", "job")
    stopped = call.param("stopped") == "yes"
    try:
        page, fault = _workers(call, given, stopped=stopped), None
    except InvalidInput as problem:
        page, fault = Page(items=[]), problem
    here = {**given, "stopped": "yes" if stopped else None}
    return call.render(
        "operations/workers.html",
        given=given,
        stopped=stopped,
        page=page,
        fault=fault,
        address=call.address("workers", **here, cursor=call.param("cursor")),
        more=call.further(page.cursor, "workers", **here),
        own_queue=OWN_QUEUE,
    )


def _workers(call: PageCall, given: dict[str, Any], *, stopped: bool) -> Page:
    return call.scheduler.workers(**given, stopped=stopped, limit=_ROWS, cursor=call.cursor)


def show_doctor(call: PageCall) -> Response:
    """The findings of the last check-up, with remedies; the first visit begins one."""
    settings = _settings(call)
    checkup = None if settings is None else call.console.checkups.last(settings, call.now)
    return call.render("operations/doctor.html", checkup=checkup)


def begin_checkup(call: PageCall) -> Response:
    """Begin a new check-up, unless one is running. It writes nothing."""
    settings = _settings(call)
    if settings is None:
        raise RefusedRequest(404, "this server was not told the settings of its installation", "create_app(settings=…)")
    call.console.checkups.begin(settings, call.now)
    return call.go(call.address("doctor"))


def last_checkup(call: PageCall) -> Checkup | None:
    """The last check-up, for operators; None for others, and if the server has no settings. Raises Forbidden."""
    if not call.operates or call.console.front.settings is None:
        return None
    settings = _settings(call)
    return None if settings is None else call.console.checkups.last(settings, call.now)


def _settings(call: PageCall) -> Settings | None:
    """The installation's settings, with this tenant; None: the server was not told them. Raises RefusedRequest, Forbidden."""
    settings = call.console.front.settings
    call.operating().check_operator()
    return None if settings is None else replace(settings, tenant=call.tenant)


ROUTES = (
    get("/queues", show_queues),
    get("/workers", show_workers),
    get("/doctor", show_doctor),
    post("/doctor", begin_checkup),
)
