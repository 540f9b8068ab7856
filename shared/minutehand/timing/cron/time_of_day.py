"""Times of day that match: hours, minutes and seconds, each a set of numbers (``timing.bits``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from minutehand.timing.bits import listed, lowest

NEVER = -1


@dataclass(frozen=True, slots=True)
class TimesOfDay:
    """Every combination of these hours, minutes and seconds."""

    hours: int
    minutes: int
    seconds: int
    first: int = field(init=False)  # the earliest of the day, seconds since midnight

    def __post_init__(self) -> None:
        first = lowest(self.hours) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        object.__setattr__(self, "first", first)

    def next(self, clock: int) -> int:
        """The first matching second of the day at or after ``clock``; ``NEVER`` if the day has no more."""
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (coming := self.seconds >> second):
                return clock + lowest(coming)
            minute += 1
            if coming := self.minutes >> minute:
                return hour * 3600 + (minute + lowest(coming)) * 60 + lowest(self.seconds)
        hour += 1
        if coming := self.hours >> hour:
            return (hour + lowest(coming)) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        return NEVER

    def within(self, clock: int, unit: int) -> TimesOfDay:
        """Those in the hour (``unit`` 3600), minute (60) or second (1) of ``clock``."""
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        minutes = self.minutes if unit > 60 else self.minutes & 1 << minute
        seconds = self.seconds if unit > 1 else self.seconds & 1 << second
        return TimesOfDay(self.hours & 1 << hour, minutes, seconds)

    def times(self) -> TimeList:
        """The matching times as a sequence."""
        return TimeList(listed(self.hours), listed(self.minutes), listed(self.seconds))


@dataclass(frozen=True, slots=True)
class TimeList:
    """Up to 86,400 times of day as a sequence that computes its items."""

    hours: list[int]
    minutes: list[int]
    seconds: list[int]

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def __getitem__(self, index: int) -> int:
        rest, second = divmod(index, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]
