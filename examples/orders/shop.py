"""What the web application does. It needs no worker's code: job names are all it knows."""

from __future__ import annotations

from datetime import timedelta

from quarterjack import Run, Scheduler

from examples.orders import warehouse

PATIENCE = timedelta(days=2)  # before a customer is reminded


def place_order(scheduler: Scheduler, number: str, customer: str) -> Run:
    """Keep an order, and see to the reminder. Called twice for one order, it reminds once: the key is the order's."""
    warehouse.orders[number] = {"customer": customer, "paid": False}
    return scheduler.submit("orders.remind", {"order": number}, delay=PATIENCE, idempotency_key=f"remind-{number}")


def pay(scheduler: Scheduler, number: str) -> None:
    """Take the payment; the reminder is not wanted any more."""
    warehouse.orders[number]["paid"] = True
    scheduler.cancel_run(f"{scheduler.tenant}/~remind-{number}#once")
