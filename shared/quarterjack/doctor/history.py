"""Check of the history: whether the historian reads on, and whether it knows of something that is missing."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.doctor.context import DoctorContext, Finding, ok, warn
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.historian.marks import changes_set_aside, gaps, read_position, rebuild_command

_SILENT = 20 * MINUTE  # since the last note of a historian that is a process: it writes one in fifteen minutes


def history(context: DoctorContext) -> Iterator[Finding]:
    """Gaps, changes that were set aside, and a historian's process that has stopped. On AWS an alarm tells how far the function is."""
    if "runs" not in context.tables or not context.settings.history:
        return
    found = list(gaps(context.services))
    for gap in found:
        span = f"{from_ms(gap.since):%Y-%m-%d %H:%M} and {from_ms(gap.until):%Y-%m-%d %H:%M} UTC"
        yield warn(f"changes between {span} may be missing in the history", f"fill it: {rebuild_command(gap.since)}")
    aside = list(changes_set_aside(context.services))
    if aside:
        first = aside[0]
        what = f"{len(aside)} changes could not be handled, such as one of {first['run']} by {first['consumer']}: {first['error']}"
        yield warn(
            what, f"see `historian.set_aside` in its log, then {rebuild_command(min(each['at'] for each in aside))}"
        )
    position, _ = read_position(context.services)
    silent = 0 if position is None else context.clock() - position.caught_up
    if position is not None and silent > _SILENT:
        what = f"the historian has caught up last {silent // MINUTE} minutes ago"
        yield warn(what, "look at its log; is `quarterjack historian` running? A stream keeps 24 hours")
    elif not found and not aside:
        yield ok("nothing is missing" + ("" if position is None else f", as of {silent // SECOND} s ago"))
