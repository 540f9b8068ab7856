"""All drills, in the order of the page."""

from __future__ import annotations

from tests.support.drills.processes import FLEET_GONE
from tests.support.drills.queues import PURGED

DRILLS = {drill.name: drill for drill in (FLEET_GONE, PURGED)}
