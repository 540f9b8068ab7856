"""A declaration: what a schedule shall be, as code or a file says it, whatever is there now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides
from minutehand.timing import Rule


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One declared schedule, checked. What it leaves out has its default."""

    place: str  # where it stands, for errors: "acme.jobs.daily", "schedules.yaml:12"
    rule: Rule  # when it is due
    name: str | None = None  # of the schedule; None: its job's
    job: str | None = None  # name of the job; None: that of ``function``
    function: Callable[..., Any] | None = None  # the job's function, where it is declared on one
    payload: str = "null"  # canonical JSON text
    description: str = ""  # free text
    tags: Mapping[str, str] = field(default_factory=dict)  # free words to filter by
    overrides: Overrides = field(default_factory=Overrides)  # policies that differ from the job's own
    options: Options = field(
        default_factory=Options
    )  # where its runs go, what happens when they are late, meet or fail
    paused: bool | None = None  # True: it shall rest, False: it shall not, None: as its owner left it
