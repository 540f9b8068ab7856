"""What will fire when: ``spans`` (the stretches that are counted), ``coming`` (a head's timetable), ``forecast`` (the call), ``views``."""
