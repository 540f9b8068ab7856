"""Names as links, for who may open what they lead to; for others the name alone.

Each name is isolated (``<bdi>``): whatever characters it has, the words beside it stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from quarterjack.domain.tenants.access import Verb
from quarterjack.web.urls import name_in_url


def isolated(value: object) -> Markup:
    """A text that somebody has written, within the page's own words."""
    return Markup("<bdi>{}</bdi>").format(value)


_FIRST, _LAST = "\u2068", "\u2069"  # FIRST STRONG ISOLATE, POP DIRECTIONAL ISOLATE
_TURNS = re.compile(
    "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)  # characters that turn the direction of what follows


def fenced(value: object) -> str:
    """The same for a title, which has no elements."""
    text = str(value)
    return f"{_FIRST}{text}{_LAST}" if _TURNS.search(text) else text


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
