"""Mutants of circuit breakers. Each: name, file, this text, that text."""

from __future__ import annotations

BREAKER_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a breaker opens by a burst of failures",
        "state/tenants/breaker.py",
        "is_long = now // MINUTE - since >= WINDOWS - 1",
        "is_long = True",
    ),
    (
        "a breaker opens by few attempts",
        "state/tenants/breaker.py",
        "if is_long and attempts >= LEAST and",
        "if is_long and",
    ),
    (
        "a breaker opens by fewer failures than the limit says",
        "state/tenants/breaker.py",
        "failures * 100 >= percent * attempts",
        "failures * 200 >= percent * attempts",
    ),
    (
        "an open breaker lets all through",
        "state/tenants/breaker.py",
        "        if granted <= 0:\n",
        "        if granted < 0:\n",
    ),
    (
        "the ticker waits for runs that are gone",
        "state/tenants/breaker.py",
        "        if self.refused and now < self.since + FORGOTTEN:\n",
        "        if self.refused:\n",
    ),
    (
        "runs that are over use up the permits",
        "worker/pipeline.py",
        "_report_success, _count_attempt, _return_permit)",
        "_report_success, _count_attempt)",
    ),
    (
        "a permit is used up although another breaker has none",
        "state/tenants/breaker.py",
        "taken=breaker.taken - permits)",
        "taken=breaker.taken)",
    ),
    (
        "an open breaker never closes",
        "state/tenants/breaker.py",
        "            if is_idle or rate >= LARGEST:\n",
        "            if rate >= LARGEST * LARGEST:\n",
    ),
    (
        "a failed probe raises the rate",
        "state/tenants/breaker.py",
        "        if self.failed * _FEW > ended:\n            rate = 1\n        elif self.succeeded:",
        "        if self.failed or self.succeeded:",
    ),
    (
        "a breaker closes although the ticker holds fires back",
        "fires/breakers.py",
        "        self._mark(key[0], breakers.over(key[1]))\n",
        "",
    ),
    (
        "the ticker sends what a breaker holds",
        "ticker/tick.py",
        "entries=self._breakers.admit(self._pressure.admit(found.entries))",
        "entries=self._pressure.admit(found.entries)",
    ),
    (
        "the ticker sends all fires of an entry as a probe",
        "fires/chain.py",
        "most=LARGEST if most is None else most,",
        "most=LARGEST,",
    ),
    (
        "workers start what an open breaker holds",
        "worker/admission/admit.py",
        "    held_by_breaker,  # the last: it takes a permit\n",
        "",
    ),
    (
        "breakers that cannot be read stop the tenant",
        "worker/breakers.py",
        "            self._learn(known, TenantBreakers(), now)\n            log.warning(",
        "            raise\n            log.warning(",
    ),
    (
        "successes are written although nothing fails",
        "worker/breakers.py",
        "            if succeeded and not breakers.jobs and not known.failed:\n                return\n",
        "",
    ),
    (
        "each attempt is written by itself",
        "worker/breakers.py",
        "is_due = bool(breakers.over(job)) or not 0 <= now - known.written_at < FLUSH",
        "is_due = True",
    ),
    (
        "attempts of a tenant without the limit are counted",
        "worker/pipeline.py",
        "percent = None if governance is None else governance.limits.breaker_percent\n",
        "percent = None if governance is None else governance.limits.breaker_percent or 100\n",
    ),
    (
        "a breaker is closed by hand without a line",
        "owner/breakers.py",
        "write_breakers(tenant, before, after, version, context.services, line)",
        "write_breakers(tenant, before, after, version, context.services)",
    ),
)
