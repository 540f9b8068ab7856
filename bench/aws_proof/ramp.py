"""``RATE=``: up to so many fires a second, a minute at each step: due → accepted and due → started, by the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import RunRow

from bench.aws_proof.deployment import Deployment
from bench.aws_proof.jobs import QUIET
from bench.aws_proof.load import Fires, Load, percentiles, put_on, wait_for_end, within
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped
from bench.observed.figures import MS

PART = "ramp"
EVERY = 10  # seconds between two fires of a schedule: a dense one
ACCEPTED, STARTED, SHARE = 5.0, 2.0, 99.9  # the goal: seconds, seconds, per cent of all fires


def ramp(deployment: Deployment, plan: Plan) -> Finding:
    """One row a step. A step that misses the goal breaks nothing; what is lost does."""
    if not plan.rates:
        return skipped(PART, "no RATE= was given")
    found = [_step(deployment, plan, rate) for rate in plan.rates]
    wrong = [
        f"{row['missing']} of {row['fires']} missing at {row['a second']} a second" for row in found if row["missing"]
    ]
    reached = [row["a second"] for row in found if row["goal"] == "yes"]
    says = f"goal reached at {max(reached)} fires a second" if reached else "goal reached at no step"
    return judged(f"{PART} to {plan.rate} fires a second", wrong, says, found)


def _step(deployment: Deployment, plan: Plan, rate: int) -> dict[str, Any]:
    asked = Fires(
        name=f"ramp-{rate}",
        number=max(rate * EVERY, 1),
        every=EVERY,
        job=QUIET,
        threads=plan.threads,
        lead=plan.lead,
    )
    load = put_on(deployment, asked)
    return measured(
        rate, load, wait_for_end(deployment, [load], plan.patience, threads=plan.threads), deployment.settings.tenant
    )


def measured(rate: int, load: Load, rows: Sequence[RunRow], tenant: str) -> dict[str, Any]:
    """Seconds after a fire was due, of all that were expected: its claim, which comes before it if all is well, and its first lease.

    A fire that was claimed in time counts as 0 s. What is missing is in no percentile, but in the shares.
    """
    fires = {(schedule_owner(tenant, name), due) for name, due in load.fires}
    known = [row for row in rows if (row.ref.owner, row.due) in fires]
    accepted = [max(row.created_at - row.due, 0) / MS for row in known]
    started = [(row.started_at - row.due) / MS for row in known if row.started_at is not None]
    shares = within(accepted, ACCEPTED, len(fires)), within(started, STARTED, len(fires))
    return {
        "a second": rate,
        "fires": len(fires),
        "missing": len(fires) - len(started),
        "leased again": sum(row.fence > 1 for row in known),
        **{f"accepted {name} s": value for name, value in percentiles(accepted).items()},
        f"% within {ACCEPTED:.0f} s": round(shares[0], 3),
        **{f"started {name} s": value for name, value in percentiles(started).items()},
        f"% within {STARTED:.0f} s": round(shares[1], 3),
        "goal": "yes" if min(shares) >= SHARE else "no",
    }
