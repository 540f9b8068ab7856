"""The options of a schedule: the queue of its runs, and what happens to late, overlapping and failed runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Literal, TypedDict

from quarterjack.domain.names import check_flag, check_whole, is_name, word
from quarterjack.domain.notice import JOB
from quarterjack.domain.queue import check_queue
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value

DAY = 86_400.0  # seconds
LONGEST = 400 * DAY  # seconds of any option
TOPIC = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?"
TIME_OF_DAY = r"([01][0-9]|2[0-3]):[0-5][0-9]"
LARGEST_BUFFER = 1_000  # runs


class CatchUp(StrEnum):
    """Which missed fires (outage, throttling) run late, within the catch-up window."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


CatchUpWord = CatchUp | Literal["all", "latest", "none"]


class Overlap(StrEnum):
    """What happens to a run that is due while the previous one is still running."""

    ALLOW = "allow"  # the new run starts
    SKIP = "skip"  # the new run is SKIPPED
    BUFFER_ONE = "buffer_one"  # the new run waits; if one waits already, it is SKIPPED
    BUFFER_ALL = "buffer_all"  # the new run waits; at most ``buffer`` runs do
    CANCEL_OTHER = "cancel_other"  # the previous run's cancellation is requested; the new run waits for its end
    TERMINATE_OTHER = "terminate_other"  # the previous run loses its lease and is CANCELLED; the new run starts at once


OverlapWord = Overlap | Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]


class OnTaskFailure(StrEnum):
    """What happens to the other tasks of a pipeline when one has failed."""

    HALT = "halt"  # no task starts any more; those that run end
    CONTINUE = "continue"  # the tasks that do not depend on it go on


OnTaskFailureWord = OnTaskFailure | Literal["halt", "continue"]


@value(kw_only=True)
class Options:
    """The options of one revision."""

    queue: str | None = None  # name of a declared Queue; None: its job's, or the default one
    catch_up: CatchUp = CatchUp.ALL  # which missed fires run late
    catch_up_window: float = 1800.0  # seconds: fires that were due earlier are skipped and recorded
    automatic_backfill: bool = (
        False  # whether the fires of an outage, and of a pause when it ends, all run, however late
    )
    overlap: Overlap = Overlap.ALLOW  # while the previous run is still running
    buffer: int = 100  # most runs that wait (buffer_all, max_running)
    max_running: int | None = None  # runs at the same time; None: no limit
    pause_on_failure: int | None = None  # pause after so many runs in a row failed for good
    delete_after_completion: bool = False  # delete the schedule after its last fire; its runs stay
    shadow: bool = False  # claim and record the fires, never start the job
    on_failure: str | None = None  # SNS topic ARN, or "job:NAME" of a job that gets the notice: once per incident
    on_recovery: str | None = None  # the same, for the first success after an incident
    expect_success_within: float | None = None  # seconds without a success that are an incident as well
    alert_if_running_longer_than: float | None = None  # seconds after its first start, at which a run is overdue
    must_end_by: float | str | None = None  # when a run is overdue: seconds after its due time, or a time of day, HH:MM
    tasks: str | None = None  # of a pipeline: its tasks in their order, as JSON text; None: it is no pipeline
    on_task_failure: OnTaskFailure = OnTaskFailure.HALT  # of a pipeline: what a failed task means for the others

    def as_dict(self) -> dict[str, Any]:
        """The options that differ from their defaults, as JSON values."""
        given = asdict(self)
        found = {f.name: given[f.name] for f in fields(self) if given[f.name] != f.default}
        return found if self.tasks is None else found | {"tasks": json.loads(self.tasks)}

    def encode(self) -> str | None:
        """JSON text, or None if all is default."""
        given = self.as_dict()
        return json.dumps(given, separators=(",", ":")) if given else None

    @staticmethod
    @lru_cache(maxsize=1024)  # many schedules have the same options
    def parse(text: str | None) -> Options:
        """The reverse of ``encode``; ignores keys of a later release."""
        given = json.loads(text) if text else {}
        return changed(Options(), {name: value for name, value in given.items() if name in _CHECKS})

    @property
    def backfills_missed(self) -> bool:
        """Whether missed fires run however long ago they were due: ``catch_up_window`` does not bound them."""
        return self.automatic_backfill and self.catch_up is CatchUp.ALL

    @property
    def has_end(self) -> bool:
        """Whether a run can be overdue, so that it needs a timer."""
        return self.must_end_by is not None or self.alert_if_running_longer_than is not None

    @cached_property
    def is_exclusive(self) -> bool:
        """Whether a run may have to wait for others of its schedule."""
        return self.overlap is not Overlap.ALLOW or self.max_running is not None


class OptionWords(TypedDict, total=False):
    """The options as keywords of create, update and upsert. An option that is left out has its default, or its present value."""

    queue: str | None  # name of a declared Queue, or "default"
    catch_up: CatchUpWord
    catch_up_window: float  # seconds
    automatic_backfill: bool
    overlap: OverlapWord
    buffer: int
    max_running: int | None
    pause_on_failure: int | None
    delete_after_completion: bool
    shadow: bool
    on_failure: str | None
    on_recovery: str | None
    expect_success_within: float | None  # seconds
    alert_if_running_longer_than: float | None  # seconds
    must_end_by: float | str | None  # seconds, or a time of day in the rule's zone: "06:00"
    tasks: Mapping[str, Any] | None  # of a pipeline: its tasks, by name
    on_task_failure: OnTaskFailureWord


def _remedy(unknown: str) -> str:
    """Where a keyword belongs that is no option: to the rule, if it says when a schedule is due."""
    from quarterjack.timing.rule import Rule  # noqa: PLC0415 (an error alone needs the time engine)

    if unknown in {field.name for field in fields(Rule) if field.init}:
        return f"give it to the rule: Rule(expression=..., timezone=..., {unknown}=...) in place of the expression"
    return f"options are {', '.join(_CHECKS)}"


def changed(present: Options, given: Mapping[str, Any]) -> Options:
    """The present options with a user's changes. Raises InvalidInput, and TypeError for an unknown keyword."""
    unknown = [name for name in given if name not in _CHECKS]
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; {_remedy(unknown[0])}")
    checked: dict[str, Any] = {
        name: None if _is_unset(name, value) else _CHECKS[name](name, value) for name, value in given.items()
    }
    after = replace(present, **checked)
    if after.max_running is not None and after.overlap not in (Overlap.ALLOW, Overlap.BUFFER_ALL):
        problem = f"does not go with overlap={str(after.overlap)!r}, which lets one run at a time"
        raise InvalidInput("max_running", after.max_running, problem, "leave one of the two out")
    return after


def _is_unset(field: str, value: object) -> bool:
    """Whether this is None, and the option may be None."""
    return value is None and getattr(Options, field) is None


def _seconds(field: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= LONGEST:
        remedy = f"use {least:g} to {LONGEST:,.0f} (400 days)"
        raise InvalidInput(field, value, "is not a fitting number of seconds", remedy)
    return float(value)


def is_topic(value: object) -> bool:
    """Whether this is the ARN of an SNS topic."""
    return isinstance(value, str) and re.fullmatch(TOPIC, value) is not None


def _notice(field: str, value: object) -> str:
    if isinstance(value, str) and is_topic(value):
        return value
    if isinstance(value, str) and value.startswith(JOB) and is_name(value.removeprefix(JOB)):
        return value
    raise InvalidInput(field, value, "is no place for a notice", 'use the ARN of an SNS topic, or "job:NAME" of a job')


def _end(field: str, value: object) -> float | str:
    if not isinstance(value, str):
        return _seconds(field, value, 60.0)
    if re.fullmatch(TIME_OF_DAY, value) is None:
        remedy = 'use seconds after the due time, 60 or more, or a time of day from "00:00" to "23:59"'
        raise InvalidInput(field, value, "is no time of day", remedy)
    return value


def _tasks(field: str, value: object) -> str:
    from quarterjack.domain.pipelines.reading import check_tasks  # noqa: PLC0415 (who has no pipeline loads neither)

    return check_tasks(field, value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "queue": lambda field, value: check_queue(value, field),
    "catch_up": lambda field, value: word(CatchUp, field, value),
    "catch_up_window": lambda field, value: _seconds(field, value, 0.0),
    "automatic_backfill": check_flag,
    "overlap": lambda field, value: word(Overlap, field, value),
    "buffer": lambda field, value: check_whole(field, value, 1, LARGEST_BUFFER),
    "max_running": lambda field, value: check_whole(field, value, 1, 1_000),
    "pause_on_failure": lambda field, value: check_whole(field, value, 1, 1_000),
    "delete_after_completion": check_flag,
    "shadow": check_flag,
    "on_failure": _notice,
    "on_recovery": _notice,
    "expect_success_within": lambda field, value: _seconds(field, value, 60.0),
    "alert_if_running_longer_than": lambda field, value: _seconds(field, value, 60.0),
    "must_end_by": _end,
    "tasks": _tasks,
    "on_task_failure": lambda field, value: word(OnTaskFailure, field, value),
}
