"""Which jobs a tenant may run: the decision and its words, the same at every door, in a run's row and in ``why``. Pure."""

from __future__ import annotations

from quarterjack.domain.tenants.profile import Governance

NOT_GRANTED = "job not granted"  # the reason of a run that is DEAD because its tenant may not run its job
KIND = "JobNotGranted"  # of its failure: what dead runs are found and redriven by


def job_problem(governance: Governance, job: str, *, by_name: bool) -> str | None:
    """Why the tenant may not run a job, and its remedy; None: it may.

    ``by_name``: the job does whatever its payload says, so that no pattern gives it (``Job.by_name``).
    """
    if governance.may_run(job, by_name=by_name):
        return None
    why = f"tenant {governance.tenant!r} may not run job {job!r}"
    if by_name and governance.may_run(job, by_name=False):
        why = f"{why}: what it does is for its payload to say, so a pattern such as * does not give it"
    return f"{why}; ask an operator of the installation for it"


def command_for(tenant: str, job: str) -> str:
    """What an operator runs to give a tenant a job."""
    return f"quarterjack tenants set {tenant} --add-job {job}"
