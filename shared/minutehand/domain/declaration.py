"""A declaration: the state that code or a file wants a schedule to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides
from minutehand.timing import Rule


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One declared schedule, checked."""

    place: str  # where it is declared, for errors: "acme.jobs.daily", "schedules.yaml:12"
    rule: Rule  # when it is due
    name: str | None = None  # of the schedule; None: its job's
    job: str | None = None  # name of the job; None: that of ``function``
    function: Callable[..., Any] | None = None  # the job's function, where it is declared on one
    payload: str = "null"  # canonical JSON text
    description: str = ""  # free text
    tags: Mapping[str, str] = field(default_factory=dict)  # labels to filter by
    overrides: Overrides = field(default_factory=Overrides)  # policies that differ from the job's own
    options: Options = field(default_factory=Options)  # queue, catch-up, overlap and failure handling of its runs
    paused: bool | None = None  # None leaves a pause as it is
