"""Mutants of the registry of tenants and of their suspension. Each: name, file, this text, that text."""

from __future__ import annotations

TENANT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "runs of a suspended tenant start",
        "worker/admission/tenant_state.py",
        "    if profile.accepts:\n",
        "    if not profile.is_erased:\n",
    ),
    (
        "messages of an erased tenant go the way of all others",
        "worker/admission/admit.py",
        "if found.governance is None or found.governance.profile.is_erased:",
        "if found.governance is None:",
    ),
    (
        "a profile that was not answered is none",
        "stores/tenants/profiles.py",
        "= dict.fromkeys(asked - failed)",
        "= dict.fromkeys(asked)",
    ),
    (
        "a damaged profile is none",
        "stores/tenants/profiles.py",
        '                    del found[row["tenant"]]\n',
        "",
    ),
    (
        "the last change of a profile wins",
        "stores/tenants/profiles.py",
        'only_if = Compare("version", "=", expected) if expected else Absent("tenant")',
        'only_if = Absent("nothing")',
    ),
    (
        "a profile is read for each submission",
        "stores/tenants/profiles.py",
        "        if now - known.read_at < _EARLY or tenant in self._reading:\n",
        "        if tenant in self._reading:\n",
    ),
    (
        "a profile is read with each batch",
        "stores/tenants/profiles.py",
        "not 0 <= now - known.at < _ALONG]",
        "known.at >= 0]",
    ),
    (
        "a process goes by what it has changed itself",
        "stores/tenants/profiles.py",
        "        self._forget(profile.tenant)  # another",
        "        # another",
    ),
    (
        "all that was read is remembered for ever",
        "stores/tenants/profiles.py",
        "                    self._forget(name)\n",
        "                    pass\n",
    ),
    (
        "what changes nothing is written",
        "owner/tenants.py",
        "        if after == present:\n",
        "        if after is None:\n",
    ),
    (
        "an erased tenant is resumed",
        "owner/tenants.py",
        "        if present.is_erased:\n            raise Conflict",
        "        if present.version < 0:\n            raise Conflict",
    ),
    (
        "the auditor sends for runs of suspended tenants",
        "auditor/repairs.py",
        "    if not governance.profile.accepts:\n",
        "    if services.tenants is None:\n",
    ),
    (
        "runs of a suspended tenant hold a queue back",
        "fires/waits.py",
        "    stopped = answer.frozen.keys() | {",
        "    stopped = answer.frozen.keys() | {None for _ in ()} if answer else {",
    ),
    (
        "a suspended tenant takes new work",
        "owner/access.py",
        "        if why is not None:\n            raise TenantSuspended",
        "        if why == verb:\n            raise TenantSuspended",
    ),
    (
        "a suspended tenant can do nothing at all",
        "domain/tenants/access.py",
        "not (profile.is_erased or verb in ACCEPTS):",
        "False:",
    ),
    (
        "why does not tell of a suspension that is over",
        "why/holds.py",
        "own.accepts and own.updated_at >= ready",
        "own.updated_at < 0",
    ),
    (
        "the queue of the profile counts for nothing",
        "owner/job_terms.py",
        "        return self._services.tenants.governance(tenant, self._clock()).profile.queue\n",
        "        return None\n",
    ),
)
