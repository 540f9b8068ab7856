"""Time, and nothing else: expressions, calendars, DST policy, what is due. No clock, no AWS, no randomness.

Inside, instants are UTC milliseconds; expressions work in whole seconds.
"""

from minutehand.schedule.api import next_fires, timetable
from minutehand.schedule.rule import Rule
from minutehand.schedule.tables import Timetable, fires
from minutehand.schedule.zones import zone

__all__ = ["Rule", "Timetable", "fires", "next_fires", "timetable", "zone"]
