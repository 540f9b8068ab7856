"""Mutants of priorities and lanes. Each: name, file, this text, that text."""

from __future__ import annotations

LANE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "low keeps nothing",
        "state/lanes.py",
        "for lane in (Priority.LOW, Priority.NORMAL):",
        "for lane in (Priority.NORMAL,):",
    ),
    (
        "normal keeps nothing",
        "state/lanes.py",
        "for lane in (Priority.LOW, Priority.NORMAL):",
        "for lane in (Priority.LOW,):",
    ),
    (
        "a share that is no whole slot is none",
        "state/lanes.py",
        "(slots * shares[lane] + part) // 100",
        "slots * shares[lane] // 100",
    ),
    (
        "the least urgent goes first",
        "state/lanes.py",
        "return min(waiting, key=lambda lane: lane.rank, default=None)",
        "return max(waiting, key=lambda lane: lane.rank, default=None)",
    ),
    (
        "a low run does not age",
        "state/lanes.py",
        "return Priority.NORMAL if priority is Priority.LOW and now - not_before >= low_age else priority",
        "return priority",
    ),
    (
        "a high run ages as well",
        "state/lanes.py",
        "if priority is Priority.LOW and now - not_before >= low_age",
        "if now - not_before >= low_age",
    ),
    (
        "functions are shared out beyond the limit",
        "state/lanes.py",
        "        found[lane] -= taken\n",
        "",
    ),
    (
        "a slot is not left to a crowded lane whose poller is away",
        "daemon/lane_slots.py",
        "{*(+self._waiting), *(crowded for crowded, _ in self._crowded), lane}",
        "{*(+self._waiting), lane}",
    ),
    (
        "a poller that is away is waited for without end",
        "daemon/lane_slots.py",
        "            if self._free() and self._first(set(+self._waiting)) is lane:\n",
        "            if self._may_take(lane):\n",
    ),
    (
        "an old low message takes a low slot",
        "daemon/worker_process.py",
        "return self._aged(deliveries) if lane is Priority.LOW else deliveries",
        "return deliveries",
    ),
    (
        "slots are given back to another lane",
        "daemon/worker_process.py",
        "self._slots.release(lane, slots)  # all at once",
        "self._slots.release(Priority.NORMAL, slots)  # all at once",
    ),
    (
        "a process takes from the normal lane alone",
        "daemon/worker_process.py",
        "            for lane in self._lanes\n",
        "            for lane in self._lanes[-2:-1]\n",
    ),
    (
        "a receipt forgets its lane",
        "sqs/routing.py",
        '    lane = "" if priority is Priority.NORMAL else f"_{priority}"\n',
        '    lane = ""\n',
    ),
    (
        "a lane that is not there loses what is sent to it",
        "sqs/routing.py",
        "    if stripe.priority is not Priority.NORMAL:\n        return stripe._replace(priority=Priority.NORMAL)\n",
        "",
    ),
    (
        "what makes a detour to the normal lane comes to the first stripe",
        "sqs/routing.py",
        "return stripe._replace(priority=Priority.NORMAL)",
        "return Stripe(stripe.queue)",
    ),
    (
        "a queue without lanes has them",
        "sqs/routing.py",
        "outgoing.message.priority if queue in prioritised else Priority.NORMAL",
        "outgoing.message.priority",
    ),
    (
        "the priority of a trigger is its schedule's",
        "state/run_spec.py",
        "    if of_run is None:\n        return of_schedule\n",
        "    return of_schedule\n",
    ),
    (
        "a retry takes the normal lane",
        "worker/delivery/receive.py",
        "queue=received.spec.queue, priority=received.spec.priority)",
        "queue=received.spec.queue)",
    ),
    (
        "what a tenant may not ask for is accepted",
        "owner/limits.py",
        "    if priority is None or (highest := bounded(priority, tenant, services, now)) is priority:\n",
        "    if priority is None or (highest := bounded(priority, tenant, services, now)):\n",
    ),
    (
        "what a job has in excess is kept",
        "sdk/base.py",
        "given.priority or bounded(own.priority, self.tenant, self._services, self._clock())",
        "given.priority or own.priority",
    ),
    (
        "a replay has more than the tenant may",
        "owner/runs/redrive.py",
        "planned = _bounded(_planned(original, ref, context, payload), context)",
        "planned = _planned(original, ref, context, payload)",
    ),
    (
        "a full low lane holds everybody",
        "domain/queue.py",
        'return f"{queue or DEFAULT_QUEUE}{_LOW_PART}" if priority is Priority.LOW else queue',
        "return queue",
    ),
    (
        "the low lane counts against the others",
        "domain/queue.py",
        "if queue not in prioritised or (stripe.priority is Priority.LOW) == is_low",
        "if queue or not queue",
    ),
    (
        "an entry forgets its priority",
        "fires/plan.py",
        "        priority=definition.overrides.priority or Priority.NORMAL,\n",
        "",
    ),
    (
        "a page is worked off by time alone",
        "ticker/tick.py",
        "sorted(entries, key=lambda e: e.priority.rank)",
        "entries",
    ),
)
