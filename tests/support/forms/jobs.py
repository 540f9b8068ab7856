"""Jobs that leave one of everything behind."""

from __future__ import annotations

from quarterjack import Context, Registry, Retry

DAY = 86_400.0  # seconds
MANY = 40  # waits of a job


def jobs() -> Registry:
    """Jobs that leave one of everything behind."""
    known = Registry()

    @known.job("work", delivery="exactly_once")
    def work(ctx: Context, payload: object) -> object:
        ctx.progress(0.5, "half")
        ctx.step("paid", lambda: {"id": 1})
        ctx.checkpoint({"page": 2})
        return {"payload": payload}

    @known.job("fails", retry=Retry(max_attempts=2, base=0.0))
    def fails(ctx: Context, payload: object) -> object:
        raise ValueError("boom")

    @known.job("vanishes", delivery="at_most_once")
    def vanishes(ctx: Context, payload: object) -> object:
        return None

    @known.job("asks")
    def asks(ctx: Context, payload: object) -> object:
        return ctx.wait_for("approval", timeout=30 * DAY, schema={"type": "object"}, heartbeat=30 * DAY)

    @known.job("sleeps")
    def sleeps(ctx: Context, payload: object) -> None:
        for _ in range(MANY):  # more requests than a row holds
            ctx.sleep(0)
        ctx.sleep(30 * DAY)

    @known.job("has.children")
    def has_children(ctx: Context, payload: object) -> object:
        return ctx.gather([ctx.submit("asks", step="asked"), ctx.submit("work", {"n": 1}, step="worked")])

    @known.job("maps")
    def maps(ctx: Context, payload: object) -> object:
        return ctx.map("asks", ["a", "b", "c"], at_a_time=1)

    return known
