"""A change by a caller who may not read the values of a pipeline's tasks removes none of them."""

from __future__ import annotations

import json
from collections.abc import Callable

from quarterjack.domain.schedule import Definition
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import Forbidden
from quarterjack.sdk.caller_access import CallerAccess
from quarterjack.sdk.schedule_views import jobs_of

Define = Callable[[Definition | None], Definition]


def with_values_seen(define: Define, name: str, tenant: str, access: CallerAccess) -> Define:
    """``define``, which raises Forbidden where it would leave out a payload, a condition or items that the caller may not read."""

    def checked(present: Definition | None) -> Definition:
        made = define(present)
        if present is None or not values_lost(present.options.tasks, made.options.tasks):
            return made
        hidden = [job for job in jobs_of(present) if not access.may_read_payloads(job)]
        if hidden:
            problem = (
                f"name={name!r}: you may not read payloads and conditions of its tasks, so leaving them out would remove them unseen; "
                "give each task its own, or ask for read-payloads"
            )
            raise Forbidden(problem, verb=Verb.READ_PAYLOADS, tenant=tenant, job=hidden[0])
        return made

    return checked


def values_lost(before: str | None, after: str | None) -> bool:
    """Whether a task has a payload, a condition or items before a change and not after it; both: the stored tasks of a pipeline."""
    old, new = ({} if text is None else json.loads(text) for text in (before, after))
    return any(
        word in words and word not in new.get(name, words if new else {})
        for name, words in old.items()
        for word in ("payload", "when", "map")
    )
