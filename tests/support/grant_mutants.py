"""Mutants of the jobs that a tenant may run. Each: name, file, this text, that text."""

from __future__ import annotations

GRANT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "no worker asks whether the tenant may run the job",
        "worker/admission/admit.py",
        "    not_granted,\n    orphaned,\n",
        "    orphaned,\n",
    ),
    (
        "a profile is believed for a minute",
        "worker/admission/tenant_state.py",
        "FRESH = 4 * SECOND",
        "FRESH = 60 * SECOND",
    ),
    (
        "what was admitted long ago starts",
        "worker/admission/tenant_state.py",
        "return is_fresh(ready, ready.governance, now)",
        "return True",
    ),
    (
        "what took long to read is believed",
        "worker/admission/tenant_state.py",
        "        read = worker.services.tenants.governance(",
        "        return worker.services.tenants.governance(",
    ),
    (
        "a pattern gives a command",
        "worker/admission/tenant_state.py",
        "by_name=job.by_name)",
        "by_name=False)",
    ),
    (
        "an at-most-once run whose worker vanished is dead for want of a grant",
        "worker/admission/tenant_state.py",
        "    if not ready.is_at_most_once:\n",
        "    if ready.job is not None:\n",
    ),
    (
        "a schedule is paused because its job was taken away",
        "undertaker/incidents.py",
        "most = None if refused else",
        "most = None if False else",
    ),
    (
        "a profile without a list of jobs gives all",
        "domain/tenants/profile.py",
        "jobs = default.jobs if found.jobs is None else found.jobs",
        "jobs = found.jobs",
    ),
    (
        "a replay asks for no grant",
        "sdk/dead.py",
        "            self._checks.may_run(run.job)\n",
        "",
    ),
    (
        "a job to be notified asks for no grant",
        "sdk/job_checks.py",
        "                self.may_run(target.removeprefix(JOB))\n",
        "",
    ),
    (
        "what the catalogue says of commands is passed over",
        "owner/catalogue.py",
        "return entry is not None and entry.job.by_name",
        "return False",
    ),
    (
        "an open HTTP job is as any other",
        "ready_jobs/http/job.py",
        "by_name=url is None,",
        "by_name=False,",
    ),
)
