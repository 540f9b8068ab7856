"""Side by side: the attempts of several runs in threads, watched by the thread that started them; none waits for another's end.

What has ended is handed over together: LINGER after the first, or when it is all. So a slow job holds up no other's outcome by more.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from minutehand.domain.job import Context
from minutehand.flow.assignment import Abandoned, Assignment, Ended, NotBegun
from minutehand.flow.begin import log_start
from minutehand.flow.desk import Desk
from minutehand.flow.perform import attempt_of, limit_of, timeout_of
from minutehand.flow.task import Task
from minutehand.state.start import TOO_LATE

log = logging.getLogger(__name__)

LINGER = 0.02  # seconds that an outcome waits for company
SOON = 0.001  # seconds in which a thread ends a job, or what has not begun gets threads of its own: jobs that end at once need but one
SHORTAGE = 0.25  # seconds until a thread is asked for again after none could be had


@dataclass(eq=False, kw_only=True)
class Attempt:
    """One of them."""

    task: Task
    assignment: Assignment
    context: Context
    payload: str | None
    around: Callable[[], AbstractContextManager[object]]  # what the shell wraps around it
    ends: list[Ended] = field(default_factory=list)  # how its job ended

    def begin(self) -> Ended | None:
        """Its job begins now: only here is it known when, if its lease was taken ahead. Or else how it ends without."""
        assignment, ticket = self.assignment, self.assignment.ticket
        if ticket.lost:
            return Abandoned()
        if not assignment.ahead:
            return None
        now = assignment.desk.clock()
        in_time = now <= assignment.message.not_before + TOO_LATE
        self.assignment = replace(assignment, run=replace(assignment.run, started_at=now if in_time else None))
        if not in_time:
            return NotBegun()
        ticket.held = False
        log_start(self.assignment)
        return None


Ends = Sequence[tuple[Attempt, Ended]]


class Crew(Protocol):
    """How several attempts run."""

    def run(self, attempts: Sequence[Attempt], changed: threading.Condition) -> Iterator[Ends]:
        """Run them all; those that have ended, some at a time, until all have. ``changed`` is that of all their tickets."""

    def aside(self, desk: Desk, body: Callable[[], object]) -> None:
        """Do what may take its time without holding up the others."""


class InThreads:
    """At the same time."""

    def run(self, attempts: Sequence[Attempt], changed: threading.Condition) -> Iterator[Ends]:
        return _Watch(attempts, changed).run()

    def aside(self, desk: Desk, body: Callable[[], object]) -> None:
        desk.threads.start(body, "aside")


class _Watch:
    """The thread that waits for their ends."""

    def __init__(self, attempts: Sequence[Attempt], changed: threading.Condition) -> None:
        self._running = list(attempts)
        self._to_begin = deque((attempt, contextvars.copy_context()) for attempt in attempts)
        self._changed = changed
        self._at_work = len(attempts)  # threads whose jobs have not ended
        self._wants_first = False  # whether to be woken by the next end, or only by the last

    def run(self) -> Iterator[Ends]:
        timeouts = {attempt: timeout_of(attempt.assignment) for attempt in self._running}
        self._start()
        while self._running:
            over = self._wait(timeouts)
            gone = {attempt for attempt, _ in over}
            self._running = [attempt for attempt in self._running if attempt not in gone]
            for attempt, _ in over:
                if not attempt.ends:
                    attempt.assignment.desk.abandoned.set()
                    extra = {"run_id": str(attempt.assignment.run.ref), "job": attempt.assignment.job.name}
                    log.error("job.abandoned", extra=extra)
            yield over

    def _start(self) -> None:
        """One thread first; twice as many, again and again, where no job has ended for SOON and some have not begun."""
        if not self._running:
            return
        threads = self._running[0].assignment.desk.threads
        threads.start(self._serve, "jobs")
        self._wait_while_they_get_on(SOON)
        more = 2
        while self._to_begin:
            try:
                for _ in range(min(more, len(self._to_begin))):
                    threads.start(self._serve, "jobs")
            except Exception:  # no more can be had now; to give up would leave behind what has begun
                log.exception("work.no_thread")
                self._wait_while_they_get_on(SHORTAGE)
            else:
                self._wait_while_they_get_on(SOON)
                more *= 2

    def _wait_while_they_get_on(self, patience: float) -> None:
        with self._changed:
            before = self._at_work + 1
            while self._to_begin and self._at_work < before:
                before = self._at_work
                self._changed.wait_for(lambda: not self._at_work, timeout=patience)

    def _serve(self) -> None:
        """One job after the other, each in a copy of the group's context: nothing of one is there for the next."""
        while self._to_begin:
            try:
                attempt, context = self._to_begin.popleft()
            except IndexError:  # another thread was faster
                return
            threading.current_thread().name = f"job {attempt.assignment.run.ref}"
            context.run(self._perform, attempt)

    def _perform(self, attempt: Attempt) -> None:
        ended = attempt.begin() or attempt_of(attempt.assignment, attempt.context, attempt.payload, attempt.around)
        with self._changed:
            attempt.ends.append(ended)
            self._at_work -= 1
            if self._wants_first or not self._at_work:
                self._wants_first = False
                self._changed.notify_all()

    def _wait(self, timeouts: dict[Attempt, int | None]) -> Ends:
        lingered = False
        with self._changed:
            while True:
                over, limit = self._look(timeouts)
                if lingered or len(over) == len(self._running):
                    return over
                self._wants_first = not over
                self._changed.wait(LINGER if over else limit)
                lingered = bool(over)

    def _look(self, timeouts: dict[Attempt, int | None]) -> tuple[list[tuple[Attempt, Ended]], float | None]:
        """What has ended by itself or by one of its limits; and the seconds until the next limit of the others, if any."""
        over, limits = [], []
        for attempt in self._running:
            ended = _ended(attempt, timeouts[attempt])
            if ended is None or isinstance(ended, float):
                limits.append(ended)
            else:
                over.append((attempt, ended))
        return over, min((limit for limit in limits if limit is not None), default=None)


def _ended(attempt: Attempt, timeout_at: int | None) -> Ended | float | None:
    if attempt.ends:
        return attempt.ends[0]
    if attempt.assignment.ticket.lost:
        return Abandoned()
    return limit_of(attempt.assignment, timeout_at, attempt.assignment.desk.clock)
