"""The shop's jobs."""

from __future__ import annotations

from typing import Any

from quarterjack import Context, Retry, job
from quarterjack.errors import Permanent

from examples.orders import warehouse


@job("orders.remind", retry=Retry(max_attempts=5, base=30))
def remind(ctx: Context, payload: dict[str, Any]) -> str:
    """Remind a customer of an unpaid order, once: the mailer is given the run's key."""
    order = warehouse.orders.get(payload["order"])
    if order is None:
        raise Permanent(f"there is no order {payload['order']}")  # no attempt would find it
    if order["paid"]:
        return "paid meanwhile"
    warehouse.mail(order["customer"], f"Order {payload['order']} is waiting for you", key=ctx.idempotency_key)
    return "reminded"


@job("orders.report")
def report(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Count the day that has just ended, in the schedule's zone, whenever this happens to run."""
    day = ctx.scheduled_at.date().isoformat()
    unpaid = sum(not order["paid"] for order in warehouse.orders.values())
    ctx.logger.info("report.counted", extra={"day": day, "unpaid": unpaid, "region": payload["region"]})
    return {"day": day, "unpaid": unpaid}


@job("orders.import-stock", timeout=600)
def import_stock(ctx: Context, payload: dict[str, Any]) -> int:
    """Read a long list in slices: what was read stays read, whichever worker goes on."""
    done = ctx.resume or 0
    for number in range(done, payload["rows"]):
        warehouse.stock[number] = warehouse.count(number)
        if number % 100 == 99:
            ctx.progress((number + 1) / payload["rows"], f"row {number + 1}")
            ctx.checkpoint(number + 1)
    return len(warehouse.stock)
