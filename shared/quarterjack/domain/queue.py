"""A queue: the runs of some jobs, separate from others, with their own workers; its lanes, and what each keeps of the workers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from quarterjack.domain.names import check_flag, check_whole
from quarterjack.domain.policies import Priority
from quarterjack.errors import InvalidInput, Misconfigured

DEFAULT_QUEUE = "default"  # every installation has this queue without a declaration
LONGEST_NAME = 32  # characters: the function `<prefix>-worker-<name>` may have at most 64
LEAST_RUNS = 2  # at the same time in a queue's functions: an event source's maximum concurrency is 2 to 1,000
BATCH = 10  # most messages of one invocation
MOST_SECONDS = 900  # of a function
MOST_STRIPES = 100  # SQS queues of one queue: twelve million messages in flight
MOST_PROVISIONED = 1_000  # functions that are always started: an account's limit, unless AWS has raised it
_RANGES = {
    "concurrency": (1, 1_000),
    "memory": (128, 10_240),
    "timeout": (1, MOST_SECONDS),
    "batch": (1, BATCH),
    "spread": (0, 86_400),
    "stripes": (1, MOST_STRIPES),
    "provisioned_concurrency": (0, MOST_PROVISIONED),
}
LEAST_POLLERS, MOST_KEPT, MOST_POLLERS = 2, 200, 2_000  # Lambda's limits of provisioned pollers of one event source

LOW_SHARE = 10  # percent of the workers of a queue with lanes that low runs keep
MOST_LOW_SHARE = 50  # percent
_TURNS = 10  # in which a share that is no whole slot is given by turns
_HIGH = 5 / 9  # of what low leaves
PLAIN = (Priority.NORMAL,)  # the lanes of a queue that has none but its own

_NAME = re.compile(rf"[a-z0-9](?:[a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A declared queue. ``Registry.queue`` creates and registers it; checked on construction."""

    name: str
    concurrency: int | None = None  # runs at the same time in the stack, or in each worker process; None: no limit
    memory: int = 512  # MB of its worker function
    timeout: int = MOST_SECONDS  # seconds of its worker function
    batch: int = BATCH  # most runs of one invocation: they share its memory
    stripes: int = 1  # SQS queues that its runs are distributed over: each has at most 120,000 messages in flight
    priorities: bool = False  # whether it has lanes for high and low runs, with as many SQS queues each
    pollers: int | None = None  # minimum for each stripe's function; None: Lambda's standard polling
    most_pollers: int | None = None  # maximum for each stripe; None: Lambda's 200, or the minimum if that is more
    provisioned_concurrency: int = 0  # worker functions that are always started; 0: none
    container: bool = False  # its workers are the owner's processes: the stack creates the queue and no function
    spread: int = 0  # seconds over which fires are spread; default of its schedules
    on_failure: str | None = None  # target of notices of incidents; default of its schedules
    on_recovery: str | None = None  # likewise

    def __post_init__(self) -> None:
        check_queue(self.name, "name")
        if self.name == DEFAULT_QUEUE:
            raise InvalidInput("name", self.name, "is there without a declaration", "choose another name")
        for field, (least, most) in _RANGES.items():
            if field != "concurrency" or self.concurrency is not None:
                check_whole(field, getattr(self, field), least, most)
        check_pollers(self.pollers, self.most_pollers, concurrency=self.concurrency)
        check_lanes(self.pollers, priorities=self.priorities)
        if self.concurrency is not None and not self.container:
            self._check_concurrency(self.concurrency)

    def _check_concurrency(self, runs: int) -> None:
        """Refuse a number that Lambda's event sources, one for each stripe, cannot limit to."""
        if runs < LEAST_RUNS:
            problem = f"is fewer than the {LEAST_RUNS} that Lambda's event source can hold to"
            remedy = "use 2, or give its schedules max_running=1, or container=True and one worker process"
            raise InvalidInput("concurrency", runs, problem, remedy)
        check_shared("concurrency", runs, self.stripes, priorities=self.priorities)

    @property
    def functions(self) -> tuple[int, int | None]:
        """Batch size, and functions of each stripe at the same time, of all lanes; together they are exactly ``concurrency`` runs."""
        if self.concurrency is None:
            return self.batch, None
        runs = self.concurrency // self.stripes
        fitting = (n for n in range(self.batch, 0, -1) if runs % n == 0)
        batch = next(n for n in fitting if runs // n >= least_functions(priorities=self.priorities) or n == 1)
        return batch, runs // batch

    @property
    def lanes(self) -> tuple[Priority, ...]:
        return lanes(priorities=self.priorities)


def lanes(*, priorities: bool) -> tuple[Priority, ...]:
    """The lanes of a queue, the most urgent first."""
    return tuple(Priority) if priorities else PLAIN


def least_functions(*, priorities: bool) -> int:
    """The smallest limit that the event sources of a stripe, one for each lane, can hold to."""
    return LEAST_RUNS * len(lanes(priorities=priorities))


def check_shared(field: str, number: int, stripes: int, *, priorities: bool) -> None:
    """Refuse a limit that the event sources of all stripes and lanes cannot hold to together. Raises InvalidInput."""
    least = least_functions(priorities=priorities)
    if number % stripes == 0 and number // stripes >= least:
        return
    parts = [*([f"{stripes} stripes"] if stripes > 1 else []), *(["3 lanes"] if priorities else [])]
    problem = f"cannot be shared by {' and '.join(parts)}, each of which has an event source of its own"
    fewer = "priorities=False" if stripes == 1 else "fewer stripes"
    raise InvalidInput(
        field, number, problem, f"use a multiple of {stripes}, {least * stripes} at the least, or {fewer}"
    )


def check_lanes(pollers: int | None, *, priorities: object) -> None:
    """Refuse lanes together with provisioned pollers, which no maximum concurrency bounds: low would have no share."""
    if check_flag("priorities", priorities) and pollers is not None:
        problem = (
            "and pollers exclude each other: the lanes' shares are maximum concurrencies, which pollers do without"
        )
        raise InvalidInput("priorities", priorities, problem, "leave out one of them")


def check_pollers(kept: int | None, most: int | None, *, concurrency: int | None, limit: str = "concurrency") -> None:
    """Refuse provisioned pollers as Lambda does: out of range, or together with ``limit``, its maximum concurrency."""
    if kept is None and most is None:
        return
    field, value = ("most_pollers", most) if kept is None else ("pollers", kept)
    if concurrency is not None:
        problem = f"and {limit} exclude each other: Lambda holds to one of them"
        remedy = f"leave out {limit}, or the pollers; most_pollers bounds the functions too, ten for each"
        raise InvalidInput(field, value, problem, remedy)
    if kept is None:
        raise InvalidInput(field, value, "says nothing without pollers", "give pollers, those that are always kept")
    check_whole("pollers", kept, LEAST_POLLERS, MOST_KEPT)
    if most is not None:
        check_whole("most_pollers", most, kept, MOST_POLLERS)


def check_queue(name: object, field: str = "queue") -> str:
    """The name of a queue, ``default`` included. Raises InvalidInput."""
    if not is_queue(name):
        remedy = f"use 1 to {LONGEST_NAME} characters of a-z 0-9 -, the first and the last not -"
        raise InvalidInput(field, name, "is not the name of a queue", remedy)
    return str(name)


def declared_name(name: str | None) -> str | None:
    """The name of a declared queue in messages: None for the default one."""
    return None if name == DEFAULT_QUEUE else name


def prioritised(text: str | None) -> frozenset[str | None]:
    """Queues with lanes, from a text as ``default,reports``. None is the default queue.

    Raises Misconfigured, which names the variable QUARTERJACK_PRIORITIES.
    """
    try:
        return frozenset(declared_name(check_queue(name.strip())) for name in text.split(",")) if text else frozenset()
    except InvalidInput as problem:
        raise Misconfigured(f"QUARTERJACK_PRIORITIES={text!r}: {problem}; use default,reports") from problem


def prioritised_text(queues: Collection[str | None]) -> str | None:
    """The reverse of ``prioritised``; None if no queue has lanes."""
    return ",".join(sorted(name or DEFAULT_QUEUE for name in queues)) or None


def held_part(queue: str | None, lane: Priority) -> str | None:
    """The name of what backpressure holds back by itself: a lane of a queue (None: the default one). The normal lane has the queue's.

    A lane that is full holds back nothing of the others.
    """
    return queue if lane is Priority.NORMAL else f"{queue or DEFAULT_QUEUE}_{lane}"


def part_named(part: str | None) -> tuple[str | None, Priority]:
    """The reverse of ``held_part``."""
    queue, _, lane = (part or DEFAULT_QUEUE).partition("_")  # in no queue's name
    return declared_name(queue), Priority(lane or Priority.NORMAL)


def is_queue(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


# A lane keeps its share of the workers while it has messages; what it does not use the others take, the most urgent first. Nothing is taken
# back from a run that has started: a lane that was empty gets the next slots that become free, until it has its share.


def lane_for(priority: Priority, not_before: int, now: int, low_age: int) -> Priority:
    """The lane of a run that could start since ``not_before`` (UTC ms): a low one that has waited ``low_age`` ms takes the normal one."""
    return Priority.NORMAL if priority is Priority.LOW and now - not_before >= low_age else priority


def percentages(low: int = LOW_SHARE) -> dict[Priority, int]:
    """The shares of the lanes in percent; ``low`` is that of low."""
    high = round((100 - low) * _HIGH)
    return {Priority.HIGH: high, Priority.NORMAL: 100 - low - high, Priority.LOW: low}


def shared_out(total: int, least: int, low: int = LOW_SHARE) -> dict[Priority, int]:
    """A number of functions for each lane, ``least`` at the least; together they are ``total``, which is at least three times ``least``."""
    shares = percentages(low)
    found = {lane: max(least, total * share // 100) for lane, share in shares.items()}
    over = sum(found.values()) - total
    for lane in sorted(found, key=lambda each: -found[each]) if over > 0 else ():
        taken = min(over, found[lane] - least)
        found[lane] -= taken
        over -= taken
    return found if over >= 0 else found | {Priority.NORMAL: found[Priority.NORMAL] - over}


def next_lane(
    waiting: Collection[Priority], used: Mapping[Priority, int], slots: int, turn: int, shares: Mapping[Priority, int]
) -> Priority | None:
    """The lane that gets the next free slot of ``slots``: one that has less than its share, the least urgent first, else the most urgent.

    ``used`` has the slots of each lane, ``turn`` counts the slots that were given. A tenth of five slots is one slot in every second turn.
    """
    part = turn % _TURNS * (100 // _TURNS)
    for lane in (Priority.LOW, Priority.NORMAL):
        if lane in waiting and used.get(lane, 0) < (slots * shares[lane] + part) // 100:
            return lane
    return min(waiting, key=lambda lane: lane.rank, default=None)
