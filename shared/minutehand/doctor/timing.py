"""Check of the local clock against the ``Date`` header of every AWS answer."""

from __future__ import annotations

from collections.abc import Iterator

from minutehand.doctor.context import DoctorContext
from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.domain.times import SECOND
from minutehand.state.lease import SKEW

NOTICEABLE = 2 * SECOND  # what starts are early or late by is seen

_REMEDY = "synchronise this machine's clock (NTP, chrony); beyond 10 s workers here may start runs early, late or twice"


def clock(context: DoctorContext) -> Iterator[Finding]:
    """The local clock's offset from AWS's. The answers together bound it on both sides."""
    skews = context.probe.skews
    if not skews:
        yield warn("clock", "no answer had a Date header", "compare the clock with another one")
        return
    least, most = sorted((max(low for low, _ in skews), min(high for _, high in skews)))
    surely = least if least > 0 else min(0, most)
    what = f"this machine is {abs(surely) / SECOND:.1f} s {'ahead of' if surely > 0 else 'behind'} AWS"
    if abs(surely) > SKEW:
        yield fail("clock", what, _REMEDY)
    elif abs(surely) > NOTICEABLE:
        yield warn("clock", what, _REMEDY)
    else:
        yield ok("clock", f"within {max(abs(least), abs(most)) / SECOND:.1f} s of AWS's")
