"""Names as links, for who may open what they lead to; for others the name alone.

Each name is isolated (``<bdi>``): whatever characters it has, the words beside it stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from quarterjack.domain.tenants.access import Verb
from quarterjack.web.urls import name_in_url


def isolated(value: object) -> Markup:
    """A text that somebody has written, within the page's own words."""
    return Markup("<bdi>{}</bdi>").format(value)


def schedule_link(call: Any, name: str) -> Markup:
    """A schedule's name."""
    return _link(call.of_schedule(name), name) if call.may(Verb.READ_SCHEDULES, some=True) else isolated(name)


def job_link(call: Any, name: str) -> Markup:
    """A job's name."""
    address = call.address("job", name_in_url(name))
    return _link(address, name) if call.may(Verb.READ_INSTALLATION, some=True) else isolated(name)


def run_link(call: Any, run_id: str, text: str | None = None) -> Markup:
    """A run, by its id or another text."""
    shown = run_id if text is None else text
    return _link(call.of_run(run_id), shown) if call.may(Verb.READ_RUNS, some=True) else isolated(shown)


def _link(address: str, text: str) -> Markup:
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(address, text)


LINKS: Mapping[str, Callable[..., Markup]] = {
    "schedule_link": schedule_link,
    "job_link": job_link,
    "run_link": run_link,
}
