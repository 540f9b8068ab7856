"""The part of the story in which runs wait: for signals, times, children, items, tasks, other runs."""

from __future__ import annotations

from quarterjack import Registry, Scheduler, Submission, pipeline

from tests.support.forms.jobs import DAY


def begin_to_wait(owner: Scheduler, jobs: Registry) -> None:
    """Submit runs that wait, each for something else."""
    with pipeline("nightly", registry=jobs) as p:
        first = p.task("fails", name="first")
        asked = p.task("asks", name="asked")
        p.task("work", name="last", after=[first, asked], payload={"day": p.fire.date})
        p.task("work", name="always", after=[first], join="done")
    owner.upsert_pipeline(p)
    owner.trigger("nightly")
    answered = owner.submit("asks", idempotency_key="answered")
    link = owner.signal_link(
        answered.id, "approval", {"ok": True}, to="ops", base="https://example.org", expires_in=DAY
    )
    owner.revoke_link(answered.id, link.id)
    owner.signal(answered.id, "approval", {"ok": True})
    for job in ("asks", "sleeps", "has.children", "maps"):
        owner.submit(job, idempotency_key=f"waits.{job}")
    owner.submit("asks", unique="c-7")
    owner.submit("work", unique="c-7", on_duplicate="after")
    owner.submit_all([Submission("work", n, delay=20 * DAY) for n in range(2)], idempotency_key="batch", on_end="work")
