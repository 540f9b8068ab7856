"""Times and durations among the parameters of commands: a command declares them, ``with_shell`` reads their texts.

    since: Annotated[datetime | None, PAST, typer.Option(help="…")] = None
    grace: Annotated[float, Duration(least=0), typer.Option(help="…")] = 10.0

typer sees texts. Relative times of a listing mean what they meant for its first page: the cursor that is printed ends with ``@`` and
the UTC ms at which they were read; the SDK gets the cursor without that.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from quarterjack.cli.moments import FORMS, duration_words, is_relative, needs_zone, parse_duration, read_time
from quarterjack.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from quarterjack.cli.shell import Shell

_ANCHORED = re.compile(r"(?P<cursor>.*~[0-9a-f]{16})@(?P<now>\d{1,15})", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONE = "zone"  # name of the parameter that commands with times get, unless they have "timezone"
_NAMES = ("name", "schedule")  # parameters that name the schedule whose zone counts


@dataclass(frozen=True)
class TypedTime:
    """Marks a parameter that takes a time."""

    unsigned: str = ""  # which sign a duration without one has; none: it is refused
    zone: str | None = None  # of days and times of day; None: as ``TypedReader`` says
    time_of_day: bool = False  # whether it may be one such as 09:00, the last one before now


PAST = TypedTime("-")  # 3d is three days ago
COMING = TypedTime("+")  # 3d is in three days
EITHER = TypedTime()
PAST_FIRE = TypedTime("-", time_of_day=True)
PAST_DAY = TypedTime("-", zone="UTC")  # of what is counted by days in UTC


@dataclass(frozen=True)
class Duration:
    """Marks a parameter that takes a duration; the command gets seconds."""

    least: float | None = None
    most: float | None = None
    whole: bool = False  # whether it takes whole seconds only, as an int
    time_of_day: bool = False  # whether it takes a time of day as well, such as 06:00, which stays text

    def read(self, text: str, field: str) -> float | str:
        """Raises InvalidInput."""
        if self.time_of_day and ":" in text:
            return text
        seconds = parse_duration(text)
        if seconds is None:
            raise InvalidInput(field, text, "is not a duration", f"write seconds, or e.g. {FORMS}")
        if self.least is not None and seconds < self.least:
            raise InvalidInput(field, text, "is too short", f"give {duration_words(self.least)} or more")
        if self.most is not None and seconds > self.most:
            raise InvalidInput(field, text, "is too long", f"give {duration_words(self.most)} or less")
        if self.whole and seconds != int(seconds):
            raise InvalidInput(field, text, "has a fraction of a second", "give whole seconds")
        return int(seconds) if self.whole else seconds


Marker = TypedTime | Duration
Seconds = Duration()


def utc_now() -> datetime:
    """The present, which relative times count from."""
    return datetime.now(UTC)


def markers_of(parameters: Iterable[inspect.Parameter]) -> dict[str, Marker]:
    """The parameters that take times and durations."""
    found = {one.name: _marker(one.annotation) for one in parameters}
    return {name: marker for name, marker in found.items() if marker is not None}


def as_text(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter as typer gets it: a marked one is a text, and an argument's word is in capitals."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *metadata = get_args(parameter.annotation)
    info = next((copy.copy(one) for one in metadata if isinstance(one, typer.models.ParameterInfo)), None)
    if info is None:
        return parameter
    marker, default = _marker(parameter.annotation), parameter.default
    if isinstance(info, typer.models.ArgumentInfo):
        info.metavar = info.metavar or parameter.name.upper()
    if marker is None:
        return parameter.replace(annotation=Annotated[kind, info])
    info.metavar = info.metavar or ("TIME" if isinstance(marker, TypedTime) else "DURATION")
    text: Any = str | None if default is None else str
    default = duration_words(default) if isinstance(default, (int, float)) else default
    return parameter.replace(annotation=Annotated[text, info], default=default)


def anchor_of(given: Mapping[str, Any], markers: Mapping[str, Marker]) -> tuple[dict[str, Any], int | None]:
    """The arguments, with the cursor as the SDK takes it, and the UTC ms from which relative times count; None: nothing is relative."""
    found = _ANCHORED.fullmatch(given.get("cursor") or "")
    times = (given[name] for name, marker in markers.items() if isinstance(marker, TypedTime))
    relative = any(is_relative(text) for text in times if text is not None)
    now = int(found["now"]) if found else int(utc_now().timestamp() * 1_000)
    return {**given, "cursor": found["cursor"]} if found else dict(given), now if relative else None


@dataclass(frozen=True)
class TypedReader:
    """Reads the marked arguments of one call.

    A day or a time of day is in the zone that ``--zone`` or ``--timezone`` gives, else in that of the schedule that the command is
    about, else in this machine's; it is stated. Only such a time reads the schedule.
    """

    shell: Shell
    given: Mapping[str, Any]  # as typed
    typed: Callable[[str], str]  # the option or argument of a parameter

    def read(self, markers: Mapping[str, Marker]) -> dict[str, Any]:
        """The values of the marked parameters. Raises InvalidInput."""
        return {name: self._value(name, marker) for name, marker in markers.items()}

    def _value(self, name: str, marker: Marker) -> Any:
        text, field = self.given[name], self.typed(name)
        if text is None:
            return None
        return marker.read(text, field) if isinstance(marker, Duration) else self._time(text, field, marker)

    def _time(self, text: str, field: str, marker: TypedTime) -> datetime:
        now = utc_now() if self.shell.anchor is None else _EPOCH + timedelta(milliseconds=self.shell.anchor)
        zone, whose, is_named = (
            self._zone(marker) if needs_zone(text, time_of_day=marker.time_of_day) else (None, "", False)
        )
        option = "--timezone" if "timezone" in self.given else "--zone"
        of_day = marker.time_of_day
        found = read_time(
            text, field, now, zone=zone, is_named=is_named, option=option, unsigned=marker.unsigned, time_of_day=of_day
        )
        if found.in_zone:
            self.shell.remark(f"{field} is {found.moment.isoformat(sep=' ', timespec='seconds')} ({whose})")
        return found.moment

    def _zone(self, marker: TypedTime) -> tuple[tzinfo | None, str, bool]:
        """The zone (None: this machine's), its description, and whether the user has named it."""
        from quarterjack.timing import zone  # noqa: PLC0415 (most calls need none)

        for option in (ZONE, "timezone"):
            if named := self.given.get(option):
                try:
                    return zone(named), named, True
                except InvalidInput as problem:
                    raise problem.about(f"--{option}") from None
        if marker.zone is not None:
            return zone(marker.zone), marker.zone, False
        return self._default_zone

    @cached_property
    def _default_zone(self) -> tuple[tzinfo | None, str, bool]:
        from quarterjack.timing import zone  # noqa: PLC0415

        name = next((self.given[one] for one in _NAMES if isinstance(self.given.get(one), str)), None)
        if name is not None and "#" not in name:
            try:
                found = self.shell.scheduler.get_schedule(name).timezone
            except NotFound:
                pass  # one that is to be created, or was deleted
            else:
                return zone(found), f"{found}, the zone of {name}", False
        if "timezone" in self.given:
            return UTC, "UTC", False
        return None, "the zone of this machine", False


def _marker(annotation: Any) -> Marker | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((one for one in get_args(annotation)[1:] if isinstance(one, Marker)), None)
