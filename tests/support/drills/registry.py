"""All drills, in the order of the page."""

from __future__ import annotations

from tests.support.drills.clocks import WRONG_CLOCKS
from tests.support.drills.deployments import BROKEN
from tests.support.drills.growth import GROWTH
from tests.support.drills.keys import KEYLESS
from tests.support.drills.processes import FLEET_GONE
from tests.support.drills.queues import PURGED, UNBURIED
from tests.support.drills.regions import LOST_REGION
from tests.support.drills.releases import UPGRADED
from tests.support.drills.restores import RESTORED
from tests.support.drills.siege import Drill
from tests.support.drills.tables import THROTTLED

_ALL: tuple[Drill, ...] = (
    FLEET_GONE,
    PURGED,
    THROTTLED,
    UNBURIED,
    BROKEN,
    WRONG_CLOCKS,
    KEYLESS,
    UPGRADED,
    *GROWTH,
    LOST_REGION,
    RESTORED,
)
DRILLS = {drill.name: drill for drill in _ALL}
