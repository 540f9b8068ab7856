"""All drills, in the order of the page."""

from __future__ import annotations

from tests.support.drills.processes import FLEET_GONE
from tests.support.drills.queues import PURGED
from tests.support.drills.releases import UPGRADED
from tests.support.drills.tables import THROTTLED

DRILLS = {drill.name: drill for drill in (FLEET_GONE, PURGED, THROTTLED, UPGRADED)}
