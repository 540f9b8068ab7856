"""Time, and nothing else: expressions, calendars, DST policy, what is due. No clock, no AWS, no randomness.

Inside, instants are UTC milliseconds; expressions work in whole seconds.
"""

from minutehand.schedule.api import next_fires, pin, timetable
from minutehand.schedule.preview import Row, around_changes, rows
from minutehand.schedule.rule import Rule, from_json
from minutehand.schedule.tables import Timetable, fires, previous
from minutehand.schedule.words import Explanation, explain
from minutehand.schedule.zones import zone

__all__ = [
    "Explanation",
    "Row",
    "Rule",
    "Timetable",
    "around_changes",
    "explain",
    "fires",
    "from_json",
    "next_fires",
    "pin",
    "previous",
    "rows",
    "timetable",
    "zone",
]
