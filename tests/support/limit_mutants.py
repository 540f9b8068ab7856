"""Mutants of the limits of tenants. Each: name, file, this text, that text."""

from __future__ import annotations

LIMIT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "tokens are taken that are not there",
        "state/tenants/token_bucket.py",
        "self._now - max(more - TOO_MUCH, self.token)",
        "self._now + AHEAD",
    ),
    (
        "several processes have a burst each",
        "state/tenants/token_bucket.py",
        "self._now - max(more - TOO_MUCH, self.token)",
        "self._now - self.token",
    ),
    (
        "what a process leased it keeps however long it was idle",
        "state/tenants/token_bucket.py",
        "self.left = min(self.left, 2 * self.demand) if is_next else 0",
        "self.left = self.left",
    ),
    (
        "a bucket that is empty is asked each time",
        "state/tenants/token_bucket.py",
        "return self.closed_until - now if self.refused_at <= now < self.closed_until else None",
        "return None",
    ),
    (
        "a bucket that was written by a wrong clock stops the tenant",
        "state/tenants/token_bucket.py",
        "if until > self._now + AHEAD:",
        "if False:",
    ),
    (
        "a bucket that does not answer stops the tenant",
        "dynamodb/tenants/usage.py",
        "                known.lease.is_open = True\n                return 0\n",
        "                return 1_000\n",
    ),
    (
        "a count that was taken meanwhile is overwritten",
        "dynamodb/tenants/usage.py",
        'Compare("version", "=", count.version - 1) if count.version > 1 else Absent("version")',
        'Compare("version", ">=", 0) if count.version > 1 else Absent("nothing")',
    ),
    (
        "two at once get the last place",
        "dynamodb/tenants/usage.py",
        'only_if=all_of(Compare("version", ">=", 1), *limits))',
        'only_if=all_of(Compare("version", ">=", 1)))',
    ),
    (
        "a count is not taken anew before a refusal",
        "owner/limits.py",
        "(COUNTED if fits else max(count.schedules - _FREE, 0))",
        "COUNTED",
    ),
    (
        "each refusal of a large tenant reads all its schedules",
        "owner/limits.py",
        "max(count.schedules - _FREE, 0)",
        "0",
    ),
    (
        "deleted schedules count",
        "owner/limits.py",
        "if head.state is not ScheduleState.DELETED])",
        "])",
    ),
    (
        "what completed keeps its fires",
        "owner/limits.py",
        "if head.state is not ScheduleState.COMPLETED]",
        "]",
    ),
    (
        "an update is one schedule more",
        "owner/limits.py",
        "schedules=int(is_new),",
        "schedules=1,",
    ),
    (
        "backfills of any size",
        "owner/limits.py",
        "if most is not None and fires > most:",
        "if most is not None and fires > 2 * most:",
    ),
    (
        "the installation's limits are nobody's",
        "domain/tenants/profile.py",
        "return own if self.installation is None else own.with_defaults(self.installation.limits)",
        "return own",
    ),
    (
        "a caller waits longer than its patience",
        "sdk/base.py",
        "            if refused.seconds > left:\n",
        "            if left <= 0:\n",
    ),
    (
        "an act sends the whole look-ahead",
        "owner/schedules/arm.py",
        "replace(context, ahead=SOON, reach=0)",
        "replace(context, reach=0)",
    ),
    (
        "who is throttled is not told when to come back",
        "web/problems.py",
        '        answered.headers["Retry-After"] = add_tenant_rate(problem, request.state.answer_headers)\n',
        "        add_tenant_rate(problem, request.state.answer_headers)\n",
    ),
)
