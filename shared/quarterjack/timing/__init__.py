"""Time, and nothing else: expressions, calendars, DST policy, what is due. No clock, no AWS, no randomness.

Inside, instants are UTC milliseconds; expressions work in whole seconds.
"""

from quarterjack.timing.describe import Explanation, PreviewRow, around_changes, explain, rows, rule_words
from quarterjack.timing.pinning import Taken, pin, take
from quarterjack.timing.rule import STORED, TAKEN, Rule, from_json, timetable
from quarterjack.timing.rule_fires import next_fires, rule_fires
from quarterjack.timing.timetables import Timetable, fires, previous
from quarterjack.timing.zones.zone import zone

__all__ = [
    "STORED",
    "TAKEN",
    "Explanation",
    "PreviewRow",
    "Rule",
    "Taken",
    "Timetable",
    "around_changes",
    "explain",
    "fires",
    "from_json",
    "next_fires",
    "pin",
    "previous",
    "rows",
    "rule_fires",
    "rule_words",
    "take",
    "timetable",
    "zone",
]
