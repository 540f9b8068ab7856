"""Drill of deployments: the jobs cannot be imported, then a variable is wrong; both are rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.chaos.chaos_run import JOBS, ROOT
from tests.support.drills.siege import Drill, Siege

_LEASES = 2  # for so many lease times each broken deployment runs
_JOBS = "broken_release"  # the module of jobs that cannot be imported
_GRACE = ("--grace", "3")
_CRASHES = 2  # of each broken process, at the least


def _deploy_twice(siege: Siege) -> None:
    """First the workers with jobs that need a missing module; then everything with a variable that names no installation."""
    (siege.folder / f"{_JOBS}.py").write_text("import of_the_new_release\n")
    for name in siege.workers:
        siege.troupe.order(name, "worker", "--jobs", _JOBS, *_GRACE)
    _deploy(siege, siege.workers, PYTHONPATH=f"{ROOT}:{siege.folder}")
    for name in siege.workers:
        siege.troupe.order(name, "worker", *JOBS, *_GRACE)
    _deploy(siege, siege.troupe.names, QUARTERJACK_PREFIX=f"{siege.settings.prefix}-typo")


def _deploy(siege: Siege, names: Sequence[str], **environ: str) -> None:
    """Deploy what cannot run, and let it end again and again."""
    before = siege.troupe.crashes.copy()
    for name in names:
        siege.redeploy(name, broken=True, **environ)
    siege.go_on(_LEASES * siege.plan.pace.lease)
    siege.wait_for(lambda: all(siege.troupe.crashes[name] >= before[name] + _CRASHES for name in names))


def _roll_back(siege: Siege) -> None:
    siege.say(f"crashes: {dict(siege.troupe.crashes)}")
    assert siege.under_way > 50, f"too few runs wait to show anything: {siege.under_way}"
    siege.type("git checkout COMMIT")
    siege.type("cdk deploy")
    for name in siege.troupe.names:
        siege.redeploy(name, QUARTERJACK_PREFIX=siege.settings.prefix)
    siege.quarterjack("resend", "--all-tenants", "--due-before", "now", "--dry-run")
    siege.quarterjack("resend", "--all-tenants", "--due-before", "now", "--rate", "200")
    given_up = siege.quarterjack("dead", "list", "--since", "-1h", "--json").splitlines()
    others = [line for line in given_up if '"chaos.doomed"' not in line]
    assert others == [], "runs were given up for the deployment"


BROKEN = Drill(
    name="bad deployments",
    done=f"Workers get jobs that cannot be imported, then all processes a wrong variable, for {_LEASES} lease times each.",
    runbook="bad-deployment",
    act=_deploy_twice,
    procedure=_roll_back,
    after=4.0,
    explains=frozenset({"asked to end"}),
)
