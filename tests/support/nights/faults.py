"""What goes wrong in a night: each fault is begun and ended by a call, whatever time passes between them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from quarterjack.errors import Misconfigured, Unavailable, Unreadable
from quarterjack.jobs import Registry
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.process import Hand, make_worker

from tests.support.nights.night import Night


class NoRights(Hook):
    """Every request is refused, as the client says it of AccessDenied."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        raise Misconfigured(f"{operation} on {detail.place}: AccessDeniedException; let the role do it")


class Throttles(Hook):
    """A table takes ``allowed`` items of each batch of writes, and no single write at all while that is 0."""

    def __init__(self, place: str, *, allowed: int = 0) -> None:
        self._place, self._allowed = place, allowed

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.place != self._place or operation in ("GetItem", "Query", "BatchGetItem"):
            return ()
        if not self._allowed:
            raise Unavailable(f"{operation}: ThrottlingException")
        return range(self._allowed, len(detail.items))


class DiesAtWork(Hook):
    """The process dies when its job has run, before it can say how it ended."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.place == "runs" and operation in ("BatchExecuteStatement", "UpdateItem") and detail.verb != "lease":
            raise Crash
        return ()


def without_rights(night: Night, role: str) -> None:
    """A role whose policy was taken away."""
    night.hooks[role] = NoRights()


def throttled(night: Night, table: str, *, roles: Collection[str] = ("ticker",), allowed: int = 0) -> None:
    """A table that refuses writes of these roles."""
    night.hooks |= {role: Throttles(table, allowed=allowed) for role in roles}


def healed(night: Night) -> None:
    """Rights are back, tables take writes."""
    night.hooks.clear()


def not_importable(night: Night) -> Callable[[], None]:
    """A release whose jobs package cannot be imported; returns the release that mends it."""

    def broken() -> Registry:
        raise ModuleNotFoundError("No module named 'acme.prices'")

    good = night.import_jobs
    night.import_jobs = broken

    def mended() -> None:
        night.import_jobs = good

    return mended


def poisoned(night: Night, name: str) -> Callable[[], None]:
    """The stored definition of a schedule becomes one that nobody can read; returns what puts the row back."""
    head = next(head for head in night.memory.heads() if head.name == name)
    row = next(each for each in night.memory.revisions(head.owner) if each.number == head.revision)
    night.memory.put_revision(head.owner, head.revision, Unreadable("shard 'x'"))
    return lambda: night.memory.put_revision(head.owner, head.revision, row)


def killed(night: Night, role: str, *, times: int | None = None, first_only: bool = False) -> None:
    """The worker's process is killed when it has begun what is visible, and started again.

    So many ``times``, or whenever it begins; ``first_only``: whenever it has a message that came for the first time.
    """
    left = [times]

    def begin_and_die(queue: str | None) -> int | None:
        stored = night.memory.queues[queue]
        now = night.clock()
        if first_only and not any(not each.receives and each.visible_at <= now for each in stored):
            return None
        services = night.memory.connect(DiesAtWork(), queue=queue)
        worker = make_worker(services, night.jobs, night.clock, wait=night.passes, name="killed")
        waiting = stored.load().waiting
        try:
            Hand(worker=worker).work()
        except Crash:
            if left[0] is not None:
                left[0] -= 1
                if not left[0]:
                    del night.instead[role]
        return waiting

    night.instead[role] = begin_and_die
