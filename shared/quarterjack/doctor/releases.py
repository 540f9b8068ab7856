"""Checks of what this release does not know: rows of a later one, and variables that are no settings of its."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches

from quarterjack.doctor.context import DoctorContext, Finding, ok, warn
from quarterjack.errors import TooNew
from quarterjack.fires.context import FAR
from quarterjack.settings import Settings

_OURS = "QUARTERJACK_"
_OF_TESTS = f"{_OURS}TEST_"
# Variables of the deployed API, of the shell's completion, and of what a command job and a job's process are given.
_OTHERS = (
    *("CONSOLE", "LOAD_BALANCER", "OIDC_CLIENT", "OIDC_ISSUER", "COMPLETE", "PARENT_PIPE"),
    *("ATTEMPT", "IDEMPOTENCY_KEY", "RUN_ID", "SCHEDULED_AT"),
)
_NAMED = 5  # rows


def variables(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each variable that looks like a setting and is none: it has no effect. Reads nothing."""
    del context
    known = [f"{_OURS}{name}" for name in (*(field.name.upper() for field in fields(Settings)), *_OTHERS)]
    for name in sorted(os.environ):
        if name.startswith(_OURS) and name not in known and not name.startswith(_OF_TESTS):
            near = get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "unset it: docs/reference/settings.md lists the settings"
            yield warn(f"{name} is no setting, and has no effect", remedy)


def releases(context: DoctorContext) -> Iterator[Finding]:
    """Rows that this release cannot read, among those that the checks before read, and the newest runs of the same sample: a query each."""
    if "runs" in context.tables:
        owners, latest = [head.owner for head in context.active], context.services.ledger.last_runs
        latest(owners, upto=FAR, limit=1, on_unread=lambda row, why: context.unread.append(why))
    newer = {str(problem) for problem in context.unread if isinstance(problem, TooNew)}
    broken = {str(problem) for problem in context.unread} - newer
    if newer:
        remedy = "finish the deployment, or deploy the later release again: docs/reference/releases.md"
        yield warn(
            f"{len(newer)} of the rows read are of a later release, and are left as they are: {_some(newer)}", remedy
        )
    if broken:
        yield warn(f"{len(broken)} of the rows read cannot be read: {_some(broken)}", "correct or remove them by hand")
    if not context.unread and context.tables:
        yield ok("no row read is of a later release")


def _some(problems: set[str]) -> str:
    return "; ".join(sorted(problems)[:_NAMED])
