"""Queues: what waits in each, how long, which are held back and why, and who works on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.parts import part

_WORKERS = 200  # whose queues are counted


def show(call: PageCall) -> Response:
    """The page."""
    scheduler = call.scheduler
    return call.render(
        "operations/queues.html",
        now=call.now,
        queues=part(scheduler.queues),
        frozen=part(scheduler.frozen),
        workers=part(lambda: by_queue(scheduler.workers(limit=_WORKERS).items)),
    )


def by_queue(workers: Iterable[Any]) -> Counter[str]:
    """How many of some workers receive from each queue."""
    return Counter(queue for one in workers if one.state != "VANISHED" for queue in one.queues)
