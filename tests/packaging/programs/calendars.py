"""The extra calendars: a rule without public holidays."""

from __future__ import annotations

from datetime import UTC, datetime

from quarterjack import next_fires

CHRISTMAS = datetime(2026, 12, 24, 12, tzinfo=UTC)
(found,) = next_fires("0 9 * * *", after=CHRISTMAS, count=1, calendar="DE")
assert found.day == 27, found
